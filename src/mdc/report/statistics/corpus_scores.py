"""BLEU and METEOR of a set of captions, from per-caption counts: neither is a mean over captions.

Counts are additive, so a bootstrap over images computes the scores of each resample from sums.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: … of METEOR, as its program writes them: lengths and function words of caption and reference (4), matches of content and
#: function words in both by four kinds (16), chunks, matched words of both
METEOR_COUNTS = 23

# METEOR 1.5's values for English (Denkowski & Lavie, 2014, table 1)
_ALPHA, _BETA, _GAMMA, _DELTA, _WEIGHTS = 0.85, 0.2, 0.6, 0.75, np.array([1.0, 0.6, 0.8, 0.6])


def bleu(sums: Floats, order: int) -> Floats:
    """BLEU-``order`` in 0…1 of sums of counts (R, 10): (R,). As pycocoevalcap has it, with its guards against 0 / 0."""
    guessed, right = sums[:, 2:6], sums[:, 6:10]
    precision = np.prod((right[:, :order] + 1e-15) / (guessed[:, :order] + 1e-9), axis=1) ** (1 / order)
    ratio = (sums[:, 0] + 1e-15) / (sums[:, 1] + 1e-9)
    return np.asarray(precision * np.where(ratio < 1, np.exp(1 - 1 / ratio), 1.0))


def meteor(sums: Floats) -> Floats:
    """METEOR in 0…1 of sums of counts (R, 23): (R,)."""
    lengths, functions = sums[:, 0:2], sums[:, 2:4]  # of caption and reference
    matches = sums[:, 4:20].reshape(-1, 4, 2, 2)  # kinds, content or function words, caption or reference
    weighted = np.einsum("rkwc,k,w->rc", matches, _WEIGHTS, np.array([_DELTA, 1 - _DELTA]))
    whole = _DELTA * (lengths - functions) + (1 - _DELTA) * functions
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = np.where(whole > 0, weighted / whole, 0.0).T
        mean = precision * recall / (_ALPHA * precision + (1 - _ALPHA) * recall)
        pieces = sums[:, 20] / (sums[:, 21:23].mean(axis=1))
        score = mean * (1 - _GAMMA * np.where(np.isfinite(pieces), pieces, 0.0) ** _BETA)
    return np.asarray(np.where(np.isfinite(score), score, 0.0))
