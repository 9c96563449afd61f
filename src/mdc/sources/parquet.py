"""Parquet files: rows of one split, streamed, and the classes of a labelled set.

``path`` is a file or a folder of them; the columns' names come from the source's table of values (mdc.config).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdc.formats.captions import texts_of
from mdc.formats.parquet_file import open_parquet, readable
from mdc.formats.rank import rank_hash
from mdc.formats.samples import Skipped, checked_image, safe_key
from mdc.records import UserError

Source = Mapping[str, Any]
_MOST_CLASSES = 1_000_000  # a number beyond this is an identifier, not a class


@dataclass(frozen=True)
class ParquetRow:
    """A row whose image can be decoded."""

    key: str
    file: str
    image: bytes
    extension: str
    captions: list[str]
    label: Any


def rows(source: Source, split: str, data_dir: Path, skipped: Skipped) -> Iterator[ParquetRow]:
    """Rows of one split whose image can be decoded, streamed by row group."""
    image_column = source.get("image_column", "image")
    key_column = source.get("key_column")
    wanted = source.get("splits", {}).get(split, split)
    split_column = source.get("split_column", "split")
    pairs = source.get("pairs") if split == "train" else None
    chosen = None if pairs is None else _subset(source, data_dir, pairs)
    number = 0
    for path in _split_files(source, split, data_dir):
        with open_parquet(path) as file:
            schema = file.schema_arrow
            names = set(schema.names)
            caption_column = caption_column_of(source, names)
            label_column = source.get("label_column", "label")
            _need(path, names, image_column, key_column, split_column, source.get("caption_column"))
            _images_can_be(path, schema.field(image_column))
            if caption_column:
                _text_captions(path, schema.field(caption_column))
            columns = {image_column, key_column, split_column, caption_column, label_column} & names
            for row in _stream(path, file, sorted(columns)):
                if split_column is not None and row[split_column] != wanted:
                    continue
                # Numbered before anything is left out, so that a key names its row in the source.
                key = f"{number:08d}" if key_column is None else safe_key(str(row[key_column]))
                number += 1
                if chosen is not None and key not in chosen:
                    continue
                image = row[image_column]
                image = image.get("bytes") if isinstance(image, dict) else image
                found = checked_image(image, skipped, key, path.name)
                if found is not None:
                    texts = texts_of(row.get(caption_column)) if caption_column else []
                    yield ParquetRow(key, path.name, *found, texts, row.get(label_column))


def _subset(source: Source, data_dir: Path, pairs: int) -> set[str]:
    """The keys of the ``pairs`` rows of the train split with the least hashes, images unseen."""
    key_column, split_column = source.get("key_column"), source.get("split_column", "split")
    wanted = source.get("splits", {}).get("train", "train")
    keys: list[str] = []
    for path in _split_files(source, "train", data_dir):
        with open_parquet(path) as file:
            names = set(file.schema_arrow.names)
            _need(path, names, key_column, split_column)
            if not (columns := sorted({key_column, split_column} & names)):
                keys += [f"{len(keys) + row:08d}" for row in range(file.metadata.num_rows)]
                continue
            for row in _stream(path, file, columns):
                if split_column is None or row[split_column] == wanted:
                    keys.append(f"{len(keys):08d}" if key_column is None else safe_key(str(row[key_column])))
    if pairs > len(keys):
        raise UserError(f"{source['path']}: {pairs} pairs are asked for, its train split has {len(keys)}")
    return set(sorted(keys, key=lambda key: (rank_hash(0, key), key))[:pairs])


def _stream(path: Path, file: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    for group in range(file.num_row_groups):
        with readable(path, f"row group {group} cannot be read"):
            batches = file.read_row_group(group, columns=columns).to_batches(max_chunksize=256)
        for batch in batches:
            with readable(path, f"row group {group} cannot be read"):
                listed = batch.to_pylist()
            yield from listed


def caption_column_of(source: Source, names: set[str]) -> str | None:
    """The column that holds captions: the one named, else ``captions`` or ``caption`` where there is one."""
    if source.get("caption_column"):
        return str(source["caption_column"])
    return next((name for name in ("captions", "caption") if name in names), None)


def captions_of_split(source: Source, split_value: str, data_dir: Path) -> list[list[str]]:
    """The captions of every row whose split column holds ``split_value``, images unseen."""
    column = source.get("split_column", "split")
    return [
        captions
        for path in _files(source, data_dir)
        for captions in captions_of_file(source, path, column, split_value)
    ]


def captions_of_file(
    source: Source, path: Path, split_column: str | None = None, split_value: str | None = None
) -> Iterator[list[str]]:
    """The captions of every row of a file, images unseen; with ``split_column`` of rows that hold ``split_value``."""
    with open_parquet(path) as file:
        names = set(file.schema_arrow.names)
        column = caption_column_of(source, names) or "captions"
        _need(path, names, column, split_column)
        _text_captions(path, file.schema_arrow.field(column))
        for row in _stream(path, file, [column] if split_column is None else sorted({column, split_column})):
            if split_column is None or row[split_column] == split_value:
                yield texts_of(row[column])


def class_table(source: Source, data_dir: Path) -> tuple[list[str], dict[Any, int]]:
    """Class names, and the number of each label value; over all rows, so that every split counts alike.

    Integer labels are their own number; their names come from ``class_name_column``, from Hugging Face's schema
    metadata, or are the numbers. Text labels are numbered alphabetically.
    """
    column, name_column = source.get("label_column", "label"), source.get("class_name_column")
    names_of: dict[Any, set[str]] = {}
    listed: list[str] = []
    # only the splits that are probed: a hub's unlabelled test split holds -1
    files = {path: None for split in ("train", "test") for path in _split_files(source, split, data_dir)}
    for path in files:
        with open_parquet(path) as file:
            schema = file.schema_arrow
            _need(path, set(schema.names), column, name_column)
            _scalar_labels(path, schema.field(column))
            listed = listed or _listed_names(schema.metadata or {}, column)
            with readable(path, "the labels cannot be read"):
                table = file.read(columns=[column] if name_column is None else [column, name_column])
                pairs = table.group_by(table.column_names).aggregate([]).to_pylist()
        for row in pairs:
            names_of.setdefault(row[column], set()).update([str(row[name_column])] if name_column else [])
    values = [value for value in names_of if value is not None]
    if len({type(value) for value in values}) > 1:
        raise UserError(f"{source['path']}: column {column!r} holds numbers in one file and texts in another")
    values.sort()
    if values and isinstance(values[0], str):
        return values, {value: number for number, value in enumerate(values)}
    if not values or values[0] < 0 or values[-1] >= _MOST_CLASSES:
        raise UserError(f"{source['path']}: column {column!r} must hold class names or numbers from 0")
    names = listed or [str(value) for value in range(values[-1] + 1)]
    if len(names) <= values[-1]:
        raise UserError(f"{source['path']}: label {values[-1]} is outside the {len(names)} classes of its schema")
    for value in values:
        if name_column:
            if len(names_of[value]) != 1:
                raise UserError(f"{source['path']}: label {value} has several names: {sorted(names_of[value])[:5]}")
            names[value] = str(*names_of[value])
    return names, {number: number for number in range(len(names))}


# --- files ------------------------------------------------------------------------------------------------------------


def _files(source: Source, data_dir: Path) -> list[Path]:
    path = Path(data_dir) / source["path"]  # an absolute path wins
    if path.is_dir():
        found = sorted(path.rglob("*.parquet"))
        if not found:
            raise UserError(f"{path}: holds no .parquet file")
        return found
    if not path.is_file():
        raise UserError(
            f"{path}: no such file or folder; put the data there, or set MDC_DATA to the folder that has it"
        )
    return [path]


def _split_files(source: Source, split: str, data_dir: Path) -> list[Path]:
    """Files that can hold rows of a split: all, where a column names the split; else those named after it.

    Named after it: a folder ``<split>/``, a file ``<split>.parquet`` or ``<split>-….parquet`` (Hugging Face's habit).
    Where no file is named after any split, all of them are "train".
    """
    files = _files(source, data_dir)
    if source.get("split_column", "split") is not None:
        return files
    root = Path(data_dir) / source["path"]
    splits = {"train": "train", "val": "val", "test": "test", **source.get("splits", {})}

    def named(path: Path, name: str) -> bool:
        relative = path.relative_to(root) if path != root else Path(path.name)
        return name in relative.parts[:-1] or relative.stem == name or relative.stem.startswith(name + "-")

    if not any(named(path, name) for path in files for name in splits.values()):
        return files if split == "train" else []
    return [path for path in files if named(path, splits[split])]


# --- columns ----------------------------------------------------------------------------------------------------------


def _need(path: Path, names: set[str], *columns: str | None) -> None:
    for column in columns:
        if column is not None and column not in names:
            raise UserError(f"{path}: has no column {column!r}; it has {', '.join(sorted(names))}")


def _images_can_be(path: Path, field: Any) -> None:
    import pyarrow.types as types

    kind = field.type
    inner = kind
    if types.is_struct(kind):
        inner = next((kind.field(i).type for i in range(kind.num_fields) if kind.field(i).name == "bytes"), None)
    if inner is None or not (types.is_binary(inner) or types.is_large_binary(inner) or types.is_null(inner)):
        raise UserError(f"{path}: column '{field.name}' holds {kind}; images are bytes, or a struct with bytes")


def _text_captions(path: Path, field: Any) -> None:
    import pyarrow.types as types

    inner = field.type.value_type if types.is_list(field.type) or types.is_large_list(field.type) else field.type
    inner = inner.value_type if types.is_dictionary(inner) else inner
    if not (types.is_string(inner) or types.is_large_string(inner) or types.is_null(inner)):
        raise UserError(f"{path}: column '{field.name}' holds {field.type}; captions are texts or lists of texts")


def _scalar_labels(path: Path, field: Any) -> None:
    import pyarrow.types as types

    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if not (types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)):
        raise UserError(
            f"{path}: column '{field.name}' holds {field.type}; a label is a whole number or a text "
            "(a missing number makes a column float: drop such rows)"
        )


def _listed_names(metadata: Mapping[bytes, bytes], column: str) -> list[str]:
    try:
        feature = json.loads(metadata[b"huggingface"])["info"]["features"][column]
        return [str(name) for name in feature["names"]]
    except (KeyError, TypeError, ValueError, RecursionError):
        return []
