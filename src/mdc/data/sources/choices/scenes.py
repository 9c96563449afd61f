"""Choice sets of the built-in world: rendered scenes with a right caption and wrong ones, like ARO and SugarCrepe.

A wrong caption is checked to be false of the scene. The order sets use ARO's four perturbations with the grammar's own parts of
speech; a perturbed caption can be false, unreadable, or by chance still true, and the index counts each.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.samples import ChoiceSample, Shortcut, Skipped
from mdc.data.scenes.captions import compose
from mdc.data.scenes.check import check_caption, false_claims
from mdc.data.scenes.choice_shortcuts import choice_shortcuts
from mdc.data.scenes.drawing import draw_scene
from mdc.data.scenes.language import tags_of, text_of, words_of
from mdc.data.scenes.render import encode_png, render
from mdc.data.scenes.streams import draws_for
from mdc.data.scenes.world import Scene
from mdc.data.scenes.wrong import wrong_pair
from mdc.data.sources.choices.perturbations import perturbed, published_form
from mdc.data.sources.source import Source

_ORDERS = {"dense_order": "dense", "alt_order": "alt"}
_MARKS = {".", ",", ":", "-"}
#: captions of fewer words have at most two of ARO's trigrams, and half of the permutations of two are the identity
_LEAST_WORDS = 7


class SceneChoices(Source[ChoiceSample]):
    """``items`` scenes of a ``question``; ``id`` is the scene's index in its stream, in which some pose no question."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._outcomes: Counter[str] = Counter()
        if source["question"] in _ORDERS:
            self.facts = {"tagger": {"tagger": "the grammar's own tags"}, "perturbed": self._outcomes}

    def samples(self, split: str, skipped: Skipped) -> Iterator[ChoiceSample]:
        source = self.config
        for number, (index, scene, options, group) in enumerate(self._posed()):
            yield ChoiceSample(
                f"{number:08d}",
                encode_png(render(scene, source["pixels"])),
                "png",
                truth=scene.to_json(),
                options=options,
                group=group,
                id=str(index),
                image_name=f"scenes:{source['seed']}:{index}",
            )

    def shortcuts(self) -> list[Shortcut]:
        return choice_shortcuts([(scene, options) for _, scene, options, _ in self._posed()])

    def _posed(self) -> Iterator[tuple[int, Scene, tuple[str, ...], str]]:
        """(scene's index in its stream, scene, options, group) of each item."""
        source = self.config
        self._outcomes.clear()
        options_of = self._order if source["question"] in _ORDERS else self._pair
        scenes = ((index, draw_scene("choices", "test", source["seed"], index)) for index in itertools.count())
        posed = ((index, scene, *item) for index, scene in scenes if (item := options_of(scene, index)) is not None)
        return itertools.islice(posed, source["items"])

    def _pair(self, scene: Scene, index: int) -> tuple[tuple[str, ...], str] | None:
        question, seed = self.config["question"], self.config["seed"]
        pair = wrong_pair(question, scene, draws_for(f"choices/{question}", "test", seed, index), seed, index)
        return None if pair is None else (pair[:2], pair[2])

    def _order(self, scene: Scene, index: int) -> tuple[tuple[str, ...], str] | None:
        """A true caption and its four perturbations, in ARO's form."""
        style, seed, most = _ORDERS[self.config["question"]], self.config["seed"], self.config["max_words"]
        caption = compose(scene, style, seed, index).text
        words = words_of(caption.replace("_", " _ "))  # a camera's file name is one unreadable word otherwise
        # the right caption must be true and readable as it is shown: cut to so many words
        shown = text_of(_cut(words, most))
        if check_caption(scene, caption) or check_caption(scene, shown):
            return None
        if len([word for word in words if word not in _MARKS]) < _LEAST_WORDS:
            return None
        rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, index, 0, len(style)]))
        orders = perturbed(words, tags_of(words), words, rng)
        for order in orders:
            self._outcomes[_outcome(scene, words, order, most)] += 1
        texts = [published_form(" ".join(order), most) for order in (words, *orders)]
        return tuple(texts), "order"


open_source = SceneChoices  # see mdc.data.sources.source


def _outcome(scene: Scene, words: list[str], order: list[str], most: int) -> str:
    """Whether a perturbed caption is "the same", "unreadable", "false", or "still true", read with its marks."""
    if _cut(order, most) == _cut(words, most):
        return "the same"
    false, unknown = false_claims(scene, text_of(_cut(order, most)))
    return "unreadable" if unknown else "false" if false else "still true"


def _cut(words: list[str], most: int) -> list[str]:
    """The first ``most`` words with the marks between them."""
    kept, count = [], 0
    for word in words:
        count += word not in _MARKS
        if count > most:
            break
        kept.append(word)
    return kept
