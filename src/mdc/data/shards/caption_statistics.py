"""What is counted over a set's captions: their lengths in CLIP pieces, and what batches and vocabularies need of them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mdc.data.shards.index import token_hash
from mdc.models.text import clip_pieces

UNIT = "CLIP pieces, SOT and EOT not counted"
_DRAWN = 25_600  # samples drawn for a duplicate share, in batches: at least 8 of them


class CaptionLengths:
    """How many captions have how many CLIP pieces; ``context_length`` (SOT and EOT within it) cuts longer ones."""

    def __init__(self, context_length: int) -> None:
        self.most = context_length - 2
        self.lengths: Counter[int] = Counter()

    def summary(self) -> dict[str, Any]:
        """Count, mean, median, maximum, share that the context cuts, and the histogram {pieces: captions}."""
        count = sum(self.lengths.values())
        if not count:
            return {"count": 0, "mean": None, "median": None, "max": None, "truncated_share": None, "histogram": {}}
        ordered = sorted(self.lengths)
        reached = np.cumsum([self.lengths[length] for length in ordered])
        lower, upper = (ordered[int(np.searchsorted(reached, k, side="right"))] for k in ((count - 1) // 2, count // 2))
        return {
            "count": count,
            "mean": sum(length * n for length, n in self.lengths.items()) / count,
            "median": (lower + upper) / 2,
            "max": ordered[-1],
            "truncated_share": sum(n for length, n in self.lengths.items() if length > self.most) / count,
            "histogram": {str(length): self.lengths[length] for length in ordered},
        }


class CaptionStatistics(CaptionLengths):
    """Lengths, pieces and hashes of the captions of samples, a few bytes each. ``seen``: pieces that the context does not cut."""

    def __init__(self, context_length: int) -> None:
        super().__init__(context_length)
        self.pieces: set[int] = set()
        self.seen: set[int] = set()
        self.starts = array("q")  # where each sample's captions begin in ``hashes``, which are as the context cuts them
        self.hashes = array("q")

    def add(self, captions: Iterable[str]) -> None:
        """Count the captions of one sample."""
        self.starts.append(len(self.hashes))
        for caption in captions:
            pieces = clip_pieces(caption)
            self.lengths[len(pieces)] += 1
            self.pieces.update(pieces)
            self.seen.update(pieces[: self.most])
            self.hashes.append(token_hash(pieces[: self.most]))

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as arrays of int64, which :meth:`join` takes: the samples of one part of a corpus."""
        lengths = sorted(self.lengths)
        return {
            "lengths": np.array(lengths, dtype=np.int64),
            "captions": np.array([self.lengths[length] for length in lengths], dtype=np.int64),
            "pieces": np.array(sorted(self.pieces), dtype=np.int64),
            "seen": np.array(sorted(self.seen), dtype=np.int64),
            "starts": np.frombuffer(self.starts, dtype=np.int64),
            "hashes": np.frombuffer(self.hashes, dtype=np.int64),
        }

    def join(self, part: Mapping[str, np.ndarray]) -> None:
        """Take the samples of a part after those that are there."""
        self.lengths.update(dict(zip(part["lengths"].tolist(), part["captions"].tolist(), strict=True)))
        self.pieces.update(part["pieces"].tolist())
        self.seen.update(part["seen"].tolist())
        self.starts.frombytes((part["starts"] + len(self.hashes)).astype(np.int64).tobytes())
        self.hashes.frombytes(part["hashes"].astype(np.int64).tobytes())

    def duplicate_shares(self) -> dict[str, float]:
        """The share of samples in a random batch whose caption stands there twice, for batches of 16, 32, 64, …"""
        hashes, starts = (np.frombuffer(numbers, dtype=np.int64) for numbers in (self.hashes, self.starts))
        batches = [2**k for k in range(4, 17) if 2**k <= len(starts)] or [len(starts)]
        return {str(batch): duplicate_share(hashes, starts, batch, seed=0) for batch in batches}


def duplicate_share(hashes: np.ndarray, starts: np.ndarray, batch: int, seed: int) -> float:
    """Expected share of samples in a random batch whose caption occurs at least twice in that batch, which a contrastive
    loss would take for a wrong answer.

    ``hashes`` (captions,) int64 of all samples one after the other, ``starts`` (samples,) int64 where each sample's begin, of
    which one is shown. Estimated over batches drawn without replacement, as an epoch draws them; the seed decides the
    draws. 0 where there is no pair.
    """
    if batch < 2:
        return 0.0
    rng = np.random.Generator(np.random.Philox(key=seed))
    ends = np.append(starts[1:], len(hashes))
    twice = 0
    draws = max(8, _DRAWN // batch)
    for _ in range(draws):
        rows = rng.choice(len(starts), size=batch, replace=False)
        picks = rng.random(batch)
        first = starts[rows]
        shown = hashes[first + (picks * (ends[rows] - first)).astype(np.int64)]
        _, counts = np.unique(shown, return_counts=True)
        twice += int(counts[counts > 1].sum())
    return twice / (draws * batch)
