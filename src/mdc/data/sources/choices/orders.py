"""ARO's order sets: a caption against four permutations of its words.

As published, a whole caption is perturbed, then it and its perturbations are normalised and cut to ``max_words``. The published
sets were drawn without a fixed seed, so they cannot be reproduced; here the draws depend on ``seed`` and the caption's id.
As in the published sets, a comma or an 's is a word of its own in the perturbed captions, but not in the right one.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdc.data.formats.samples import ChoiceSample
from mdc.data.sources.choices.perturbations import perturbed, published_form
from mdc.data.sources.choices.tagging import Tagged, tagger, treebank_words
from mdc.data.sources.cleaned import Choices


class Orders(Choices):
    """One sample per caption with five options: the caption; nouns and adjectives permuted; the other words; two of trigrams.

    UserError if the tagger is missing.
    """

    def __init__(self, source: Mapping[str, Any]) -> None:
        super().__init__(source)
        self._tag, tagger_facts = tagger(source["tagger"])
        self._words, tokenizer_facts = treebank_words()
        self.facts = {"tagger": tagger_facts, "tokenizer": tokenizer_facts}

    def ordered(
        self, number: int, image: tuple[bytes, str], caption: str, caption_id: str, image_name: str
    ) -> ChoiceSample:
        """The sample of one caption, independent of the others."""
        rng = generator(self.config["seed"], caption_id)
        options = options_of(caption, self._tag(caption), self._words(caption), rng, self.config["max_words"])
        return ChoiceSample(
            f"{number:08d}", *image, options=tuple(options), group="order", id=caption_id, image_name=image_name
        )


def options_of(
    caption: str, tagged: Tagged, words: Sequence[str], rng: np.random.Generator, max_words: int
) -> list[str]:
    """The caption and its four perturbations, normalised as published.

    ``tagged``: its words and their tags by the tagger; ``words``: its words by the Penn Treebank's rules.
    """
    return [published_form(text, max_words) for text in (caption, *map(" ".join, perturbed(*tagged, words, rng)))]


def generator(seed: int, caption_id: str) -> np.random.Generator:
    """The random numbers of one caption, independent of the others."""
    digest = hashlib.blake2b(f"{seed} {caption_id}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))
