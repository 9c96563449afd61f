"""Rows of parquet files by split, streamed, for the kinds ``parquet``, ``caption_nouns`` and ``pairs``.

``path`` is a file or a folder of them; the columns' names come from the source's mapping (mdc.plan.config.sources).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

from mdc.data.formats.captions import caption_name
from mdc.data.formats.parquet_file import is_text, open_parquet, readable
from mdc.data.formats.reading import SourceItem
from mdc.data.formats.samples import LeftOut, read_image, safe_key, texts_of
from mdc.data.formats.split_words import SplitWords, unknown_word
from mdc.data.formats.table_rows import files_of
from mdc.plan.data_folder import Links
from mdc.plan.records import UserError

SourceConfig = Mapping[str, Any]
Chosen = Mapping[str, Callable[[str], bool]]
IMAGES = 64  # rows with images that are in memory at once
#: instead of a split's name: all rows
ALL = "all"


def rows(
    files: Sequence[Path], source: SourceConfig, split: str, data_dir: Path, **columns: Any
) -> Iterator[SourceItem]:
    """The rows of one split of all ``files``, streamed; ``columns`` as in ``rows_of_file``."""
    numbers: Counter[str] = Counter()
    for path in split_files(files, source, split, data_dir):
        yield from rows_of_file(path, source, [split], numbers, **columns)


def rows_of_file(
    path: Path,
    source: SourceConfig,
    splits: Sequence[str],
    numbers: Counter[str],
    *,
    captions: bool = False,
    label_column: str | None = None,
    chosen: Chosen | None = None,
) -> Iterator[SourceItem]:
    """The rows of one file that are in ``splits``, in the file's order, each with its split unless that is "all".

    ``captions``: whether they are read; ``label_column``: the column of labels. ``numbers`` counts the rows of each split
    through all files; ``chosen``: {split: whether a key is taken} of splits that are not taken whole.
    """
    column = source["image_column"]
    with open_parquet(path) as file:
        schema = file.schema_arrow
        need_columns(path, schema.names, column)
        if not _holds_bytes(kind := schema.field(column).type):
            raise UserError(f"{path}: column '{column}' holds {kind}; images are bytes, or a struct with bytes")
        caption_column = _caption_column(path, source["caption_column"], schema) if captions else None
        for split, key, row in _rows(path, file, source, splits, numbers, [column, caption_column, label_column]):
            if chosen and split in chosen and not chosen[split](key):
                continue
            image, read = row[column], None
            if isinstance(image, dict):
                if image.get("bytes") is None and image.get("path"):
                    read = LeftOut("image is a path without bytes", str(image["path"]))
                image = image.get("bytes")
            texts = texts_of(row[caption_column]) if caption_column else []
            label = row[label_column] if label_column else None
            named = "" if split == ALL else split
            yield SourceItem(key, path.name, read or partial(read_image, image), texts, named, label)


def keys_of_file(path: Path, source: SourceConfig, splits: Sequence[str], numbers: Counter[str]) -> Iterator[str]:
    """The keys of the rows of one file that are in ``splits``, without reading images; ``numbers``: see ``rows_of_file``."""
    with open_parquet(path) as file:
        for _, key, _ in _rows(path, file, source, splits, numbers, []):
            yield key


def _rows(
    path: Path,
    file: Any,
    source: SourceConfig,
    splits: Sequence[str],
    numbers: Counter[str],
    columns: Sequence[str | None],
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(split, key, row) of the rows that are in ``splits``; without a split column, each row is in all of them."""
    key_column, split_column = source["key_column"], None if list(splits) == [ALL] else source["split_column"]
    words = SplitWords(source["splits"])
    need_columns(path, file.schema_arrow.names, key_column, split_column, *columns)
    at_once = IMAGES if columns else 1024
    for row in stream(path, file, sorted({key_column, split_column, *columns} - {None}), at_once):
        for split in splits:
            if split_column is None or words.of(row[split_column]) == split:
                # numbered before rows are left out, so that a key is the row's number in the source
                key = f"{numbers[split]:08d}" if key_column is None else safe_key(str(row[key_column]))
                numbers[split] += 1
                yield split, key, row


def stream(path: Path, file: Any, columns: list[str], at_once: int = 1024) -> Iterator[dict[str, Any]]:
    """The rows of an open file as dictionaries of ``columns``; memory holds ``at_once`` rows, whatever the size of a row
    group."""
    if not columns:
        yield from repeat({}, file.metadata.num_rows)
        return
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


def _caption_column(path: Path, named: str | None, schema: Any) -> str:
    """The column of captions: ``named``, or by its name. UserError if there is none, or if it has no texts."""
    column = named or caption_name(sorted(schema.names))
    if column is None:
        raise UserError(
            f"{path}: no column is called captions; name it in source.caption_column: {', '.join(sorted(schema.names))}"
        )
    need_columns(path, schema.names, column)
    _text_captions(path, schema.field(column))
    return column


def captions_of_file(
    path: Path, caption_column: str | None, split_column: str | None, split_value: str | Collection[str] | None
) -> Iterator[list[str]]:
    """The captions of every row of a file, without reading images; with ``split_column``, of the rows with (one of)
    ``split_value``."""
    wanted = [split_value] if isinstance(split_value, str) else split_value or ()
    with open_parquet(path) as file:
        column = _caption_column(path, caption_column, file.schema_arrow)
        need_columns(path, file.schema_arrow.names, split_column)
        for row in stream(path, file, [column] if split_column is None else sorted({column, split_column})):
            if split_column is None or row[split_column] in wanted:
                yield texts_of(row[column])


# --- files ------------------------------------------------------------------------------------------------------------


def parquet_files(source: SourceConfig, data_dir: Path, links: Links | None = None) -> list[Path]:
    """The file, or all files of the folder in the order of their names. UserError if there is none. ``links`` becomes what is met
    of them; they are not followed in a dataset that was obtained."""
    links = None if source.get("dataset") else links or Links()
    return files_of(Path(data_dir) / source["path"], (), "parquet", links=links)  # an absolute path wins


def split_files(files: Sequence[Path], source: SourceConfig, split: str, data_dir: Path) -> list[Path]:
    """Those of a source's ``files`` that can have rows of a split: all, if a column names the split; else those named after it.

    By :meth:`SplitWords.of_name` (``train/``, ``validation-00000-of-00002.parquet``). If no file is named after a split, all are
    "train". UserError if only some are.
    """
    if source["split_column"] is not None or split == ALL:
        return list(files)
    root, words = Path(data_dir) / source["path"], SplitWords(source["splits"])
    named = {path: None if path == root else words.of_name(path.relative_to(root)) for path in files}
    nameless = [path for path, name in named.items() if name is None]
    if len(nameless) == len(files):
        return list(files) if split == "train" else []
    if nameless:
        more = f" and {len(nameless) - 1} more" * (len(nameless) > 1)
        raise UserError(
            f"{nameless[0]}{more}: named after no split, as other files are; rename it, or say what it is in source.splits"
        )
    return [path for path, name in named.items() if name == split]


def split_counts(files: Sequence[Path], source: SourceConfig) -> Counter[str]:
    """How many rows each split has by the split column, without reading images. UserError for a word that means no split."""
    words, column, total = SplitWords(source["splits"]), source["split_column"], Counter[str]()
    for path in files if column else ():
        with open_parquet(path) as file:
            need_columns(path, file.schema_arrow.names, column)
            counts = Counter(row[column] for row in stream(path, file, [column], 1 << 16))
        for word, rows in counts.items():
            if (split := words.of(word)) is None:
                raise unknown_word(f"{path}: column {column!r}", word, rows)
            total[split] += rows
    return total


# --- columns ----------------------------------------------------------------------------------------------------------


def need_columns(path: Path, names: Sequence[str], *columns: str | None) -> None:
    """UserError that names the first of ``columns`` that is missing from ``names``, or a duplicate there."""
    for column in columns:
        if column is None:
            continue
        if column not in names:
            raise UserError(f"{path}: has no column {column!r}; it has {', '.join(sorted(names))}")
        if names.count(column) > 1:
            raise UserError(f"{path}: duplicate column {column!r}")


def image_column(path: Path) -> str:
    """The first column of a file that can hold images: a struct with bytes (as in the hub's datasets) before plain bytes.
    UserError if there is none."""
    import pyarrow.types as types

    with open_parquet(path) as file:
        fields = sorted(file.schema_arrow, key=lambda field: not types.is_struct(field.type))  # stable
    column = next((field.name for field in fields if _holds_bytes(field.type)), None)
    if column is None:
        raise UserError(
            f"{path}: no column holds images (bytes, or a struct with bytes); it has {', '.join(f.name for f in fields)}"
        )
    return str(column)


def _holds_bytes(kind: Any) -> bool:
    import pyarrow.types as types

    if types.is_struct(kind):
        place = kind.get_field_index("bytes")
        return place >= 0 and _holds_bytes(kind.field(place).type)
    inner = kind.value_type if types.is_dictionary(kind) else kind
    return any(test(inner) for test in (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_null))


def _text_captions(path: Path, field: Any) -> None:
    import pyarrow.types as types

    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    inner = field.type.value_type if any(test(field.type) for test in lists) else field.type
    if not (is_text(inner) or types.is_null(inner)):
        raise UserError(f"{path}: column '{field.name}' holds {field.type}; captions are texts or lists of texts")
