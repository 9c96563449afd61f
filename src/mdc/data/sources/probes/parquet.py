"""Labelled images in a parquet file or a folder of them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.parquet_file import is_text, need_columns, open_parquet, parquet_rows
from mdc.data.formats.reading import SourceItem
from mdc.data.formats.samples import LeftOut
from mdc.data.formats.split_words import SplitWords
from mdc.data.sources.cleaned import LabelledImages
from mdc.data.sources.parquet import ParquetFiles
from mdc.plan.records import UserError

_MOST_CLASSES = 1_000_000  # a number beyond this is an identifier, not a class


class ParquetProbe(LabelledImages):
    """The labelled rows of one split in the order of the files; a row without a label is left out and counted."""

    labelled_by_people = True

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source, data_dir)
        self._files = ParquetFiles(source, data_dir, self.links)
        self._files.counts()
        self.classes, self._labels = _class_table(self._files, source)

    def items(self, split: str) -> Iterator[SourceItem]:
        for row in self._files.rows(split, label_column=self.config["label_column"]):
            if row.label is None:
                yield row._replace(read=LeftOut("no label"))
            else:
                yield row._replace(label=self._labels[row.label])


open_source = ParquetProbe  # see mdc.data.sources.source


def _class_table(files: ParquetFiles, source: Mapping[str, Any]) -> tuple[list[str], dict[Any, int]]:
    """Class names, and the number of each label value; over the rows of both splits, so that it is the same for each.

    Integer labels are their own number; their names come from ``class_name_column``, from Hugging Face's schema
    metadata, or are the numbers. Text labels are numbered alphabetically.
    """
    column, name_column, split_column = source["label_column"], source["class_name_column"], source["split_column"]
    words = SplitWords(source["splits"])
    names_of: dict[Any, set[str]] = {}
    listed: list[str] = []
    # only the probed splits: an unlabelled test split on the hub has -1
    for path in dict.fromkeys([*files.of("train"), *files.of("test")]):
        with open_parquet(path) as file:
            schema = file.schema_arrow
            need_columns(path, schema.names, column, name_column)
            _scalar_labels(path, schema.field(column))
            listed = listed or _listed_names(schema.metadata or {}, column)
            for row in parquet_rows(path, file, [column, name_column, split_column]):
                if split_column is not None and words.of(row[split_column]) not in ("train", "test"):
                    continue
                names_of.setdefault(row[column], set()).update([str(row[name_column])] if name_column else [])
    if not names_of and split_column is not None:
        raise UserError(f"{source['path']}: no row is of train or test by column {split_column!r}; see source.splits")
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


def _scalar_labels(path: Path, field: Any) -> None:
    import pyarrow.types as types

    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if not (types.is_integer(kind) or is_text(kind)):
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
