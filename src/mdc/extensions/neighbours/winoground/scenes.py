"""Winoground's question in the built-in world: two scenes of the same objects, two of which swap places, and two captions of the
same words.

    a red circle left of a blue square / a blue square left of a red circle

Each caption is true of its own scene and false of the other, by :mod:`mdc.data.scenes.check`. Both scenes belong to the choice
sets' share of all scenes, so neither was trained on.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from mdc.data.formats.samples import ChoiceSample, Shortcut, Skipped
from mdc.data.formats.winoground import PAIR_CHANCE, pair_values
from mdc.data.scenes.check import check_caption, false_claims
from mdc.data.scenes.choice_shortcuts import PARTIAL
from mdc.data.scenes.drawing import OWNED, bucket, draw_scene
from mdc.data.scenes.language import article
from mdc.data.scenes.render import encode_png, render
from mdc.data.scenes.shortcuts import best_of_each_kind
from mdc.data.scenes.streams import draws_for
from mdc.data.scenes.world import Description, Scene
from mdc.data.sources.source import Source
from mdc.extensions.neighbours.winoground.two_images import FACTS, two_samples

_TASK, _SPLIT, _STREAM = "choices", "test", "choices/pairs"
#: phases of a background's pattern: another phase moves the second scene to another share of all scenes
_PHASES = 16


class ScenesPairs(Source[ChoiceSample]):
    """``items`` pairs; an item is named by the index of its first scene in its stream."""

    facts = FACTS

    def samples(self, split: str, skipped: Skipped) -> Iterator[ChoiceSample]:
        source = self.config
        for number, (index, scenes, captions) in enumerate(self._posed()):
            images = [(encode_png(render(scene, source["pixels"])), "png") for scene in scenes]
            shown, truths = f"scenes:{source['seed']}:{index}", [scene.to_json() for scene in scenes]
            yield from two_samples(number, str(index), images, captions, shown, truths)

    def shortcuts(self) -> list[Shortcut]:
        return pair_shortcuts((scenes, captions) for _, scenes, captions in self._posed())

    def _posed(self) -> Iterator[tuple[int, tuple[Scene, Scene], tuple[str, str]]]:
        """(first scene's index in its stream, scenes, captions) of each item."""
        pairs = ((index, swapped_pair(self.config["seed"], index)) for index in itertools.count())
        return itertools.islice(((index, *pair) for index, pair in pairs if pair is not None), self.config["items"])


open_source = ScenesPairs  # see mdc.data.sources.source


def pair_shortcuts(pairs: Iterable[tuple[Sequence[Scene], Sequence[str]]]) -> list[Shortcut]:
    """The best of each kind for each of Winoground's scores; ``pairs``: (two scenes, the caption of each). Without the image all
    three are 0, since an equal score is not higher."""
    shown = [
        (scene, (captions[own], captions[1 - own])) for scenes, captions in pairs for own, scene in enumerate(scenes)
    ]
    places = [(n, n + 1) for n in range(0, len(shown), 2)]
    scored = {
        kind: np.array([[partial(scene, text) for text in texts] for scene, texts in shown])
        for kind, partial in PARTIAL.items()
    }
    found: list[Shortcut] = []
    for score in PAIR_CHANCE:
        values = {kind: float(pair_values(scores, places, score).mean()) for kind, scores in scored.items()}
        found += best_of_each_kind((value, Shortcut(*kind, value, score)) for kind, value in values.items())
    return found


def swapped_pair(seed: int, index: int) -> tuple[tuple[Scene, Scene], tuple[str, str]] | None:
    """Two scenes and the caption of each; None if the scene of this index has no two objects that can swap places."""
    scene, draws = draw_scene(_TASK, _SPLIT, seed, index), draws_for(_STREAM, _SPLIT, seed, index)
    pairs = scene.single_relations
    if not pairs:
        return None
    kinds = draws.pick(pairs)
    (first,), (second,) = (scene.kinds[kind] for kind in kinds)
    moved = {first: replace(first, x=second.x, y=second.y), second: replace(second, x=first.x, y=first.y)}
    objects = tuple(moved.get(thing, thing) for thing in scene.objects)
    start = draws.between(0, _PHASES - 1)
    candidates = (replace(scene, phase=(start + step) % _PHASES, objects=objects) for step in range(_PHASES))
    swapped = next((candidate for candidate in candidates if bucket(candidate) in OWNED[_TASK][_SPLIT]), None)
    if swapped is None:
        return None
    a, b = map(_noun, kinds)
    relation = scene.relations[kinds]
    captions = f"{a} {relation} {b}", f"{b} {relation} {a}"
    for own, other, caption in ((scene, swapped, captions[0]), (swapped, scene, captions[1])):
        if check_caption(own, caption) or not false_claims(other, caption)[0]:
            return None
    return (scene, swapped), captions


def _noun(kind: Description) -> str:
    noun = str(kind._replace(size=None))
    return f"{article(noun)} {noun}"
