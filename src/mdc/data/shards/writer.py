"""Writes the shards of any set: tars that webdataset can read, their samples' offsets, and the entries of an index.

The same source gives the same bytes, file by file. The index is written last, so it never describes missing shards.
"""

import json
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mdc.data.formats.samples import RawSample, Skipped, skipped_list
from mdc.data.shards.image_hashes import write_hashes
from mdc.data.shards.index import INDEX, NAMES, keys_of, names_in
from mdc.data.shards.lines import ENDING
from mdc.data.shards.offsets import SUFFIX, offsets_name
from mdc.data.shards.shard_file import NewShard, key_hash, new_shard
from mdc.plan.progress import progress
from mdc.plan.records import UserError, atomic_path, clear_leftovers, sha256_file

Sample = TypeVar("Sample", bound=RawSample)
SKIPPED = "skipped.jsonl"
_OURS = re.compile(
    rf"(train|val|test)-[0-9]{{5}}({'|'.join(map(re.escape, ('.tar', ENDING, SUFFIX)))})"
)  # a shard's files


def canonical(record: dict[str, Any]) -> bytes:
    """A sample's record as it is in a shard: JSON with sorted keys and no spaces."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def write_splits(
    name: str,
    samples: Callable[[str, Skipped], Iterator[Sample]],
    splits: Iterable[str],
    files: Callable[[str, Sample], list[tuple[str, bytes]]],
    out_dir: Path,
    samples_per_shard: int,
    max_skipped: float,
) -> dict[str, Any]:
    """Write the shards of all splits and remove older ones; returns "splits", "skipped", "captions_left_out", "skipped_list" and
    "image_hashes" of an index, "names", the list of the names of a person's own files, and "repeated" if images of a split are in
    an earlier one too, by their bytes: how many, and the key of the first.

    ``samples`` gives those of a split, ``files`` the other files of a sample, as (extension, content). Older shards are the files
    that are named like shards: other tars stay.
    """
    begin(out_dir)
    written: dict[str, Any] = {}
    repeated: dict[str, Any] = {}
    before: dict[str, np.ndarray] = {}
    looks: dict[str, array[int]] = {}
    with (
        skipped_list(out_dir / SKIPPED) as skipped,
        atomic_path(out_dir / NAMES) as listed,
        listed.open("w", encoding="utf-8", newline="\n") as names,
    ):

        def named(split: str) -> Iterator[Sample]:
            for sample in samples(split, skipped):
                if sample.name:
                    names.write(json.dumps({"split": split, "key": sample.key, "file": sample.name}) + "\n")
                yield sample

        for split in splits:
            skipped.split = split
            keys, images, shards = array("Q"), array("Q"), list[dict[str, Any]]()
            looks[split] = array("Q")
            for shard in _write_shards(split, named(split), files, out_dir, samples_per_shard):
                keys.extend(shard.keys)
                images.extend(shard.images)
                looks[split].extend(shard.looks)
                shards.append(shard.entry)
            written[split] = split_of(shards)
            check_unique_keys(name, split, keys, out_dir, shards)
            names.flush()
            if found := repeated_images(name, split, images, before, out_dir, shards, listed):
                repeated[split] = found
    index = finish(name, out_dir, written, skipped, max_skipped)
    index |= {"image_hashes": write_hashes(out_dir, before, looks)} | ({"repeated": repeated} if repeated else {})
    if not (out_dir / NAMES).stat().st_size:
        (out_dir / NAMES).unlink()
        return index
    return index | {"names": file_entry(out_dir / NAMES)}


def repeated_images(
    name: str,
    split: str,
    images: "array[int]",
    before: dict[str, np.ndarray],
    folder: Path,
    shards: Iterable[dict[str, Any]],
    names: Path | None = None,
) -> dict[str, Any]:
    """The images of a split that are also in one of the splits ``before``, to which it is added: {split: how many, and the key of
    the first}. ``images``: 64 bits of each image's hash; ``shards``: the split's, in ``folder``; ``names``: the list of a
    person's own names so far."""
    hashes, found = np.array(images, dtype=np.uint64), dict[str, Any]()
    for earlier, earlier_hashes in before.items():
        if len(places := np.flatnonzero(np.isin(hashes, earlier_hashes))):
            first = next(islice(_keys(folder, shards), int(places[0]), None))
            found[earlier] = {"images": len(places), "first": first}
            file = names_in(names, split, [first])[first] if names else first
            print(
                f"{name}: {len(places)} images of split {split} also occur in {earlier}, the first is {file}",
                file=sys.stderr,
            )
    before[split] = hashes
    return found


def begin(out_dir: Path) -> None:
    """Remove the old index and its lists."""
    clear_leftovers(out_dir)
    (out_dir / INDEX).unlink(missing_ok=True)
    (out_dir / SKIPPED).unlink(missing_ok=True)
    (out_dir / NAMES).unlink(missing_ok=True)


def finish(name: str, out_dir: Path, splits: dict[str, Any], skipped: Skipped, max_skipped: float) -> dict[str, Any]:
    """Check what was written, remove older shards, and return "splits", "skipped" and "skipped_list" of an index."""
    left_out, kept = sum(skipped.counts.values()), sum(split["samples"] for split in splits.values())
    if left_out > max_skipped * (left_out + kept):
        raise UserError(
            f"{name}: {left_out} of {left_out + kept} samples were skipped, max_skipped allows a fraction of "
            f"{max_skipped}; {skipped}; all of them are listed in {out_dir / SKIPPED}"
        )
    for split, entry in splits.items():
        if not entry["samples"] and split in ("train", "test"):
            why = f"{skipped}" if left_out else "none was skipped"
            raise UserError(f"{name}: split {split} has no samples ({why}); check its source's splits")
    shards = [shard for split in splits.values() for shard in split["shards"]]
    current = {file for shard in shards for file in (shard["file"], offsets_name(shard["file"]))}
    for path in out_dir.iterdir():
        if _OURS.fullmatch(path.name) and path.name not in current:
            path.unlink()
    index: dict[str, Any] = {"splits": splits, "skipped": dict(skipped.counts), **left_out_of(skipped)}
    if left_out:
        index["skipped_list"] = file_entry(out_dir / SKIPPED)
    return index


def left_out_of(skipped: Skipped) -> dict[str, int]:
    """The number of captions that are left out of samples that keep others, for an index; empty if there are none."""
    return {"captions_left_out": skipped.captions} if skipped.captions else {}


def file_entry(path: Path) -> dict[str, Any]:
    """A file's entry in an index."""
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256_file(path)}


def _keys(folder: Path, shards: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (key for shard in shards for key in keys_of(folder, shard))


def split_of(shards: list[dict[str, Any]]) -> dict[str, Any]:
    """A split's entry in an index."""
    samples, size = sum(shard["samples"] for shard in shards), sum(shard["bytes"] for shard in shards)
    return {"samples": samples, "bytes": size, "shards": shards}


def check_unique_keys(
    name: str, split: str, hashes: "array[int]", folder: Path, shards: Iterable[dict[str, Any]]
) -> None:
    """UserError if a key repeats; ``hashes``: 64 bits of each key's hash; ``shards``: the split's, in ``folder``."""
    unique, counts = np.unique(np.array(hashes, dtype=np.uint64), return_counts=True)
    repeated = set(unique[counts > 1].tolist())
    if not repeated:
        return
    example = next(key for key in _keys(folder, shards) if key_hash(key) in repeated)
    raise UserError(
        f"{name}, split {split}: {len(repeated)} duplicate keys, the first is {example!r}; "
        "each sample needs a unique key (for parquet and tables, see key_column)"
    )


def _write_shards(
    split: str,
    samples: Iterator[Sample],
    files: Callable[[str, Sample], list[tuple[str, bytes]]],
    out_dir: Path,
    samples_per_shard: int,
) -> Iterator[NewShard]:
    """The shards of a split, each after it is written."""
    rest: Iterator[Sample] = iter(progress(samples, desc=f"{out_dir.name} {split}", unit=" samples", leave=False))
    number = 0
    while (first := next(rest, None)) is not None:
        with new_shard(out_dir / f"{split}-{number:05d}.tar") as shard:
            sample: Sample | None = first
            while sample is not None:
                shard.add(sample, files(split, sample))
                sample = next(rest, None) if len(shard) < samples_per_shard else None
        yield shard
        number += 1
