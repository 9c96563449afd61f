"""Initial weights that depend only on the seed and on a parameter's name.

So the towers that two methods share (encoder, text blocks) start with the same bits, whatever else each method has, and
adding a module changes no other module's weights.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def named_seed(seed: int, name: str) -> int:
    """A 63-bit seed from the run's seed and a name."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def normal_(parameter: Tensor, std: float, seed: int, name: str) -> None:
    """Fill ``parameter`` with N(0, std²), drawn on the CPU in fp32 from (seed, name)."""
    generator = torch.Generator().manual_seed(named_seed(seed, name))
    with torch.no_grad():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * std)


@contextmanager
def seeded(seed: int, name: str) -> Iterator[None]:
    """Seed the global generator for library code that draws from it, and restore its state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(named_seed(seed, name))
        yield


def count_parameters(module: nn.Module) -> int:
    """Number of trainable scalars."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)
