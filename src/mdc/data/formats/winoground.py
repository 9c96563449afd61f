"""Winoground's scores of items of two images and two captions."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: chance in per cent, as published: with four random scores text and image hold in a quarter of the cases, both in a sixth
PAIR_CHANCE = {"text": 25.0, "image": 25.0, "group": 100 / 6}


def pair_values(scores: NDArray[np.float64], pairs: Sequence[tuple[int, int]], score: str) -> NDArray[np.float64]:
    """Winoground's text, image or group score of each pair, (P,) of 0 and 1; ``scores`` (N, 2), an image's own caption first.

    text: each image's own caption scores higher; image: each caption scores higher with its own image; group: both. As
    published, an equal score is not higher. ValueError if a score is no number.
    """
    if np.isnan(scores).any():
        raise ValueError("a score is no number (NaN)")
    (own, other), (other_own, other_other) = (scores[[pair[side] for pair in pairs]].T for side in (0, 1))
    # the first caption is "own" with the first image and "other_other" with the second
    text = (own > other) & (other_own > other_other)
    image = (own > other_other) & (other_own > other)
    return np.asarray({"text": text, "image": image, "group": text & image}[score], dtype=np.float64)
