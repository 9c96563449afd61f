"""Image–caption pairs in a parquet file or a folder of them, read by one job or, file by file, by several."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.parquet_file import open_parquet
from mdc.data.formats.rank import rank_hash
from mdc.data.formats.samples import Skipped, held_out, safe_key
from mdc.data.formats.split_words import SplitWords
from mdc.data.sources.cleaned import CaptionedImages, Found, InParts
from mdc.data.sources.corpora.dealing import dealt
from mdc.data.sources.parquet import (
    ALL,
    need_columns,
    need_known_splits,
    parquet_files,
    rows,
    rows_of_file,
    split_files,
    stream,
)
from mdc.plan.records import UserError


class ParquetCorpus(CaptionedImages):
    """The rows of one split in the order of the files; with ``pairs``, a random subset of the train split. With ``dealt`` the
    rows of all files, dealt into splits by :mod:`mdc.data.sources.corpora.dealing`."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._data_dir = data_dir
        if source.get("dealt") is None:
            need_known_splits(source, data_dir)

    def found(self, split: str, skipped: Skipped) -> Iterator[Found]:
        pairs = self.config["pairs"] if split == "train" else None
        if self._dealt is not None:
            of_split = self._dealt[split]
            chosen: Callable[[str], bool] | None = (
                of_split if pairs is None else self._least(of_split, pairs)
            ).__contains__
        else:
            chosen = None if pairs is None else _subset(self.config, self._data_dir, pairs)
        whole = split if self._dealt is None else ALL
        for row in rows(self.config, whole, self._data_dir, skipped, captions=True, chosen=chosen):
            yield Found(row.key, row.file, row.read, row.captions)

    @cached_property
    def _dealt(self) -> dict[str, frozenset[str]] | None:
        if (how := self.config.get("dealt")) is None:
            return None
        keys = _keys(self.config, self._data_dir, ALL)
        return dealt(keys, how["seed"], how["test"], how["val"], where=self.config["path"])

    def _least(self, keys: frozenset[str], pairs: int) -> frozenset[str]:
        if pairs > len(keys):
            raise _too_many(self.config, pairs, len(keys))
        return frozenset(sorted(keys, key=lambda key: (rank_hash(0, key), key))[:pairs])


class ParquetInParts(InParts):
    """The rows of all files; a part is a file, of whichever splits it has rows. With ``val_share``, val is drawn from train."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._data_dir = data_dir
        need_known_splits(source, data_dir)
        self._files = parquet_files(source, data_dir)
        self._splits = {
            split: frozenset(split_files(source, split, data_dir)) for split in {"train", "val", *source["splits"]}
        }
        if source.get("val_share"):
            if self._splits["val"]:
                raise UserError(
                    f"{min(self._splits['val'])}: named after a split, but val_share holds rows out; move it, or leave "
                    "val_share out"
                )
            self._splits["val"] = self._splits["train"]

    @property
    def parts(self) -> int:
        return len(self._files)

    def seal(self, part: int) -> Any:
        """The file, and what of the others decides its samples: how many rows they have, or, of a subset, all of them."""
        # both are read here, once, before processes are forked that need them
        counted = self._firsts[part] if self.config["key_column"] is None else None
        drawn = None
        if self._chosen is not None:
            drawn = [self.config["pairs"], *map(_size_and_time, self._files)]
        return [_size_and_time(self._files[part]), counted, drawn]

    def found_in(self, part: int, splits: Collection[str], skipped: Skipped) -> Iterator[Found]:
        path, share = self._files[part], self.config.get("val_share")
        chosen: dict[str, Callable[[str], bool]] = {}
        if self._chosen is not None:
            chosen["train"] = self._chosen
        if share:
            chosen = {"train": lambda key: not held_out(key, share), "val": lambda key: held_out(key, share)}
        here = [split for split in sorted(splits) if path in self._splits.get(split, ())]
        if not here:
            return  # a file of another split is not read through
        numbers = Counter(self._firsts[part] if self.config["key_column"] is None else {})
        for row in rows_of_file(path, self.config, here, numbers, skipped, captions=True, chosen=chosen):
            yield Found(row.key, row.file, row.read, row.captions, row.split)

    @cached_property
    def _firsts(self) -> list[dict[str, int]]:
        """Of each file, how many rows of each split the files before it have; images unseen."""
        counted: Counter[str] = Counter()
        found = []
        for path in self._files:
            found.append(dict(counted))
            for split, files in self._splits.items():
                if path in files:
                    counted[split] += sum(1 for _ in _keys_of_file(self.config, split, path, 0))
        return found

    @cached_property
    def _chosen(self) -> _Subset | None:
        pairs = self.config["pairs"]
        return None if pairs is None else _subset(self.config, self._data_dir, pairs)


def _size_and_time(path: Path) -> list[Any]:
    status = path.stat()
    return [path.name, status.st_size, status.st_mtime_ns]


def _too_many(source: Mapping[str, Any], pairs: int, there: int) -> UserError:
    return UserError(f"{source['path']}: {pairs} pairs requested, its train split has {there}")


def open_source(source: Mapping[str, Any], data_dir: Path) -> CaptionedImages:
    """See mdc.data.sources.source."""
    in_parts = source.get("in_parts") or source.get("val_share")
    return ParquetInParts(source, data_dir) if in_parts else ParquetCorpus(source, data_dir)


@dataclass(frozen=True)
class _Subset:
    """Whether a key is of a subset: those with a hash below ``last``, and the ``ties`` among those that have it."""

    last: int
    ties: frozenset[str] | None  # None: all of them

    def __call__(self, key: str) -> bool:
        rank = rank_hash(0, key)
        return rank < self.last or (rank == self.last and (self.ties is None or key in self.ties))


def _subset(source: Mapping[str, Any], data_dir: Path, pairs: int) -> _Subset:
    """The keys of the ``pairs`` rows of the train split with the least (hash, key).

    The keys are read, images unseen, and 8 bytes of each are kept; texts are only of keys that share the last hash.
    """
    ranks = array("Q", (rank_hash(0, key) for key in _keys(source, data_dir)))
    if pairs > len(ranks):
        raise _too_many(source, pairs, len(ranks))
    ordered = np.frombuffer(ranks, dtype=np.uint64)
    ordered.partition(pairs - 1)
    last = int(ordered[pairs - 1])
    below, up_to = int((ordered < last).sum()), int((ordered <= last).sum())
    if up_to == pairs:
        return _Subset(last, None)
    ties = sorted(key for key in _keys(source, data_dir) if rank_hash(0, key) == last)[: pairs - below]
    return _Subset(last, frozenset(ties))


def _keys(source: Mapping[str, Any], data_dir: Path, split: str = "train") -> Iterator[str]:
    """The keys of a split's rows in their order."""
    number = 0
    for path in split_files(source, split, data_dir):
        for key in _keys_of_file(source, split, path, number):
            yield key
            number += 1


def _keys_of_file(source: Mapping[str, Any], split: str, path: Path, first: int) -> Iterator[str]:
    """The keys of a file's rows of a split, whose rows in the files before are ``first``."""
    key_column, split_column = source["key_column"], None if split == ALL else source["split_column"]
    words, number = SplitWords(source["splits"]), first
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        need_columns(path, names, key_column, split_column)
        columns = sorted({key_column, split_column} - {None})
        rows: Iterable[Mapping[str, Any]] = (
            stream(path, file, columns) if columns else repeat({}, file.metadata.num_rows)
        )
        for row in rows:
            if split_column is None or words.of(row[split_column]) == split:
                yield f"{number:08d}" if key_column is None else safe_key(str(row[key_column]))
                number += 1
