"""One part of a corpus in parts: its shards, the statistics of its captions, and the list of samples left out.

Part NNNNN becomes ``<split>-NNNNN.jsonl`` for each split, if its images are in one tar below MDC_DATA and keep their bytes, and
``<split>-NNNNN.tar`` otherwise; with ``captions-NNNNN.safetensors`` and, if something was left out, ``skipped-NNNNN.jsonl``. The
bytes do not depend on the other parts, nor on the number of processes and jobs, so corpora with the same parts share them.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.folders import size_and_time
from mdc.data.formats.samples import skipped_list
from mdc.data.shards.caption_statistics import CaptionStatistics
from mdc.data.shards.corpus import beside_image
from mdc.data.shards.lines import ENDING, SourceTar, name_below
from mdc.data.shards.shard_file import new_shard
from mdc.data.shards.writer import file_entry
from mdc.data.sources.cleaned import InParts
from mdc.plan.records import UserError, atomic_path, sha256_file

_HASHES = ("keys", "images")  # arrays of the hashes of a split's keys and images, beside those of its captions


def write_part(source: InParts, part: int, splits: Sequence[str], folder: Path, context_length: int) -> dict[str, Any]:
    """Write one part into ``folder``; its entry in an index of parts.

    ``splits`` {split: its shard} of the splits with samples, ``skipped`` {reason: count}, and the files ``captions`` and
    ``skipped_list`` (if there is one).
    """
    statistics = {split: CaptionStatistics(context_length) for split in splits}
    left_out = folder / f"skipped-{part:05d}.jsonl"
    tar, ending = None, ".tar"
    if (name := tar_name(source, part)) is not None:
        begun = size_and_time(path := source.data_dir / name)
        tar, ending = SourceTar(name, path.stat().st_size, source.tar_sha256(part)), ENDING
    with skipped_list(left_out) as skipped, ExitStack() as stack:
        shards: dict[str, Any] = {}
        for split, sample in source.samples_in(part, splits, skipped):
            if split not in shards:
                shards[split] = stack.enter_context(new_shard(folder / f"{split}-{part:05d}{ending}", tar))
            statistics[split].add(sample.captions)
            shards[split].add(sample, beside_image(sample))
    if tar is not None and size_and_time(path) != begun:
        raise UserError(f"{path}: changed while it was read; rerun when no other process writes to it")
    entry = {
        "part": part,
        "splits": {split: shards[split].entry for split in splits if split in shards},
        "skipped": dict(skipped.counts),
        "captions": _write_captions(folder / f"captions-{part:05d}.safetensors", statistics, shards),
    }
    if skipped.counts:
        entry["skipped_list"] = file_entry(left_out)
    return entry


def tar_name(source: InParts, part: int) -> str | None:
    """The name of the tar below MDC_DATA that has the images of a part unchanged; None: they must be written."""
    tar = source.tar(part) if source.image_size is None else None
    return None if tar is None else name_below(source.data_dir, tar)


def files_of(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All files of a part, each as {file, bytes, sha256}."""
    for shard in entry["splits"].values():
        yield shard
        yield shard["offsets"]
    yield entry["captions"]
    if "skipped_list" in entry:
        yield entry["skipped_list"]


def remove_part(folder: Path, part: int) -> None:
    """Remove all files of a part."""
    for path in folder.glob(f"*-{part:05d}.*"):
        path.unlink()


def _write_captions(
    path: Path, statistics: Mapping[str, CaptionStatistics], shards: Mapping[str, Any]
) -> dict[str, Any]:
    from safetensors.numpy import save_file

    arrays = {
        f"{split}.{name}": values
        for split, counted in statistics.items()
        for name, values in {
            **counted.arrays(),
            **{
                name: np.frombuffer(getattr(shards[split], name) if split in shards else array("Q"), dtype=np.uint64)
                for name in _HASHES
            },
        }.items()
    }
    with atomic_path(path) as temporary:
        save_file(arrays, temporary)
    return file_entry(path)


def read_captions(
    folder: Path,
    entry: Mapping[str, Any],
    statistics: Mapping[str, CaptionStatistics],
    keys: "Mapping[str, array[int]]",
    images: "Mapping[str, array[int]]",
) -> None:
    """Append a part's captions, and the hashes of its keys and images, to those of the parts before. UserError if the file is not
    the part's."""
    from safetensors.numpy import load

    path = folder / entry["captions"]["file"]
    if not path.is_file() or sha256_file(path) != entry["captions"]["sha256"]:
        raise UserError(f"{path}: missing or changed; rebuild the corpus's parts")
    arrays = load(path.read_bytes())
    for split, counted in statistics.items():
        of_split = {name.partition(".")[2]: values for name, values in arrays.items() if name.startswith(f"{split}.")}
        for name, hashes in zip(_HASHES, (keys, images), strict=True):
            hashes[split].frombytes(of_split.pop(name).tobytes())
        counted.join(of_split)
