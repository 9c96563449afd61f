"""A search that finds the shortcuts that there are."""

from pathlib import Path

from mdc.data.scenes.choice_shortcuts import choice_shortcuts
from mdc.data.scenes.shortcuts import probe_shortcuts
from mdc.data.scenes.world import PROBE_CLASSES, Scene, SceneObject
from mdc.data.shards.choice_set_job import write_choices
from mdc.data.shards.probe_set_job import write_probe
from mdc.data.sources.source import open_choices, open_probe
from mdc.extensions.neighbours.winoground.scenes import pair_shortcuts


def _scene(*objects: tuple[str, str, int, int]) -> Scene:
    return Scene("plain", (80, 80, 80), 0, tuple(SceneObject(s, c, 48, x, y) for c, s, x, y in objects))


def test_the_search_finds_the_shortcuts_that_there_are() -> None:
    found = {task: {one.kind: one for one in probe_shortcuts(task, 0, 6000, 4000)} for task in PROBE_CLASSES}
    assert found["relation"]["one object"].value > 0.68
    assert found["count"]["one object"].value > 0.9 and "size" in found["count"]["one object"].what
    assert all(abs(one.value - 0.125) < 0.02 for task in ("shape", "colour") for one in found[task].values())


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
    probe = open_probe(
        {"kind": "scenes", "task": "relation", "seed": 3, "pixels": 16, "train": 40, "test": 20}, tmp_path
    )
    choices = open_choices({"kind": "scenes", "question": "relation", "items": 20, "seed": 4, "pixels": 16}, tmp_path)
    found = write_probe("turn", probe, tmp_path / "turn")["shortcuts"]
    assert {one["kind"] for one in found} == {"nothing", "one object", "places", "words"}
    found = write_choices("side", choices, tmp_path / "side")["shortcuts"]
    assert [one["value"] for one in found if one["kind"] == "one object"] == [1]
    assert not any("score" in one for one in found)
    pairs = open_choices({"kind": "scenes_pairs", "items": 6, "seed": 4, "pixels": 16}, tmp_path)
    found = write_choices("pairs", pairs, tmp_path / "pairs")["shortcuts"]
    assert {one["score"]: one["value"] for one in found if one["kind"] == "one object"}["group"] == 1
