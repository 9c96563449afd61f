"""Single words of a caption against its scene."""

from __future__ import annotations

from mdc.scenes.captions import describe
from mdc.scenes.drawing import draw_scene
from mdc.scenes.true_words import WORD_KINDS, true_words
from mdc.scenes.world import Scene, SceneObject


def _scene(*objects: tuple[str, str, int]) -> Scene:
    placed = [SceneObject(shape, colour, size, 48 * n, 48) for n, (shape, colour, size) in enumerate(objects, 1)]
    return Scene("plain", (10, 10, 10), 0, tuple(placed))


SCENE = _scene(("circle", "red", 30), ("circle", "red", 30), ("star", "blue", 30))


def test_words_count_whatever_stands_around_them() -> None:
    assert WORD_KINDS == ("colour", "shape", "count")
    # red is there and green is not; circles and star are there and square is not; two circles, three in all, not four
    assert true_words(SCENE, "Red green circles star square two 3 four") == [1, 2, 2, 3, 2, 3]
    assert true_words(SCENE, "") == [0] * 6
    assert true_words(SCENE, "red red redden") == [2, 2, 0, 0, 0, 0], "twice counts twice, a part of a word not at all"
    assert true_words(SCENE, "one star, one thing") == [0, 0, 1, 1, 2, 2]


def test_all_words_of_a_dense_caption_are_true() -> None:
    for index in range(300):
        scene = draw_scene("caption", "train", 5, index)
        counts = true_words(scene, describe(scene, "dense", 5, index))
        assert counts[0] == counts[1] and counts[2] == counts[3] > 0
