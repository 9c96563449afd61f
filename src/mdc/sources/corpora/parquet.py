"""Image–caption pairs in a parquet file or a folder of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.formats.parquet_file import open_parquet
from mdc.formats.rank import rank_hash
from mdc.formats.samples import Skipped, safe_key
from mdc.records import UserError
from mdc.sources.cleaned import CaptionedImages, Found
from mdc.sources.parquet import need_columns, rows, split_files, stream


class ParquetCorpus(CaptionedImages):
    """The rows of one split in the order of the files; with ``pairs``, a random subset of the train split."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._data_dir = data_dir

    def found(self, split: str, skipped: Skipped) -> Iterator[Found]:
        pairs = self.config["pairs"] if split == "train" else None
        chosen = None if pairs is None else _subset(self.config, self._data_dir, pairs)
        for row in rows(self.config, split, self._data_dir, skipped, captions=True, chosen=chosen):
            yield Found(row.key, row.file, row.image, row.extension, row.captions)


def open_source(source: Mapping[str, Any], data_dir: Path) -> ParquetCorpus:
    """See mdc.sources.source."""
    return ParquetCorpus(source, data_dir)


def _subset(source: Mapping[str, Any], data_dir: Path, pairs: int) -> set[str]:
    """The keys of the ``pairs`` rows of the train split with the least hashes, images unseen."""
    key_column, split_column = source["key_column"], source["split_column"]
    wanted = source["splits"].get("train", "train")
    keys: list[str] = []
    for path in split_files(source, "train", data_dir):
        with open_parquet(path) as file:
            names = set(file.schema_arrow.names)
            need_columns(path, names, key_column, split_column)
            if not (columns := sorted({key_column, split_column} & names)):
                keys += [f"{len(keys) + row:08d}" for row in range(file.metadata.num_rows)]
                continue
            for row in stream(path, file, columns):
                if split_column is None or row[split_column] == wanted:
                    keys.append(f"{len(keys):08d}" if key_column is None else safe_key(str(row[key_column])))
    if pairs > len(keys):
        raise UserError(f"{source['path']}: {pairs} pairs are asked for, its train split has {len(keys)}")
    return set(sorted(keys, key=lambda key: (rank_hash(0, key), key))[:pairs])
