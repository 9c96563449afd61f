"""Winoground's question in the built-in world: two scenes of the same objects, two of which swap places, and two captions of the
same words.

    a red circle left of a blue square / a blue square left of a red circle

Each caption is true of its own scene and false of the other, by :mod:`mdc.data.scenes.check`. Both scenes belong to the choice
sets' share of all scenes, so neither was trained on.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from mdc.data.formats.samples import ChoiceSample, Shortcut, Skipped
from mdc.data.scenes.check import check_caption, false_claims
from mdc.data.scenes.choice_shortcuts import pair_shortcuts
from mdc.data.scenes.drawing import OWNED, bucket, draw_scene
from mdc.data.scenes.language import article
from mdc.data.scenes.render import encode_png, render
from mdc.data.scenes.streams import draws_for
from mdc.data.scenes.world import Description, Scene
from mdc.data.sources.choices.two_images import FACTS, two_samples
from mdc.data.sources.source import Source

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
