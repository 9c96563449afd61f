"""The shapes' outlines."""

from __future__ import annotations

import math
from functools import cache

from mdc.data.scenes.world import SHAPES
from mdc.plan.records import UserError


def _normalised(points: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Centre the points' bounding box on the origin and scale its longer side to 1."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    scale = 1 / max(max(xs) - min(xs), max(ys) - min(ys))
    mx, my = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    return tuple(((x - mx) * scale, (y - my) * scale) for x, y in points)


def _arc(radius: float, start: float, stop: float, steps: int, x: float = 0.0) -> list[tuple[float, float]]:
    """Points on a circle around (x, 0), from one angle (degrees, clockwise on the screen) to another."""
    angles = (math.radians(start + (stop - start) * i / steps) for i in range(steps + 1))
    return [(x + radius * math.cos(a), radius * math.sin(a)) for a in angles]


@cache
def outline(shape: str, rotation: int = 0) -> tuple[tuple[float, float], ...]:
    """The shape as one polygon, upright bounding box centred on the origin with longer side 1, then rotated.

    A ring is a keyhole polygon: around outside, across, back around inside.
    """
    if shape == "circle":
        raw = _arc(1, 0, 360, 40)
    elif shape == "square":
        raw = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    elif shape == "triangle":
        raw = [(0, -1), (1, 0.8), (-1, 0.8)]
    elif shape == "star":
        spokes = [(1.0 if i % 2 == 0 else 0.48, math.radians(36 * i - 90)) for i in range(10)]
        raw = [(r * math.cos(a), r * math.sin(a)) for r, a in spokes]
    elif shape == "cross":
        arm = 0.36
        corner = [(-arm, -1), (arm, -1), (arm, -arm), (1, -arm), (1, arm), (arm, arm)]
        raw = corner + [(-x, -y) for x, y in corner]
    elif shape == "heart":
        turns = (2 * math.pi * i / 40 for i in range(40))
        raw = [
            (16 * math.sin(t) ** 3, -13 * math.cos(t) + 5 * math.cos(2 * t) + 2 * math.cos(3 * t) + math.cos(4 * t))
            for t in turns
        ]
    elif shape == "ring":
        raw = _arc(1, 0, 360, 40) + _arc(0.52, 360, 0, 32)
    elif shape == "crescent":
        # A disc with a smaller disc, whose centre lies to the right, cut away: they meet at these angles.
        bite, shift = 0.86, 0.52
        meet_x = (1 + shift**2 - bite**2) / (2 * shift)
        outer, inner = math.degrees(math.acos(meet_x)), math.degrees(math.acos((meet_x - shift) / bite))
        raw = _arc(1, outer, 360 - outer, 36) + _arc(bite, 360 - inner, inner, 28, x=shift)
    else:
        raise UserError(f"scenes: unknown shape {shape!r}; allowed: {', '.join(SHAPES)}")
    turn = math.radians(rotation)
    cos, sin = math.cos(turn), math.sin(turn)
    return tuple((x * cos - y * sin, x * sin + y * cos) for x, y in _normalised(raw))


@cache
def half_extent(shape: str, rotation: int = 0) -> float:
    """Half the side of the upright square around the rotated shape of size 1."""
    return max(max(abs(x), abs(y)) for x, y in outline(shape, rotation))
