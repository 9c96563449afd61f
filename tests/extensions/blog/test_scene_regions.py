"""Boxes of objects that are found in pictures, against those that the scenes know."""

import numpy as np
import pytest

from mdc.data.scenes.drawing import GREYS, SHADES, TINT, draw_scene
from mdc.data.scenes.render import CONTRAST, RGB, SHADE_STEP, render
from mdc.data.scenes.shapes import outline
from mdc.data.scenes.world import UNITS, Scene
from mdc.extensions.blog.regions import BRIGHT, object_boxes

SIDE = 48


def true_boxes(scene: Scene) -> list[tuple[float, ...]]:
    """Of each object, from its outline, in pixels."""
    found = []
    for one in scene.objects:
        xs, ys = zip(*outline(one.shape, one.rotation), strict=True)
        box = [at + one.size * side(of) for side in (min, max) for at, of in ((one.x, xs), (one.y, ys))]
        found.append(tuple(value * SIDE / UNITS for value in box))
    return found


def near(found: np.ndarray, scene: Scene) -> bool:
    """Whether they are the true boxes, in any order, to two and a half pixels: tips of stars and crescents are thinner than one
    pixel, and of a dark object they are then no brighter than the ground."""
    true = true_boxes(scene)
    there = [box for box in found.tolist() if box != [0, 0, SIDE, SIDE]]
    missing = len(found) - len(there)
    left = list(there)
    for box in true:
        close = [other for other in left if max(abs(a - b) for a, b in zip(box, other, strict=True)) <= 2.5]
        if not close:
            return False
        left.remove(close[0])
    return not left and missing == len(found) - len(true)


def test_every_object_is_brighter_than_any_ground() -> None:
    darkest = min(max(rgb) for rgb in RGB.values()) - SHADES * SHADE_STEP
    assert GREYS[1] + TINT + CONTRAST < BRIGHT < darkest


@pytest.mark.parametrize("task", ["caption", "count", "relation"])
def test_the_boxes_found_are_the_true_ones(task: str) -> None:
    scenes = [draw_scene(task, "train", 7, index) for index in range(1000)]
    pictures = np.stack([render(scene, SIDE) for scene in scenes]).transpose(0, 3, 1, 2)
    found = object_boxes(pictures, 4)
    assert [n for n, scene in enumerate(scenes) if not near(found[n], scene)] == []
    areas = (found[..., 2] - found[..., 0]) * (found[..., 3] - found[..., 1])
    there = areas < SIDE**2
    for row, seen in zip(areas, there, strict=True):
        assert list(row[seen]) == sorted(row[seen], reverse=True), "the largest first"
    assert np.array_equal(found[17:18], object_boxes(pictures[17:18], 4)), (
        "a picture's boxes depend on no other picture"
    )


def test_of_more_than_there_is_room_for_the_largest_are_kept() -> None:
    picture = np.zeros((1, 3, SIDE, SIDE), dtype=np.uint8)
    for place, side in enumerate((2, 5, 3, 4)):
        picture[0, 1, 10 : 10 + side, 10 * place : 10 * place + side] = 200
    assert object_boxes(picture, 2)[0].tolist() == [[10, 10, 15, 15], [30, 10, 34, 14]]
    assert object_boxes(np.zeros_like(picture), 2)[0].tolist() == 2 * [[0, 0, SIDE, SIDE]]
