"""Writes the shards of any set: tars that webdataset can read, their samples' offsets, and the entries of an index.

The same source gives the same bytes, file by file. The index is written last, so it never describes missing shards.
"""

import json
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mdc.data.formats.samples import RawSample, Skipped, skipped_list
from mdc.data.shards.image_hashes import write_hashes
from mdc.data.shards.index import INDEX, NAMES, keys_of, names_in
from mdc.data.shards.lines import ENDING
from mdc.data.shards.offsets import SUFFIX, file_entry, offsets_name
from mdc.data.shards.shard_file import HASHES, key_hash, new_shard
from mdc.plan.progress import progress
from mdc.plan.records import UserError, atomic_path, clear_leftovers, write_json

Sample = TypeVar("Sample", bound=RawSample)
SKIPPED = "skipped.jsonl"
_OURS = re.compile(
    rf"(train|val|test)-[0-9]{{5}}({'|'.join(map(re.escape, ('.tar', ENDING, SUFFIX)))})"
)  # a shard's files


class NewSet:
    """A set under way: the entries of each split's shards in ``out_dir``, and what finds its keys and images again."""

    def __init__(self, name: str, out_dir: Path, splits: Iterable[str]) -> None:
        begin(out_dir)
        self.name, self.out_dir, splits = name, out_dir, list(splits)
        self.shards: dict[str, list[dict[str, Any]]] = {split: [] for split in splits}
        self.hashes = {split: {kind: array("Q") for kind in HASHES} for split in splits}

    def add(self, split: str, entry: dict[str, Any], hashes: "Mapping[str, array[int] | np.ndarray]") -> None:
        """Append a shard of a split, by its entry in an index; ``hashes`` as of :class:`NewShard`."""
        self.shards[split].append(entry)
        for kind, values in hashes.items():
            self.hashes[split][kind].frombytes(values.tobytes())

    def index(self, skipped: Skipped, max_skipped: float) -> dict[str, Any]:
        """Check the set and remove older shards; "splits", "skipped", "captions_left_out", "skipped_list" and "image_hashes" of
        its index, and "repeated" if images of a split are in an earlier one too. UserError for an empty split, too many skipped
        samples, or a key that repeats within a split."""
        splits = {split: split_of(listed) for split, listed in self.shards.items()}
        self._check_amounts(splits, skipped, max_skipped)
        repeated, images = dict[str, Any](), dict[str, np.ndarray]()
        for split, hashes in self.hashes.items():
            self._check_keys(split, hashes["keys"])
            of_split = np.array(hashes["images"], dtype=np.uint64)
            if found := self._repeated(split, of_split, images):
                repeated[split] = found
            images[split] = of_split
        entries = [shard for listed in self.shards.values() for shard in listed]
        current = {file for shard in entries for file in (shard["file"], offsets_name(shard["file"]))}
        for path in self.out_dir.iterdir():
            if _OURS.fullmatch(path.name) and path.name not in current:
                path.unlink()
        index: dict[str, Any] = {"splits": splits, **left_out_of(skipped, self.out_dir / SKIPPED)}
        looks = {split: hashes["looks"] for split, hashes in self.hashes.items()}
        index["image_hashes"] = write_hashes(self.out_dir, images, looks)
        return index | ({"repeated": repeated} if repeated else {})

    def _check_amounts(self, splits: Mapping[str, Any], skipped: Skipped, max_skipped: float) -> None:
        left_out, kept = sum(skipped.counts.values()), sum(split["samples"] for split in splits.values())
        if left_out > max_skipped * (left_out + kept):
            raise UserError(
                f"{self.name}: {left_out} of {left_out + kept} samples were skipped, max_skipped allows a fraction of "
                f"{max_skipped}; {skipped}; all of them are listed in {self.out_dir / SKIPPED}"
            )
        for split, entry in splits.items():
            if not entry["samples"] and split in ("train", "test"):
                why = f"{skipped}" if left_out else "none was skipped"
                raise UserError(f"{self.name}: split {split} has no samples ({why}); check its source's splits")

    def _check_keys(self, split: str, hashes: "array[int]") -> None:
        unique, counts = np.unique(np.array(hashes, dtype=np.uint64), return_counts=True)
        if not (repeated := set(unique[counts > 1].tolist())):
            return
        example = next(key for key in self._keys(split) if key_hash(key) in repeated)
        raise UserError(
            f"{self.name}, split {split}: {len(repeated)} duplicate keys, the first is {example!r}; "
            "each sample needs a unique key (for parquet and tables, see key_column)"
        )

    def _repeated(self, split: str, images: np.ndarray, before: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The images of a split that are also in an earlier one, by 64 bits of the hash of their bytes: {split: how many, and the
        key of the first}."""
        found = dict[str, Any]()
        for earlier, hashes in before.items():
            if len(places := np.flatnonzero(np.isin(images, hashes))):
                first = next(islice(self._keys(split), int(places[0]), None))
                found[earlier] = {"images": len(places), "first": first}
                file = names_in(self.out_dir / NAMES, split, [first])[first]
                print(
                    f"{self.name}: {len(places)} images of split {split} also occur in {earlier}, the first is {file}",
                    file=sys.stderr,
                )
        return found

    def _keys(self, split: str) -> Iterator[str]:
        return (key for shard in self.shards[split] for key in keys_of(self.out_dir, shard))


def write_set(
    kind: str,
    name: str,
    source: Any,
    splits: Iterable[str],
    out_dir: str | Path,
    record_of: Callable[[str, Sample], dict[str, Any]],
    summary: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    samples_per_shard: int = 4000,
    max_skipped: float = 0.05,
) -> dict[str, Any]:
    """Write a set's shards and its index (also returned), which is written last.

    ``source``: a :class:`mdc.data.sources.source.Source`. ``record_of`` gives a sample's record by its split, ``summary`` further
    entries of the index by those that are there. Lists of the samples that were left out and of a person's own names lie beside
    the index. Older shards are removed by their names: other tars stay. UserError as of :meth:`NewSet.index`.
    """
    out_dir = Path(out_dir)
    new = NewSet(name, out_dir, splits)
    with (
        skipped_list(out_dir / SKIPPED) as skipped,
        atomic_path(out_dir / NAMES) as listed,
        listed.open("w", encoding="utf-8", newline="\n") as names,
    ):
        for split, written in new.shards.items():
            skipped.split = split
            samples = progress(source.samples(split, skipped), f"{out_dir.name} {split}", unit=" samples", leave=False)
            rest: Iterator[Sample] = iter(samples)
            while (first := next(rest, None)) is not None:
                with new_shard(out_dir / f"{split}-{len(written):05d}.tar") as shard:
                    for sample in chain([first], islice(rest, samples_per_shard - 1)):
                        shard.add(sample, record_of(split, sample))
                        if sample.name:
                            row = {"split": split, "key": sample.key, "file": sample.name}
                            names.write(json.dumps(row) + "\n")
                new.add(split, shard.entry, shard.hashes)
    index = {"kind": kind, "name": name, "source": source.config, **source.facts, **new.index(skipped, max_skipped)}
    if (out_dir / NAMES).stat().st_size:
        index["names"] = file_entry(out_dir / NAMES)
    else:
        (out_dir / NAMES).unlink()
    index |= summary(index)
    if shortcuts := [shortcut.row() for shortcut in source.shortcuts()]:
        index["shortcuts"] = shortcuts
    write_json(out_dir / INDEX, index)
    return index


def begin(out_dir: Path) -> None:
    """Remove the old index and its lists."""
    clear_leftovers(out_dir)
    for name in (INDEX, SKIPPED, NAMES):
        (out_dir / name).unlink(missing_ok=True)


def left_out_of(skipped: Skipped, listed: Path) -> dict[str, Any]:
    """What an index says of what is left out: "skipped" {reason: samples} and, where there are any, "captions_left_out", the
    captions of samples that keep others, and "skipped_list", the file ``listed``."""
    captions = {"captions_left_out": skipped.captions} if skipped.captions else {}
    return {
        "skipped": dict(skipped.counts),
        **captions,
        **({"skipped_list": file_entry(listed)} if skipped.counts else {}),
    }


def split_of(shards: list[dict[str, Any]]) -> dict[str, Any]:
    """A split's entry in an index."""
    samples, size = sum(shard["samples"] for shard in shards), sum(shard["bytes"] for shard in shards)
    return {"samples": samples, "bytes": size, "shards": shards}
