"""The shapes' outlines."""

import math
from functools import cache

Point = tuple[float, float]


def _polar(radius: float, degrees: float, x: float = 0.0) -> Point:
    """A point on a circle around (x, 0), at an angle clockwise on the screen."""
    angle = math.radians(degrees)
    return x + radius * math.cos(angle), radius * math.sin(angle)


def _arc(radius: float, start: float, stop: float, steps: int, x: float = 0.0) -> list[Point]:
    """Points on a circle around (x, 0), from one angle to another."""
    return [_polar(radius, start + (stop - start) * i / steps, x) for i in range(steps + 1)]


def _heart(t: float) -> Point:
    return 16 * math.sin(t) ** 3, -13 * math.cos(t) + 5 * math.cos(2 * t) + 2 * math.cos(3 * t) + math.cos(4 * t)


_ARM = 0.36
_CROSS = [(-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM)]  # half of it
# A crescent is a disc minus a smaller disc, whose centre is to the right: they meet at these angles.
_BITE, _SHIFT = 0.86, 0.52
_MEET = (1 + _SHIFT**2 - _BITE**2) / (2 * _SHIFT)
_OUTER, _INNER = math.degrees(math.acos(_MEET)), math.degrees(math.acos((_MEET - _SHIFT) / _BITE))
# A ring is a keyhole polygon: around outside, across, back around inside.
_OUTLINES: dict[str, list[Point]] = {
    "circle": _arc(1, 0, 360, 40),
    "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "triangle": [(0, -1), (1, 0.8), (-1, 0.8)],
    "star": [_polar(0.48 if i % 2 else 1.0, 36 * i - 90) for i in range(10)],
    "cross": [(sign * x, sign * y) for sign in (1, -1) for x, y in _CROSS],
    "heart": [_heart(2 * math.pi * i / 40) for i in range(40)],
    "ring": [*_arc(1, 0, 360, 40), *_arc(0.52, 360, 0, 32)],
    "crescent": [*_arc(1, _OUTER, 360 - _OUTER, 36), *_arc(_BITE, 360 - _INNER, _INNER, 28, x=_SHIFT)],
}


@cache
def outline(shape: str, rotation: int = 0) -> tuple[Point, ...]:
    """The shape as one polygon, upright bounding box centred on the origin with longer side 1, then rotated."""
    xs, ys = zip(*_OUTLINES[shape], strict=True)
    scale = 1 / max(max(xs) - min(xs), max(ys) - min(ys))
    mx, my = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    points = [((x - mx) * scale, (y - my) * scale) for x, y in _OUTLINES[shape]]
    turn = math.radians(rotation)
    cos, sin = math.cos(turn), math.sin(turn)
    return tuple((x * cos - y * sin, x * sin + y * cos) for x, y in points)


@cache
def half_extent(shape: str, rotation: int = 0) -> float:
    """Half the side of the upright square around the rotated shape of size 1."""
    return max(max(abs(x), abs(y)) for x, y in outline(shape, rotation))
