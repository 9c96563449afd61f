"""Probes of relations in which one object tells nothing, by enumeration; and a search that finds the shortcuts there are."""

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path

import numpy as np
import pytest

from mdc.data.scenes.choice_shortcuts import choice_shortcuts, pair_shortcuts
from mdc.data.scenes.drawing import ROW, draw_scene
from mdc.data.scenes.shortcuts import ADDED_UP, probe_shortcuts
from mdc.data.scenes.world import PROBE_CLASSES, RELATIONS, SHAPES, Scene, SceneObject, label_of, third
from mdc.data.shards.choice_set_job import write_choices
from mdc.data.shards.probe_set_job import write_probe
from mdc.data.sources.source import open_choices, open_probe

Scenes = list[tuple[Scene, int]]


def _scene(*objects: tuple[str, str, int, int]) -> Scene:
    return Scene("plain", (80, 80, 80), 0, tuple(SceneObject(s, c, 48, x, y) for c, s, x, y in objects))


def _labelled(task: str, scenes: Iterable[Scene]) -> Scenes:
    return [(scene, label_of(task, scene)) for scene in scenes]


def _cyclic() -> Scenes:
    """Every scene of the probe as to places, red and blue in two of three, and with shapes that are drawn apart from these."""
    drawn = itertools.product(itertools.permutations(ROW, 2), itertools.product(SHAPES[:3], repeat=2))
    return _labelled("cyclic", [_scene(("red", s, a, 96), ("blue", t, b, 96)) for (a, b), (s, t) in drawn])


def _reds_match(shapes: Iterable[str] = SHAPES[:4]) -> Scenes:
    """Every scene of the probe as to shapes and places, each as often as it is drawn: both labels equally often."""
    corners = [(48, 48), (48, 144), (144, 48)]
    found = []
    for one, other in itertools.permutations(shapes, 2):
        for kinds in ((one, one, other), (one, one, other), (one, other, one), (one, other, other)):
            for places in itertools.permutations(corners):
                colours = ("red", "red", "blue")
                found.append(_scene(*((c, s, *p) for c, s, p in zip(colours, kinds, places, strict=True))))
    return _labelled("reds_match", found)


def _told_by(scenes: Scenes, view: Callable[[Scene], Hashable]) -> float:
    """The share of right answers of who knows the view alone, and how often it goes with each label."""
    counts: dict[Hashable, Counter[int]] = {}
    for scene, label in scenes:
        counts.setdefault(view(scene), Counter())[label] += 1
    return sum(max(count.values()) for count in counts.values()) / len(scenes)


VIEWS: dict[str, Callable[[Scene], Hashable]] = {
    "red alone": lambda s: (s.objects[0].shape, third(s.objects[0])),
    "blue alone": lambda s: (s.objects[-1].shape, third(s.objects[-1])),
    "filled places": lambda s: tuple(sorted(map(third, s.objects))),
    "colours without places": lambda s: tuple(sorted(o.colour for o in s.objects)),
    "the bag of words": lambda s: (*sorted(o.colour for o in s.objects), *sorted(o.shape for o in s.objects)),
    "shapes at their places": lambda s: tuple(sorted((third(o), o.shape) for o in s.objects)),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scenes", [_cyclic, _reds_match])
def test_what_needs_no_relation_tells_nothing(scenes: Callable[[], Scenes], view: str) -> None:
    found = scenes()
    assert Counter(label for _, label in found) == {0: len(found) / 2, 1: len(found) / 2}
    assert _told_by(found, VIEWS[view]) == 0.5


def test_all_of_it_tells_everything() -> None:
    for scenes in (_cyclic(), _reds_match()):
        assert _told_by(scenes, lambda s: tuple(sorted((o.colour, o.shape, third(o)) for o in s.objects))) == 1.0


def _added_up(scenes: Scenes, keys: Callable[[SceneObject], Hashable], most: int) -> float:
    """The best share of right answers by a threshold on a sum of weights from −most to most, one for each key: all are tried."""
    known = {key: n for n, key in enumerate(dict.fromkeys(keys(o) for s, _ in scenes for o in s.objects))}
    rows = np.zeros((len(scenes), len(known)))
    for row, (scene, _) in zip(rows, scenes, strict=True):
        np.add.at(row, [known[keys(one)] for one in scene.objects], 1)
    labels = np.array([label for _, label in scenes])
    weights = np.array(list(itertools.product(range(-most, most + 1), repeat=len(known))))
    sums = weights @ rows.T
    right = [((sums > at) == labels).mean(axis=1) for at in np.arange(-3 * most, 3 * most) + 0.5]
    return float(np.max([np.maximum(share, 1 - share) for share in right]))


def test_scores_that_add_up_objects_reach_what_is_printed() -> None:
    """Two shapes decide `reds_match`: of AA|B, BB|A, AB|A and AB|B no sum gets all four, since the first two add up to what the
    last two do."""
    assert _added_up(_cyclic(), lambda o: (o.colour, o.x), 2) == pytest.approx(ADDED_UP["cyclic"])
    assert _added_up(_reds_match(SHAPES[:2]), lambda o: (o.colour, o.shape), 2) == ADDED_UP["reds_match"]
    right_of = [(scene.objects[0].x > scene.objects[1].x) == (label == 0) for scene, label in _cyclic()]
    assert np.mean(right_of) == pytest.approx(2 / 3)


@pytest.mark.parametrize("task", ["cyclic", "reds_match", "axis", "place_of_red"])
def test_scenes_are_drawn_as_evenly_as_they_are_enumerated(task: str) -> None:
    scenes = [draw_scene(task, "train", 5, n) for n in range(3000)]
    classes = len(PROBE_CLASSES[task])
    assert [label_of(task, scene) for scene in scenes[:100]] == [n % classes for n in range(100)]
    places = {
        "cyclic": lambda s: (third(s.objects[0])[0], third(s.objects[1])[0]),
        "reds_match": lambda s: tuple(sorted(Counter(o.shape for o in s.objects).items())),
        "axis": lambda s: tuple(map(third, s.objects)),
        "place_of_red": lambda s: tuple(map(third, s.objects)),
    }[task]
    counts = Counter(map(places, scenes))
    assert len(counts) == {"cyclic": 6, "reds_match": 56}.get(task, 8)
    expected = len(scenes) / len(counts)
    assert sum((n - expected) ** 2 / expected for n in counts.values()) < len(counts) + 5 * np.sqrt(2 * len(counts))


def test_the_search_finds_the_shortcuts_that_there_are() -> None:
    found = {task: {one.kind: one for one in probe_shortcuts(task, 0, 6000, 4000)} for task in PROBE_CLASSES}
    for task in ("cyclic", "reds_match"):
        kinds = ("nothing", "one object", "places", "words")
        assert all(abs(found[task][kind].value - 0.5) < 2 / np.sqrt(4000) for kind in kinds)
        assert found[task]["added up"].value == ADDED_UP[task]
    assert found["axis"]["places"].value == found["place_of_red"]["one object"].value == 1
    assert abs(found["corners"]["places"].value - 0.5) < 0.03 and abs(found["corners"]["one object"].value - 0.5) < 0.03
    assert found["relation"]["one object"].value > 0.68
    assert found["count"]["one object"].value > 0.9 and "size" in found["count"]["one object"].what
    assert all(abs(one.value - 0.125) < 0.02 for task in ("shape", "colour") for one in found[task].values())


def test_corners_are_an_axis_and_a_place_of_red() -> None:
    """… and need no relation: the two together are the answer."""
    scenes = _labelled("corners", [draw_scene("corners", "test", 1, n) for n in range(400)])
    assert _told_by(scenes, lambda s: (label_of("axis", s), label_of("place_of_red", s))) == 1.0
    assert len(RELATIONS) == 4 and _told_by(scenes, lambda s: label_of("place_of_red", s)) < 0.6


def _choice(scene: Scene, *options: str) -> tuple[Scene, tuple[str, ...]]:
    return scene, options


def test_shortcuts_of_choice_sets_are_found_and_equal_captions_are_ties() -> None:
    scene = _scene(("red", "star", 30, 96), ("blue", "ring", 160, 96))
    asked = [
        _choice(scene, "a red star left of a blue ring", "a red star right of a blue ring"),
        _choice(scene, "a blue ring right of a red star", "a blue ring left of a red star"),
        _choice(scene, "a red star", "a red star"),
        _choice(scene, "a red star", "a green star"),
    ]
    found = {one.kind: one for one in choice_shortcuts(asked)}
    assert found["one object"].value == (1 + 1 + 1 / 2 + 1 / 2) / 4
    assert found["words"].value == (1 / 2 + 1 / 2 + 1 / 2 + 1) / 4
    placed = choice_shortcuts(
        [
            _choice(scene, "a red star left of a blue ring", f"a red star {way} a blue ring")
            for way in ("above", "right of")
        ]
    )
    assert next(one for one in placed if one.kind == "places").value == (1 + 1 / 2) / 2
    longer = choice_shortcuts([_choice(scene, "a star", "a red star on sand")] * 4)
    assert next(one for one in longer if one.kind == "no image").value == 1
    # the model of words learns that "wet" is wrong, from the other half
    learnt = [
        _choice(scene, f"a {one} star", f"a {one} wet" if n % 2 else f"wet {one}") for n, one in enumerate("abcdefgh")
    ]
    assert max(one.value for one in choice_shortcuts(learnt) if one.kind == "no image") == 1


def test_shortcuts_of_pairs_are_by_winogrounds_scores_in_which_an_equal_score_is_not_higher() -> None:
    star, ring, bar = ("red", "star"), ("blue", "ring"), ("green", "bar")
    captions = ("a red star left of a blue ring", "a blue ring left of a red star")
    # in the first item the objects are in opposite halves; in the second both are in the left one
    across = (_scene((*star, 30, 96), (*ring, 160, 96)), _scene((*star, 160, 96), (*ring, 30, 96)))
    beside = (_scene((*star, 10, 96), (*ring, 80, 96)), _scene((*star, 80, 96), (*ring, 10, 96)))
    found = {(one.score, one.kind): one.value for one in pair_shortcuts([(across, captions), (beside, captions)])}
    assert {score: found[score, "one object"] for score in ("text", "image", "group")} == dict.fromkeys(
        ("text", "image", "group"), 1 / 2
    )
    assert {value for (_, kind), value in found.items() if kind != "one object"} == {0}
    # captions of things that only one image has: each image's own caption by words, and each caption's own image
    other = (across[0], _scene((*star, 30, 96), (*bar, 160, 96)))
    named = pair_shortcuts([(other, ("a blue ring", "a green bar"))])
    assert {one.score: one.value for one in named if one.kind == "words"} == {"text": 1, "image": 1, "group": 1}


def test_a_rendered_set_tells_its_shortcuts(tmp_path: Path) -> None:
    probe = open_probe({"kind": "scenes", "task": "cyclic", "seed": 3, "pixels": 16, "train": 40, "test": 20}, tmp_path)
    choices = open_choices({"kind": "scenes", "question": "relation", "items": 20, "seed": 4, "pixels": 16}, tmp_path)
    found = write_probe("turn", probe, tmp_path / "turn")["shortcuts"]
    assert {"kind": "added up", "what": "one number for each object", "value": 5 / 6} in found
    found = write_choices("side", choices, tmp_path / "side")["shortcuts"]
    assert [one["value"] for one in found if one["kind"] == "one object"] == [1]
    assert not any("score" in one for one in found)
    pairs = open_choices({"kind": "scenes_pairs", "items": 6, "seed": 4, "pixels": 16}, tmp_path)
    found = write_choices("pairs", pairs, tmp_path / "pairs")["shortcuts"]
    assert {one["score"]: one["value"] for one in found if one["kind"] == "one object"}["group"] == 1
