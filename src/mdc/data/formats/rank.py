"""The hash that ranks samples: the N lowest ranks are a random subset of size N, and smaller subsets lie in larger ones."""

from __future__ import annotations

import hashlib


def rank_hash(seed: int, key: str) -> int:
    """64 bits (BLAKE2b) that decide the rank of ``key``; they depend on no other key."""
    # keys with broken surrogates are ranked too, before their rows are left out
    text = f"{seed}\0{key}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
