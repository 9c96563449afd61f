"""The built-in world as a labelled set: rendered scenes and a question with one right answer each.

Every sample follows from (task, split, seed, index) alone, to the byte (see :mod:`mdc.data.sources.corpora.scenes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.samples import RawSample, Shortcut, Skipped
from mdc.data.scenes.drawing import at_least_one, draw_scene
from mdc.data.scenes.render import encode_png, render
from mdc.data.scenes.shortcuts import probe_shortcuts
from mdc.data.scenes.world import PROBE_CLASSES, label_of
from mdc.data.sources.source import Source
from mdc.plan.records import UserError


class ScenesProbe(Source[RawSample]):
    """As many labelled scenes a split as the source's key of that name says."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self.classes = list(PROBE_CLASSES[_known(source["task"])])

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        source = self.config
        return probe_samples(source["task"], split, source.get(split, 0), source["seed"], source["pixels"])

    def shortcuts(self) -> list[Shortcut]:
        """See :class:`Source`: by this set's own scenes."""
        source = self.config
        return probe_shortcuts(source["task"], source["seed"], source["train"], source["test"])


open_source = ScenesProbe  # see mdc.data.sources.source


def probe_samples(task: str, split: str, count: int, seed: int, pixels: int) -> Iterator[RawSample]:
    """``count`` labelled scenes of a probe (a key of `PROBE_CLASSES`), split "train" or "test", labels in turn.

    Raises `UserError` for a task, split, count, seed or size out of range.
    """
    _known(task)
    for index in range(at_least_one(count)):
        scene = draw_scene(task, split, seed, index)
        png, truth, label = encode_png(render(scene, pixels)), scene.to_json(), label_of(task, scene)
        yield RawSample(f"{split}-{index:07d}", png, "png", truth=truth, label=label)


def _known(task: str) -> str:
    if task not in PROBE_CLASSES:
        raise UserError(f"scenes: unknown probe {task!r}; allowed: {', '.join(PROBE_CLASSES)}")
    return task
