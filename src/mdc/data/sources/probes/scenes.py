"""The built-in world as a labelled set: rendered scenes and a question with one right answer each.

Every sample depends only on (task, split, seed, index), to the byte (see :mod:`mdc.data.sources.corpora.scenes`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.samples import RawSample, Shortcut, Skipped
from mdc.data.scenes.drawing import draw_scene
from mdc.data.scenes.render import encode_png, render
from mdc.data.scenes.shortcuts import probe_shortcuts
from mdc.data.scenes.world import PROBE_CLASSES, label_of
from mdc.data.sources.source import Source


class ScenesProbe(Source[RawSample]):
    """Labelled scenes, labels in turn; the source's key with a split's name is its number of scenes."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self.classes = list(PROBE_CLASSES[source["task"]])

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        source = self.config
        for index in range(source.get(split, 0)):
            scene = draw_scene(source["task"], split, source["seed"], index)
            png, label = encode_png(render(scene, source["pixels"])), label_of(source["task"], scene)
            yield RawSample(f"{split}-{index:07d}", png, "png", truth=scene.to_json(), label=label)

    def shortcuts(self) -> list[Shortcut]:
        source = self.config
        return probe_shortcuts(source["task"], source["seed"], source["train"], source["test"])


open_source = ScenesProbe  # see mdc.data.sources.source
