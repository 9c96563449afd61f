"""Corpora that are made in parts: what one job makes, and the corpus that names the parts of all."""

from pathlib import Path
from typing import Any

from data_samples import corpus_of, write_corpus
from obtained_pairs import SOURCE

from mdc.data.shards.corpus_job import join_parts
from mdc.data.shards.index import ShardReader, read_index
from mdc.data.shards.parts import PartsWriter
from mdc.data.sources.cleaned import InParts
from mdc.plan.records import sha256_file, write_json

HELD: dict[str, Any] = {**SOURCE, "val_fraction": 0.3}
SPLITS = ("train", "val")


def opened(source: dict[str, Any], data: Path) -> InParts:
    found = corpus_of(source, data)
    assert isinstance(found, InParts)
    return found


def parts_of(data: Path, at: Path, *, source: dict[str, Any] = HELD, processes: int = 1, **settings: Any) -> Path:
    """Write the parts; the index of them."""
    settings |= {"source": {**source, "pairs": None}}
    writer = PartsWriter(opened(source, data), SPLITS, at / "parts/d", at / "state", settings, 77)
    path = at / "parts/d/index.json"
    write_json(path, {"kind": "parts", "name": "d", "source": source, "parts": writer.write(processes)})
    return path


def join(
    data: Path, at: Path, parts: Path, name: str = "c", max_skipped: float = 0.5, source: dict[str, Any] = HELD
) -> dict[str, Any]:
    told: dict[str, Any] = {"max_skipped": max_skipped, "context_length": 77, "splits": SPLITS}
    return join_parts(name, opened(source, data), at / "corpora" / name, parts, **told)


def samples_of(corpus: Path) -> dict[str, list[tuple[str, bytes, Any]]]:
    """All samples of each split."""
    readers = {split: ShardReader(corpus, split) for split in SPLITS}
    return {split: [reader.read(number) for number in range(len(reader))] for split, reader in readers.items()}


def without_cuts(*corpora: Path) -> list[dict[str, Any]]:
    """The indices of corpora, without what depends on where shards are cut."""
    indices = [read_index(corpus, verify=True) for corpus in corpora]
    for split in (split for index in indices for split in index["splits"].values()):
        del split["shards"], split["bytes"]
    return indices


def as_whole(source: dict[str, Any], data: Path, at: Path, name: str = "c", **more: Any) -> list[dict[str, Any]]:
    """The corpus in parts has the samples of the one that a single job writes; the indices of both."""
    whole, joined = at / "whole", at / "corpora" / name
    write_corpus(name, source, whole, data, **more)
    assert samples_of(whole) == samples_of(joined)
    return without_cuts(whole, joined)


def hashes(folder: Path) -> dict[str, str]:
    """Of every file but the indices."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "index.json")
    return {str(path.relative_to(folder)): sha256_file(path) for path in files}
