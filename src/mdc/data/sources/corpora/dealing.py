"""Images dealt into splits anew: which keys are of which split."""

from __future__ import annotations

from collections.abc import Iterable

from mdc.data.formats.rank import rank_hash
from mdc.plan.records import UserError


def dealt(keys: Iterable[str], seed: int, test: int, val: int, where: str) -> dict[str, frozenset[str]]:
    """The keys of "test", "val" and "train": the ``test`` keys of the lowest (hash, key), the ``val`` next ones, all others.

    Rows that share a key go to one split together, and the order of ``keys`` does not matter. UserError, which begins with
    ``where``, if none would be left to train on.
    """
    ordered = sorted(set(keys), key=lambda key: (rank_hash(seed, key), key))
    if test + val >= len(ordered):
        raise UserError(
            f"{where}: dealt asks for {test} images to test on and {val} held out, which leaves none of "
            f"{len(ordered)} to train on"
        )
    found = {"test": ordered[:test], "val": ordered[test : test + val], "train": ordered[test + val :]}
    return {split: frozenset(of_split) for split, of_split in found.items()}
