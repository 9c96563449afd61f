"""Reads corpora, probe sets and choice sets: the index of a set, and random access to its samples.

:mod:`mdc.data.shards.writer` writes them. Reading does not depend on the sources, so a new source retrains nothing.
"""

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mdc.data.formats.tar import split_span
from mdc.data.shards.lines import is_lines, parse_line, source_tar
from mdc.data.shards.offsets import span_of
from mdc.data.shards.opened import Opened, OpenShards, check_sizes
from mdc.plan.outputs import checked
from mdc.plan.records import UserError, read_json, sha256_file

INDEX = "index.json"
NAMES = "names.jsonl"  # of a person's own files, by key
Kind = Literal["corpus", "probe", "choices"]
_HAS = {"corpus": {"captions"}, "probe": {"label", "labels"}, "choices": {"options"}}  # a record has one of them
_QUICK = 4 << 30  # bytes that "auto" hashes


def token_hash(ids: Sequence[int]) -> int:
    """A stable 63-bit hash of token ids, by which equal captions in a batch are found."""
    digest = hashlib.blake2b(np.asarray(ids, dtype="<i4").tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def read_index(path: str | Path, verify: bool | Literal["auto"] = False, kind: Kind | None = None) -> dict[str, Any]:
    """The index of a corpus, probe set or choice set (its folder, or its ``index.json``), of this ``kind`` if one is given.

    ``verify`` reads the samples of every shard and recomputes its sha256, and that of the tars of its images; "auto" does so up
    to 4 GiB (seconds), and checks only the files' sizes beyond. UserError names the first wrong shard. The index itself
    is our own: `mdc verify` compares it with the record of its job.
    """
    path = _index_path(path)
    index = read_json(path)
    actual = index.get("kind")
    if not isinstance(actual, str) or actual not in _HAS:
        raise UserError(
            f"{path}: describes neither a corpus nor a set of probes or choices; make it with `snakemake data`"
        )
    if kind is not None and actual != kind:
        has, needed = ("choice set" if each == "choices" else each for each in (actual, kind))
        raise UserError(f"{path}: describes a {has}, a {needed} is expected here")
    if verify:
        shards = shard_list(index)
        tars = {source_tar(path.parent / shard["file"]) for shard in shards if is_lines(shard["file"])}
        whole = verify is True or sum(shard["bytes"] for shard in shards) + sum(tar.size for tar in tars) <= _QUICK
        for shard in shards:
            check_sizes(path.parent, shard)
            for entry in (shard, shard["offsets"]) if whole else ():
                checked(path.parent / entry["file"], entry["sha256"], path)
        for tar in tars if whole else ():
            if sha256_file(tar.path) != tar.sha256:
                raise UserError(f"{tar.path}: its sha256 is not the one that {path.parent} names; rebuild the set")
    return index


def shard_list(index: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of the shards of all splits."""
    return [shard for split in index["splits"].values() for shard in split["shards"]]


def _index_path(path: str | Path) -> Path:
    path = Path(path)
    return path / INDEX if path.is_dir() else path


def file_names(path: Path, split: str, keys: Collection[str]) -> dict[str, str]:
    """{key: the name of its image's file} of a set, by the path of its index; the key itself where the set has no names.
    UserError if the list of names is not the index's."""
    file, entry = path.with_name(NAMES), read_json(path).get("names")
    return names_in(file if entry is None else checked(file, entry["sha256"], path), split, keys)


def names_in(file: Path, split: str, keys: Collection[str]) -> dict[str, str]:
    """``file_names`` by the list of names, which need not exist."""
    names = {key: key for key in keys}
    if file.is_file():
        with file.open(encoding="utf-8") as lines:
            rows = (row for row in map(json.loads, lines) if row["split"] == split and row["key"] in names)
            names |= {row["key"]: row["file"].encode("utf-8", "replace").decode() for row in rows}
    return names


def keys_of(folder: Path, shard: dict[str, Any]) -> Iterator[str]:
    """The keys of a shard's samples in order, as it was just written."""
    bounds = np.load(folder / shard["offsets"]["file"]).tolist()
    parse: Callable[[bytes], tuple[str, Any, Any]] = parse_line if is_lines(shard["file"]) else _tar_sample
    with (folder / shard["file"]).open("rb") as file:
        file.seek(bounds[0])
        for start, end in pairwise(bounds):
            yield parse(file.read(end - start))[0]


def _tar_sample(span: bytes) -> tuple[str, bytes, Any]:
    """(key, image, record) from a sample's bytes. ValueError or KeyError if they are no sample."""
    files = split_span(span)
    key, record = files.pop("__key__").decode(), json.loads(files.pop("json"))
    files.pop("txt", None)
    (image,) = files.values()
    return key, image, record


def _read(opened: Opened, shard: Mapping[str, Any], number: int) -> tuple[str, bytes, Any]:
    """(key, image, record) of a sample. ValueError or KeyError if it is damaged."""
    start, end = span_of(opened.offsets, number)
    if not 0 <= start < end <= shard["bytes"]:
        raise ValueError("its offsets lie outside the shard")
    span = _bytes_at(opened.file, start, end - start)
    if opened.images is None:
        return _tar_sample(span)
    key, place, record = parse_line(span)
    return key, _bytes_at(opened.images, *place), record


def _bytes_at(descriptor: int, start: int, size: int) -> bytes:
    data = os.pread(descriptor, size, start)
    if len(data) != size:
        raise ValueError("cut off")
    return data


class ShardReader:
    """Random access to the samples of one split, numbered 0…n−1 in the order of the shards.

    Only the index is read at the start. A shard is opened with its first sample (``most``: how many stay open, see
    :class:`OpenShards`). A sample takes two ``pread``: its offsets and its bytes; a third one if its image is in another tar. An
    object can be forked or pickled into workers.
    """

    def __init__(self, path: str | Path, split: str, most: int | None = None) -> None:
        index_path = _index_path(path)
        self.index = read_index(index_path)
        if split not in self.index["splits"]:
            allowed = ", ".join(sorted(self.index["splits"]))
            raise UserError(f"{index_path}: has no split {split!r}; allowed: {allowed}")
        self.split = split
        self._shards = OpenShards(index_path.parent, self.index["splits"][split]["shards"], most)
        self._firsts = list(accumulate((shard["samples"] for shard in self._shards.shards), initial=0))

    def __len__(self) -> int:
        return self._firsts[-1]

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close this process's file handles; reading opens them again."""
        if "_shards" in self.__dict__:  # missing if the constructor raised
            self._shards.close()

    def read_ahead(self, most: int) -> None:
        """From now on keep at most ``most`` shards open, and have the system read each one ahead when it is opened."""
        self._shards.read_ahead(most)

    @property
    def sizes(self) -> list[int]:
        """The number of samples of each shard, in order."""
        return [int(shard["samples"]) for shard in self._shards.shards]

    def read(self, number: int) -> tuple[str, bytes, dict[str, Any]]:
        """(key, encoded image, record) of sample ``number``; the record holds "captions", "label", "labels" or "options".

        IndexError for a number outside 0…n−1; UserError, which names the shard, for a sample that is damaged.
        """
        if not 0 <= number < self._firsts[-1]:
            raise IndexError(f"no sample {number} among {self._firsts[-1]}")
        place = bisect_right(self._firsts, number) - 1
        shard = self._shards.shards[place]
        opened = self._shards[place]
        try:
            key, image, record = _read(opened, shard, number - self._firsts[place])
            if not isinstance(record, dict) or not _HAS[self.index["kind"]] & record.keys():
                raise ValueError("not the record of a sample")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            path = self._shards.folder / shard["file"]
            raise UserError(f"{path}: sample {number} of {self.split} is corrupt ({error})") from None
        return key, image, record
