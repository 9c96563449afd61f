"""A small VQ-VAE: convolutions that encode an image as a grid of vectors, and others that decode it.

Quantisation and the codebook's training are in :mod:`mdc.extensions.mc_diffusion.image_tokenizers.job`. B images of S×S pixels,
a grid of h×h = (S / factor)² vectors of E numbers.
"""

import math
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mdc.extensions.mc_diffusion.kinds import VqVae


class Residual(nn.Module):
    """x plus two convolutions of x."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(F.relu(self.first(F.relu(x))))


class GridEncoder(nn.Module):
    """(B, 3, S, S) in [−1, 1] → (B, E, h, h). There is no norm, so an image's vectors depend on no other image."""

    def __init__(self, entry: VqVae) -> None:
        super().__init__()
        self.shrink = nn.ModuleList(nn.Conv2d(a, b, 4, stride=2, padding=1) for a, b in _levels(entry))
        self.mix = nn.Sequential(Residual(entry.channels), Residual(entry.channels), nn.ReLU())
        self.out = nn.Conv2d(entry.channels, entry.width, 1)

    def forward(self, x: Tensor) -> Tensor:
        for number, layer in enumerate(self.shrink):
            x = layer(F.relu(x) if number else x)
        return self.out(self.mix(x))


class GridDecoder(nn.Module):
    """(B, E, h, h) → (B, 3, S, S)."""

    def __init__(self, entry: VqVae) -> None:
        super().__init__()
        self.mix = nn.Sequential(
            nn.Conv2d(entry.width, entry.channels, 3, padding=1), Residual(entry.channels), Residual(entry.channels)
        )
        self.enlarge = nn.ModuleList(
            nn.ConvTranspose2d(b, a, 4, stride=2, padding=1) for a, b in reversed(_levels(entry))
        )

    def forward(self, grid: Tensor) -> Tensor:
        x: Tensor = self.mix(grid)
        for layer in self.enlarge:
            x = layer(F.relu(x))
        return x


def _levels(entry: VqVae) -> list[tuple[int, int]]:
    """Channels before and after each halving of the image: the last has all of them, each one before half as many."""
    halvings = entry.factor.bit_length() - 1
    after = [max(entry.channels >> (halvings - 1 - number), 8) for number in range(halvings)]
    return list(pairwise([3, *after]))


class VqTokenizer(nn.Module):
    """Images to codes and back. ``codebook`` (K, E): the vector of each code; M = h² places, row by row."""

    codebook: Tensor

    def __init__(self, entry: VqVae) -> None:
        super().__init__()
        self.side = entry.image_size // entry.factor
        self.encoder, self.decoder = GridEncoder(entry), GridDecoder(entry)
        self.register_buffer("codebook", torch.zeros(entry.codes, entry.width))

    def vectors(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) in [−1, 1] → (B, M, E), before any code is looked up."""
        return self.encoder(images).flatten(2).transpose(1, 2)

    def codes(self, vectors: Tensor) -> Tensor:
        """Of vectors (B, M, E) the numbers of the nearest codes, (B, M) int64."""
        return nearest(vectors.flatten(0, 1), self.codebook).view(vectors.shape[:2])

    def images(self, vectors: Tensor) -> Tensor:
        """Vectors (B, M, E) → the decoded images (B, 3, S, S)."""
        grid = vectors.transpose(1, 2).unflatten(2, (self.side, self.side))
        return self.decoder(grid)


def pixels(images: Tensor) -> Tensor:
    """(B, 3, S, S) uint8 → float32 in [−1, 1]."""
    return images.float() / 127.5 - 1


def nearest(vectors: Tensor, codebook: Tensor) -> Tensor:
    """Of vectors (N, E) the numbers of the codes (K, E) that are nearest, (N,) int64; of equals the first.

    In float64, so that a code depends neither on how many vectors are looked up together nor on the order of additions.
    """
    return torch.cdist(vectors.double(), codebook.double(), compute_mode="donot_use_mm_for_euclid_dist").argmin(dim=1)


def psnr(error: float) -> float:
    """Peak signal-to-noise ratio in dB, from the mean squared error of pixels in [−1, 1], whose peak-to-peak is 2."""
    return 10 * math.log10(4 / max(error, 1e-12))


def perplexity(counted: np.ndarray) -> float:
    """exp of the entropy of how often each code occurs (K,): as many codes would do if all occurred equally often."""
    shares = counted[counted > 0] / max(counted.sum(), 1)
    return math.exp(-float((shares * np.log(shares)).sum()))
