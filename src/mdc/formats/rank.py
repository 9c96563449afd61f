"""The hash that ranks samples: the N least ranks are a random subset of size N, and smaller subsets lie in larger ones."""

from __future__ import annotations

import hashlib


def rank_hash(seed: int, key: str) -> int:
    """64 bits (BLAKE2b) that decide the rank of ``key``; no other key has a say in it."""
    # a key that is no text is asked for too, before its row is left out for it
    text = f"{seed}\0{key}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
