"""The order of an epoch: a permutation that is computed place by place, without storing it.

A Feistel network permutes the numbers below a power of two, for any round function (Luby and Rackoff, 1988). It is applied
until the number is inside the range (cycle walking: Black and Rogaway, 2002), which gives a permutation of the range.
"""

import numpy as np

from mdc.data.loader.draws import ORDER, sample_rng

_ROUNDS = 10  # each changes one half; test_shuffle.py tests small permutations against chance
_LEAST_BITS = 8  # halves of fewer than four bits have too few functions


def shuffled(places: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
    """The samples at ``places`` (any shape, int64, in [0, count)) of an epoch of ``count``; int64 of the same shape.

    A bijection of range(count) for each (seed, epoch), and a function of nothing else.
    """
    return permuted(places, count, sample_rng(seed, epoch, 0, ORDER))


def permuted(places: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """A permutation of range(count) at ``places``; it depends on the next ten 64-bit numbers of ``rng``."""
    if count == 1:
        return np.zeros_like(places)
    bits = max((count - 1).bit_length(), _LEAST_BITS)
    keys = rng.integers(0, 2**64, size=_ROUNDS, dtype=np.uint64)
    values = _network(np.asarray(places, dtype=np.uint64), bits, keys)
    while (outside := values >= count).any():
        values[outside] = _network(values[outside], bits, keys)
    return values.astype(np.int64)


def _network(numbers: np.ndarray, bits: int, keys: np.ndarray) -> np.ndarray:
    """``numbers`` uint64 below 2^bits through the network; the halves differ by a bit where ``bits`` is odd."""
    low_bits = np.uint64(bits - bits // 2)
    low_mask, high_mask = np.uint64((1 << int(low_bits)) - 1), np.uint64((1 << bits // 2) - 1)
    high, low = numbers >> low_bits, numbers & low_mask
    for turn, key in enumerate(keys):
        if turn % 2:
            low = low ^ (_mixed(high, key) & low_mask)
        else:
            high = high ^ (_mixed(low, key) & high_mask)
    return (high << low_bits) | low


def _mixed(numbers: np.ndarray, key: np.uint64) -> np.ndarray:
    """64 bits that each depend on all bits of a number and of the key (the finaliser of SplitMix64)."""
    mixed = numbers + key
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
