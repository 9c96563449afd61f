"""Small files and a stand-in for the built-in world, shared by the tests of sources and shards."""

import copy
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mdc.data.formats.samples import ChoiceSample, RawSample, Skipped
from mdc.data.formats.tar import TarWriter
from mdc.data.shards import choice_set_job, corpus_job, probe_set_job, texts_job
from mdc.data.shards.offsets import write_offsets
from mdc.data.sources.source import Source, open_choices, open_corpus, open_probe, open_texts
from mdc.plan.config.kinds.known import AnyChoice, AnyCorpus, AnyProbe
from mdc.plan.config.kinds.sources import CaptionList
from mdc.plan.records import read_json, sha256_file, write_json

COLOURS = ("red", "green", "blue", "yellow")


def encoded(seed: int, width: int = 20, height: int = 16, kind: str = "PNG") -> bytes:
    """A noise image; the seed can be read back from nothing but its pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return saved(Image.fromarray(pixels), kind)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    """As the bytes of a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def write_parquet(path: Path, columns: dict[str, list[Any]], row_group_size: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return path


def use_scenes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the built-in world by one of noise with the same interface."""

    class Corpus(Source[RawSample]):
        def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
            style, pixels = self.config["style"], self.config["pixels"]
            for i in range(self.config.get(split, 0)):
                number = self.config["seed"] * 10_000 + i + (5_000 if split == "val" else 0)
                captions = (f"a {COLOURS[i % 4]} thing {i}", f"{style} {COLOURS[i % 4]}", "something")[: 1 + i % 3]
                image = encoded(number, pixels, pixels)
                yield RawSample(f"{split}-{i:06d}", image, "png", captions, {"number": number})

    class Probe(Source[RawSample]):
        def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
            for i in range(self.config.get(split, 0)):
                image = encoded(self.config["seed"] + i, self.config["pixels"], self.config["pixels"])
                yield RawSample(f"{i:06d}", image, "png", truth={"task": self.config["task"]}, label=i % 3)

    def open_probe_of_noise(source: dict[str, Any], folder: Path) -> Probe:
        opened = Probe(source)
        opened.classes = {"colour": list(COLOURS)}[source["task"]]
        return opened

    for room, open_source in (("corpora", lambda source, folder: Corpus(source)), ("probes", open_probe_of_noise)):
        world = ModuleType(f"mdc.data.sources.{room}.scenes")
        world.open_source = open_source  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, world.__name__, world)


def scenes(**changes: Any) -> dict[str, Any]:
    return {"kind": "scenes", "style": "alt", "train": 23, "val": 5, "seed": 1, "pixels": 12} | changes


def write_shard(folder: Path, split: str, samples: list[list[tuple[str, bytes]]]) -> None:
    """A set's first shard of ``split`` written anew with these files (name, content) of each sample; its index fits it."""
    tar = folder / f"{split}-00000.tar"
    bounds = [0]
    with tar.open("wb") as file:
        writer = TarWriter(file)
        for members in samples:
            for name, content in members:
                writer.add(name, content)
            bounds.append(file.tell())
        writer.close()
    size = tar.stat().st_size
    shard = {"file": tar.name, "samples": len(samples), "bytes": size, "sha256": sha256_file(tar)}
    shard["offsets"] = write_offsets(folder / f"{split}-00000.offsets.npy", bounds)
    index = read_json(folder / "index.json")
    index["splits"][split] = {"samples": len(samples), "bytes": size, "shards": [shard]}
    write_json(folder / "index.json", index)


# --- a source completed, opened, read or written, in one call ---------------------------------------------------------


def complete(source: dict[str, Any], union: Any) -> dict[str, Any]:
    """``source`` with the defaults of its kind (one of ``union``), as a job's configuration has it; nothing is checked."""
    for kind in get_args(get_args(union)[0]) if get_args(union) else (union,):
        if get_args(kind.model_fields["kind"].annotation) == (source["kind"],):
            fields = {field.alias or name: field for name, field in kind.model_fields.items()}
            return {n: copy.deepcopy(f.default) for n, f in fields.items() if not f.is_required()} | source
    return source


def corpus_of(source: dict[str, Any], folder: Path) -> Source[RawSample]:
    return open_corpus(complete(source, AnyCorpus), folder)


def probe_of(source: dict[str, Any], folder: Path) -> Source[RawSample]:
    return open_probe(complete(source, AnyProbe), folder)


def choices_of(source: dict[str, Any], folder: Path) -> Source[ChoiceSample]:
    return open_choices(complete(source, AnyChoice), folder)


def iter_corpus(
    source: dict[str, Any], split: str, folder: Path, skipped: Skipped | None = None
) -> Iterator[RawSample]:
    return corpus_of(source, folder).samples(split, Skipped() if skipped is None else skipped)


def iter_probe(source: dict[str, Any], split: str, folder: Path, skipped: Skipped | None = None) -> Iterator[RawSample]:
    return probe_of(source, folder).samples(split, Skipped() if skipped is None else skipped)


def iter_choices(source: dict[str, Any], folder: Path, skipped: Skipped | None = None) -> Iterator[ChoiceSample]:
    return choices_of(source, folder).samples("test", Skipped() if skipped is None else skipped)


def write_corpus(name: str, source: dict[str, Any], out: Path, folder: Path, **more: Any) -> dict[str, Any]:
    return corpus_job.write_corpus(name, corpus_of(source, folder), out, **more)


def write_probe(name: str, source: dict[str, Any], out: Path, folder: Path, **more: Any) -> dict[str, Any]:
    return probe_set_job.write_probe(name, probe_of(source, folder), out, **more)


def write_choices(name: str, source: dict[str, Any], out: Path, folder: Path, **more: Any) -> dict[str, Any]:
    return choice_set_job.write_choices(name, choices_of(source, folder), out, **more)


def write_texts(name: str, source: dict[str, Any], out: Path, folder: Path, context_length: int) -> dict[str, Any]:
    opened = open_texts(complete({"kind": "caption_list", **source}, CaptionList), folder)
    return texts_job.write_texts(name, opened, out, context_length)
