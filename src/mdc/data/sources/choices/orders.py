"""The options of ARO's order sets: a caption and its four perturbations, and the random numbers that they are drawn with."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from mdc.data.sources.choices import perturbations
from mdc.data.sources.choices.tagging import Tagged


def options_of(
    caption: str, tagged: Tagged, words: Sequence[str], rng: np.random.Generator, max_words: int
) -> list[str]:
    """The caption and its four perturbations, in the published form.

    ``tagged``: its words and their tags by the tagger; ``words``: its words by the Penn Treebank's rules.
    """
    orders = [perturb(*tagged, rng) for perturb in perturbations.TAGGED]
    orders += [perturb(words, rng) for perturb in perturbations.UNTAGGED]
    return [perturbations.published_form(text, max_words) for text in (caption, *map(" ".join, orders))]


def generator(seed: int, caption_id: str) -> np.random.Generator:
    """The random numbers of one caption, whatever other captions there are."""
    digest = hashlib.blake2b(f"{seed} {caption_id}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))
