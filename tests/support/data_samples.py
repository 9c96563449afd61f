"""Small files and a stand-in for the embedded world, shared by the tests of sources and shards."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

COLOURS = ("red", "green", "blue", "yellow")


def encoded(seed: int, width: int = 20, height: int = 16, kind: str = "PNG") -> bytes:
    """A noise image; the seed can be read back from nothing but its pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def write_parquet(path: Path, columns: dict[str, list[Any]], row_group_size: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return path


def use_scenes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace mdc.scenes.embedded by a world of noise with the same interface."""
    import sys

    import mdc.scenes

    world = ModuleType("mdc.scenes.embedded")

    def corpus_samples(style: str, split: str, count: int, seed: int, pixels: int) -> Iterator[Any]:
        for i in range(count):
            number = seed * 10_000 + i + (5_000 if split == "val" else 0)
            captions = [f"a {COLOURS[i % 4]} thing {i}", f"{style} {COLOURS[i % 4]}", "something"][: 1 + i % 3]
            image = encoded(number, pixels, pixels)
            yield SimpleNamespace(key=f"{split}-{i:06d}", png=image, captions=captions, truth={"number": number})

    def probe_samples(task: str, split: str, count: int, seed: int, pixels: int) -> Iterator[Any]:
        for i in range(count):
            image = encoded(seed + i, pixels, pixels)
            yield SimpleNamespace(key=f"{i:06d}", png=image, captions=[], truth={"task": task}, label=i % 3)

    world.corpus_samples, world.probe_samples = corpus_samples, probe_samples  # type: ignore[attr-defined]
    world.PROBE_CLASSES = {"colour": COLOURS}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mdc.scenes.embedded", world)
    monkeypatch.setattr(mdc.scenes, "embedded", world, raising=False)


def scenes(**changes: Any) -> dict[str, Any]:
    return {"kind": "scenes", "style": "alt", "train": 23, "val": 5, "seed": 1, "pixels": 12} | changes
