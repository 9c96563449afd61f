"""The Gumbel VQGAN with a factor of 8 that others trained on OpenImages, as far as codes need it (MC-Diffusion, section 4).

Names of layers are those of its checkpoint, so its weights load as they are. Its quantiser adds noise where it should not; here a
code is the most likely one. B images of S×S pixels, h = S / 8.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mdc.extensions.mc_diffusion.kinds import GumbelVqgan

_CHANNELS, _MULTIPLES, _WIDTH = 128, (1, 1, 2, 4), 256
#: sides of a grid at which there is attention
_ATTENDS = 32


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(32, channels, eps=1e-6)


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = _norm(inside), nn.Conv2d(inside, outside, 3, padding=1)
        self.norm2, self.conv2 = _norm(outside), nn.Conv2d(outside, outside, 3, padding=1)
        self.nin_shortcut = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        return self.nin_shortcut(x) + self.conv2(F.silu(self.norm2(y)))


class GridAttention(nn.Module):
    """Self-attention of one head over the places of a grid."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = _norm(channels)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(channels, channels, 1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = (layer(y).flatten(2).transpose(1, 2)[:, None] for layer in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v)[:, 0]
        return x + self.proj_out(mixed.transpose(1, 2).reshape(x.shape))


class Halve(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x, (0, 1, 0, 1)))


class Level(nn.Module):
    def __init__(self, inside: int, outside: int, attends: bool, last: bool) -> None:
        super().__init__()
        self.block = nn.ModuleList([Block(inside, outside), Block(outside, outside)])
        self.attn = nn.ModuleList([GridAttention(outside) for _ in range(2)] if attends else [])
        self.downsample = nn.Identity() if last else Halve(outside)

    def forward(self, x: Tensor) -> Tensor:
        for number, block in enumerate(self.block):
            x = block(x)
            if self.attn:
                x = self.attn[number](x)
        return self.downsample(x)


class Middle(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.block_1, self.attn_1, self.block_2 = (
            Block(channels, channels),
            GridAttention(channels),
            Block(channels, channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.block_2(self.attn_1(self.block_1(x)))


class VqganEncoder(nn.Module):
    """(B, 3, S, S) in [−1, 1] → (B, 256, h, h)."""

    def __init__(self, image_size: int) -> None:
        super().__init__()
        widths = [_CHANNELS, *(_CHANNELS * multiple for multiple in _MULTIPLES)]
        last = len(_MULTIPLES) - 1
        # where there is attention follows from the size that the network was made for, 256, not from the image's
        self.conv_in = nn.Conv2d(3, _CHANNELS, 3, padding=1)
        self.down = nn.ModuleList(
            Level(widths[n], widths[n + 1], 256 >> n == _ATTENDS, n == last) for n in range(len(_MULTIPLES))
        )
        self.mid = Middle(widths[-1])
        self.norm_out, self.conv_out = _norm(widths[-1]), nn.Conv2d(widths[-1], _WIDTH, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_in(x)
        for level in self.down:
            x = level(x)
        return self.conv_out(F.silu(self.norm_out(self.mid(x))))


class GumbelTokenizer(nn.Module):
    """Images to codes. ``codebook`` (K, E): the vector of each code; M = h² places, row by row."""

    codebook: Tensor

    def __init__(self, entry: GumbelVqgan) -> None:
        super().__init__()
        self.encoder = VqganEncoder(entry.image_size)
        self.quant_conv = nn.Conv2d(_WIDTH, entry.width, 1)
        self.projection = nn.Linear(entry.width, entry.codes)
        self.register_buffer("codebook", torch.zeros(entry.codes, entry.width))

    def vectors(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) in [−1, 1] → (B, M, E), before any code is looked up."""
        return self.quant_conv(self.encoder(images)).flatten(2).transpose(1, 2)

    def codes(self, vectors: Tensor) -> Tensor:
        """Of vectors (B, M, E) the numbers of the most likely codes, (B, M) int64."""
        return self.projection(vectors).argmax(dim=-1)


def renamed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the checkpoint that :class:`GumbelTokenizer` has, under its names."""
    state = {name: value for name, value in weights.items() if name.startswith(("encoder.", "quant_conv."))}
    # taming's "attn" lists are there at every level, and empty where there is no attention
    state["projection.weight"] = weights["quantize.proj.weight"].flatten(1)
    state["projection.bias"] = weights["quantize.proj.bias"]
    state["codebook"] = weights["quantize.embed.weight"]
    return {name: value.float() for name, value in state.items()}
