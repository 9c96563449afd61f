"""Image–caption pairs in a parquet file or a folder of them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from mdc.formats.parquet_file import open_parquet
from mdc.formats.rank import rank_hash
from mdc.formats.samples import Skipped, safe_key
from mdc.records import UserError
from mdc.sources.cleaned import CaptionedImages, Found
from mdc.sources.corpora.dealing import dealt
from mdc.sources.parquet import ALL, need_columns, rows, split_files, stream


class ParquetCorpus(CaptionedImages):
    """The rows of one split in the order of the files; with ``pairs``, a random subset of the train split. With ``dealt`` the
    rows of all files, dealt into splits by :mod:`mdc.sources.corpora.dealing`."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._data_dir = data_dir

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
            yield Found(row.key, row.file, row.image, row.extension, row.captions)

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


def _too_many(source: Mapping[str, Any], pairs: int, there: int) -> UserError:
    return UserError(f"{source['path']}: {pairs} pairs are asked for, its train split has {there}")


def open_source(source: Mapping[str, Any], data_dir: Path) -> ParquetCorpus:
    """See mdc.sources.source."""
    return ParquetCorpus(source, data_dir)


def _subset(source: Mapping[str, Any], data_dir: Path, pairs: int) -> Callable[[str], bool]:
    """Whether a key is among those of the ``pairs`` rows of the train split with the least (hash, key).

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
        return lambda key: rank_hash(0, key) <= last
    ties = {*sorted(key for key in _keys(source, data_dir) if rank_hash(0, key) == last)[: pairs - below]}
    return lambda key: rank_hash(0, key) < last or key in ties


def _keys(source: Mapping[str, Any], data_dir: Path, split: str = "train") -> Iterator[str]:
    """The keys of a split's rows in their order."""
    key_column, split_column = source["key_column"], None if split == ALL else source["split_column"]
    wanted = source["splits"].get(split, split)
    number = 0
    for path in split_files(source, split, data_dir):
        with open_parquet(path) as file:
            names = set(file.schema_arrow.names)
            need_columns(path, names, key_column, split_column)
            columns = sorted({key_column, split_column} & names)
            rows: Iterable[Mapping[str, Any]] = (
                stream(path, file, columns) if columns else repeat({}, file.metadata.num_rows)
            )
            for row in rows:
                if split_column is None or row[split_column] == wanted:
                    yield f"{number:08d}" if key_column is None else safe_key(str(row[key_column]))
                    number += 1
