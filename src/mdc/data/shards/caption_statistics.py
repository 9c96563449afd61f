"""Statistics of a set's captions: lengths in CLIP tokens, the tokens that occur, and duplicates in batches."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mdc.data.shards.index import token_hash
from mdc.models.text import clip_pieces

UNIT = "CLIP pieces, SOT and EOT not counted"
_DRAWN = 25_600  # samples drawn for a duplicate share, in at least 8 batches


class CaptionLengths:
    """The histogram of captions by CLIP tokens; ``context_length`` (with SOT and EOT) truncates longer ones."""

    def __init__(self, context_length: int) -> None:
        self.most = context_length - 2
        self.lengths: Counter[int] = Counter()

    def summary(self) -> dict[str, Any]:
        """Count, mean, median, maximum, the truncated share, and the histogram {tokens: captions}."""
        count = sum(self.lengths.values())
        if not count:
            return {"count": 0, "mean": None, "median": None, "max": None, "truncated_share": None, "histogram": {}}
        ordered = sorted(self.lengths)
        cumulative = np.cumsum([self.lengths[length] for length in ordered])
        lower, upper = (
            ordered[int(np.searchsorted(cumulative, k, side="right"))] for k in ((count - 1) // 2, count // 2)
        )
        return {
            "count": count,
            "mean": sum(length * n for length, n in self.lengths.items()) / count,
            "median": (lower + upper) / 2,
            "max": ordered[-1],
            "truncated_share": sum(n for length, n in self.lengths.items() if length > self.most) / count,
            "histogram": {str(length): self.lengths[length] for length in ordered},
        }


class CaptionStatistics(CaptionLengths):
    """Lengths, tokens and hashes of captions, a few bytes each. ``seen``: the tokens that are left after truncation."""

    ARRAYS = ("lengths", "captions", "pieces", "seen", "starts", "hashes")

    def __init__(self, context_length: int) -> None:
        super().__init__(context_length)
        self.pieces: set[int] = set()
        self.seen: set[int] = set()
        self.starts = array("q")  # where each sample's captions begin in ``hashes`` (of truncated captions)
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
        """All of it as int64 arrays (``ARRAYS``) for :meth:`join`: the samples of one part of a corpus."""
        lengths = sorted(self.lengths)
        counts = [self.lengths[length] for length in lengths]
        values = (lengths, counts, sorted(self.pieces), sorted(self.seen), self.starts, self.hashes)
        return {name: np.array(numbers, dtype=np.int64) for name, numbers in zip(self.ARRAYS, values, strict=True)}

    def join(self, part: Mapping[str, np.ndarray]) -> None:
        """Append the samples of a part."""
        self.lengths.update(dict(zip(part["lengths"].tolist(), part["captions"].tolist(), strict=True)))
        self.pieces.update(part["pieces"].tolist())
        self.seen.update(part["seen"].tolist())
        self.starts.frombytes((part["starts"] + len(self.hashes)).astype(np.int64).tobytes())
        self.hashes.frombytes(part["hashes"].astype(np.int64).tobytes())

    def duplicate_shares(self) -> dict[str, float]:
        """The share of samples in a random batch whose caption is in it at least twice, for batches of 16, 32, 64, …"""
        hashes, starts = (np.frombuffer(numbers, dtype=np.int64) for numbers in (self.hashes, self.starts))
        batches = [2**k for k in range(4, 17) if 2**k <= len(starts)] or [len(starts)]
        return {str(batch): duplicate_share(hashes, starts, batch, seed=0) for batch in batches}


def duplicate_share(hashes: np.ndarray, starts: np.ndarray, batch: int, seed: int) -> float:
    """Expected share of samples in a random batch whose caption occurs at least twice in it: false negatives of a contrastive
    loss.

    ``hashes`` (captions,) int64 of all samples in order, ``starts`` (samples,) int64 where each sample's begin, one of which is
    drawn. Estimated over batches drawn without replacement with ``seed``. 0 for batches of one sample.
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
