"""Hashes that identify, hold out and rank samples: each depends only on its own sample."""

import hashlib


def hash64(content: bytes) -> int:
    """64 bits of BLAKE2b."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())


def rank_hash(seed: int, key: str) -> int:
    """The rank of ``key``: the N lowest are a random subset of size N, and smaller subsets are in larger ones."""
    # keys with lone surrogates are ranked too, before their rows are left out
    return hash64(f"{seed}\0{key}".encode("utf-8", "surrogatepass"))
