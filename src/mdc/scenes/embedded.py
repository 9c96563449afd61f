"""The embedded data of scale `mini`: samples of a rendered world of coloured shapes whose ground truth is known.

Every sample follows from (task or style, split, seed, index) alone, to the byte, so it does not matter who makes it
or in which order. The splits of pretraining and of the probes are disjoint by construction (`scene_drawing.owner`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mdc.records import UserError
from mdc.scenes.captions import STYLES, Caption, compose, describe
from mdc.scenes.check import check_caption, missing_from
from mdc.scenes.drawing import bucket, draw_scene, owner
from mdc.scenes.render import encode_png, render
from mdc.scenes.world import (
    PROBE_CLASSES,
    Scene,
    SceneObject,
    label_of,
    relation,
)

__all__ = [
    "PROBE_CLASSES",
    "STYLES",
    "Caption",
    "Scene",
    "SceneObject",
    "SceneSample",
    "bucket",
    "check_caption",
    "compose",
    "corpus_samples",
    "describe",
    "draw_scene",
    "label_of",
    "missing_from",
    "owner",
    "probe_samples",
    "relation",
    "render",
]


@dataclass(frozen=True)
class SceneSample:
    """One picture (PNG bytes) with its captions or its label, and its whole truth as JSON values."""

    key: str
    png: bytes
    captions: list[str]
    truth: dict[str, Any]
    label: int | None = None


def _checked(count: int) -> int:
    if count < 1:
        raise UserError(f"scenes: count must be at least 1, got {count}")
    return count


def corpus_samples(style: str, split: str, count: int, seed: int, pixels: int) -> Iterator[SceneSample]:
    """``count`` captioned scenes of ``split`` ("train" or "val"), caption style "alt", "dense" or "brief".

    The same seed shows the same pictures in all styles, as the paper's corpora would if one were a recaptioned copy.
    ``truth`` is `Scene.to_json` and ``errors``: the caption's deliberate false claims as `check_caption` words them.
    Raises `UserError` for a style, split, count, seed or size out of range.
    """
    owner("caption", split)
    for index in range(_checked(count)):
        scene = draw_scene("caption", split, seed, index)
        caption = compose(scene, style, seed, index)
        yield SceneSample(
            key=f"{split}-{index:07d}",
            png=encode_png(render(scene, pixels)),
            captions=[caption.text],
            truth=scene.to_json() | {"errors": list(caption.errors)},
        )


def probe_samples(task: str, split: str, count: int, seed: int, pixels: int) -> Iterator[SceneSample]:
    """``count`` labelled scenes of a probe (a key of `PROBE_CLASSES`), split "train" or "test", labels in turn.

    Raises `UserError` for a task, split, count, seed or size out of range.
    """
    if task not in PROBE_CLASSES:
        raise UserError(f"scenes: unknown probe {task!r}; allowed: {', '.join(PROBE_CLASSES)}")
    for index in range(_checked(count)):
        scene = draw_scene(task, split, seed, index)
        yield SceneSample(
            key=f"{split}-{index:07d}",
            png=encode_png(render(scene, pixels)),
            captions=[],
            truth=scene.to_json(),
            label=label_of(task, scene),
        )
