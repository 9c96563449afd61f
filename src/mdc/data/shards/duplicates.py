"""How often a caption stands twice in a training batch, which a contrastive loss would take for a wrong answer."""

from __future__ import annotations

import numpy as np

_DRAWN = 25_600  # samples drawn for a duplicate share, in batches: at least 8 of them


def duplicate_share(hashes: np.ndarray, starts: np.ndarray, batch: int, seed: int) -> float:
    """Expected share of samples in a random batch whose caption occurs at least twice in that batch.

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
