"""Parquet files: rows of one split, streamed; what the kinds ``parquet`` and ``caption_nouns`` are made of.

``path`` is a file or a folder of them; the columns' names come from the source's mapping (mdc.plan.config.sources).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.captions import caption_name
from mdc.data.formats.folders import is_clutter
from mdc.data.formats.parquet_file import open_parquet, readable
from mdc.data.formats.reading import Reader
from mdc.data.formats.samples import Skipped, checked_image, safe_key, texts_of
from mdc.data.formats.split_words import SplitWords, unknown_word
from mdc.plan.records import UserError

Given = Mapping[str, Any]
IMAGES = 64  # rows with images that are in memory at once
#: in the place of a split's name: all rows, whatever split they are of
ALL = "all"


@dataclass(frozen=True)
class ParquetRow:
    """A row; ``read`` reads its image."""

    key: str
    file: str
    read: Reader
    captions: list[str]
    label: Any
    split: str


def rows(
    source: Given,
    split: str,
    data_dir: Path,
    skipped: Skipped,
    *,
    captions: bool = False,
    label_column: str | None = None,
    chosen: Callable[[str], bool] | None = None,
) -> Iterator[ParquetRow]:
    """Rows of one split that have an image, streamed; of keys that are ``chosen`` alone, if that is given.

    ``split`` "all": the rows of all files, whatever split they are of.
    """
    numbers: Counter[str] = Counter()
    for path in split_files(source, split, data_dir):
        of_split = {} if chosen is None else {split: chosen}
        more: dict[str, Any] = {"captions": captions, "label_column": label_column, "chosen": of_split}
        yield from rows_of_file(path, source, [split], numbers, skipped, **more)


def rows_of_file(
    path: Path,
    source: Given,
    splits: Sequence[str],
    numbers: Counter[str],
    skipped: Skipped,
    *,
    captions: bool = False,
    label_column: str | None = None,
    chosen: Mapping[str, Callable[[str], bool]] | None = None,
) -> Iterator[ParquetRow]:
    """Those rows of one file that are of ``splits`` and have an image, in the file's order.

    Where no column names a row's split, the file is of all of ``splits``. ``numbers`` counts the rows of each split through
    all files; ``chosen`` has, of a split that is not taken whole, which keys are.
    """
    image_column, key_column, split_column = (source[f"{name}_column"] for name in ("image", "key", "split"))
    split_column = None if list(splits) == [ALL] else split_column
    words = SplitWords(source["splits"])
    with open_parquet(path) as file:
        schema = file.schema_arrow
        names = schema.names
        caption_column = _caption_column(path, source["caption_column"], names) if captions else None
        need_columns(path, names, image_column, key_column, split_column, caption_column, label_column)
        _images_can_be(path, schema.field(image_column))
        if caption_column:
            _text_captions(path, schema.field(caption_column))
        columns = {image_column, key_column, split_column, caption_column, label_column} - {None}
        for row in stream(path, file, sorted(columns), IMAGES):
            for split in splits:
                if split_column is not None and words.of(row[split_column]) != split:
                    continue
                # Numbered before anything is left out, so that a key names its row in the source.
                key = f"{numbers[split]:08d}" if key_column is None else safe_key(str(row[key_column]))
                numbers[split] += 1
                if chosen and split in chosen and not chosen[split](key):
                    continue
                image = row[image_column]
                if split != ALL:
                    skipped.split = split
                if isinstance(image, dict):
                    if image.get("bytes") is None and image.get("path"):
                        skipped.add("image is a path without bytes", key, path.name, str(image["path"]))
                        continue
                    image = image.get("bytes")
                texts = texts_of(row[caption_column]) if caption_column else []
                label = row[label_column] if label_column else None
                yield ParquetRow(key, path.name, partial(checked_image, image), texts, label, split)


def stream(path: Path, file: Any, columns: list[str], at_once: int = 1024) -> Iterator[dict[str, Any]]:
    """The rows of an open file as dictionaries of ``columns``; memory holds ``at_once`` rows, however large a row group is."""
    for group in range(file.num_row_groups):
        with readable(path, f"row group {group} cannot be read"):
            batches = file.iter_batches(at_once, row_groups=[group], columns=columns)
        while True:
            with readable(path, f"row group {group} cannot be read"):
                batch = next(batches, None)
                listed = [] if batch is None else batch.to_pylist()
            if batch is None:
                break
            yield from listed


def _caption_column(path: Path, named: str | None, names: Sequence[str]) -> str:
    """The column that holds captions: the one named, or one that is called so. UserError if there is none."""
    found = named or caption_name(sorted(names))
    if found is None:
        raise UserError(
            f"{path}: no column is called captions; name it in source.caption_column: {', '.join(sorted(names))}"
        )
    return found


def captions_of_split(source: Given, split_value: str | Collection[str], data_dir: Path) -> list[list[str]]:
    """The captions of every row whose split column holds ``split_value``, or one of these, images unseen."""
    caption_column, split_column = source["caption_column"], source["split_column"]
    return [
        captions
        for path in parquet_files(source, data_dir)
        for captions in captions_of_file(path, caption_column, split_column, split_value)
    ]


def captions_of_file(
    path: Path, caption_column: str | None, split_column: str | None, split_value: str | Collection[str] | None
) -> Iterator[list[str]]:
    """The captions of every row of a file, images unseen; with ``split_column`` of rows that hold ``split_value``, or one of
    these."""
    wanted = [split_value] if isinstance(split_value, str) else split_value or ()
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        column = _caption_column(path, caption_column, names)
        need_columns(path, names, column, split_column)
        _text_captions(path, file.schema_arrow.field(column))
        for row in stream(path, file, [column] if split_column is None else sorted({column, split_column})):
            if split_column is None or row[split_column] in wanted:
                yield texts_of(row[column])


# --- files ------------------------------------------------------------------------------------------------------------


def parquet_files(source: Given, data_dir: Path) -> list[Path]:
    """The file, or all files of the folder in the order of their names. UserError if there is none."""
    path = Path(data_dir) / source["path"]  # an absolute path wins
    if path.is_dir():
        found = sorted(file for file in path.rglob("*.parquet") if not is_clutter(file.name))
        if not found:
            raise UserError(f"{path}: contains no .parquet file")
        return found
    if not path.is_file():
        raise UserError(
            f"{path}: no such file or folder; put the data there, or set MDC_DATA to the folder that has it"
        )
    return [path]


def split_files(source: Given, split: str, data_dir: Path) -> list[Path]:
    """Files that can hold rows of a split: all, where a column names the split; else those named after it.

    Named after it: see :meth:`SplitWords.of_name` (``train/``, ``validation-00000-of-00002.parquet``). Where no file is named
    after any split, all of them are "train". UserError if some are and others are not.
    """
    files = parquet_files(source, data_dir)
    if source["split_column"] is not None or split == ALL:
        return files
    root, words = Path(data_dir) / source["path"], SplitWords(source["splits"])
    named = {path: None if path == root else words.of_name(path.relative_to(root)) for path in files}
    nameless = [path for path, name in named.items() if name is None]
    if len(nameless) == len(files):
        return files if split == "train" else []
    if nameless:
        others = f" and {len(nameless) - 1} more" * (len(nameless) > 1)
        raise UserError(
            f"{nameless[0]}{others}: named after no split, as other files are; rename it, or say what it is in source.splits"
        )
    return [path for path, name in named.items() if name == split]


def need_known_splits(source: Given, data_dir: Path) -> None:
    """UserError for the first row whose split column holds a word that means no split: it would be lost. Images unseen."""
    if (column := source["split_column"]) is None:
        return
    words = SplitWords(source["splits"])
    for path in parquet_files(source, data_dir):
        with open_parquet(path) as file:
            need_columns(path, file.schema_arrow.names, column)
            counts = Counter(row[column] for row in stream(path, file, [column], 1 << 16))
        for word, rows in counts.items():
            if words.of(word) is None:
                raise unknown_word(f"{path}: column {column!r}", word, rows)


# --- columns ----------------------------------------------------------------------------------------------------------


def need_columns(path: Path, names: Sequence[str], *columns: str | None) -> None:
    """UserError naming the first of ``columns`` that is not among ``names``, or is there more than once."""
    for column in columns:
        if column is None:
            continue
        if column not in names:
            raise UserError(f"{path}: has no column {column!r}; it has {', '.join(sorted(names))}")
        if names.count(column) > 1:
            raise UserError(f"{path}: duplicate column {column!r}")


def image_column(path: Path) -> str:
    """The first column of a file that can hold images: a struct with bytes, as the hub's datasets have it, before plain bytes.
    UserError if there is none."""
    import pyarrow.types as types

    with open_parquet(path) as file:
        fields = sorted(
            file.schema_arrow, key=lambda field: not types.is_struct(field.type)
        )  # keeps the order otherwise
    found = next((field.name for field in fields if _holds_bytes(field.type)), None)
    if found is None:
        raise UserError(
            f"{path}: no column holds images (bytes, or a struct with bytes); it has {', '.join(f.name for f in fields)}"
        )
    return str(found)


def _images_can_be(path: Path, field: Any) -> None:
    if not _holds_bytes(field.type):
        raise UserError(f"{path}: column '{field.name}' holds {field.type}; images are bytes, or a struct with bytes")


def _holds_bytes(kind: Any) -> bool:
    import pyarrow.types as types

    inner = kind
    if types.is_struct(kind):
        inner = next((kind.field(i).type for i in range(kind.num_fields) if kind.field(i).name == "bytes"), None)
    if inner is not None and types.is_dictionary(inner):
        inner = inner.value_type
    return inner is not None and (
        types.is_binary(inner) or types.is_large_binary(inner) or types.is_binary_view(inner) or types.is_null(inner)
    )


def _text_captions(path: Path, field: Any) -> None:
    import pyarrow.types as types

    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    inner = field.type.value_type if any(is_one(field.type) for is_one in lists) else field.type
    inner = inner.value_type if types.is_dictionary(inner) else inner
    if not (
        types.is_string(inner) or types.is_large_string(inner) or types.is_string_view(inner) or types.is_null(inner)
    ):
        raise UserError(f"{path}: column '{field.name}' holds {field.type}; captions are texts or lists of texts")
