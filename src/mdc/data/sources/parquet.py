"""Rows of parquet files by split, streamed, for the kinds ``parquet``, ``caption_nouns`` and ``pairs``.

``path`` is a file or a folder of them; the columns' names come from the source's mapping (mdc.plan.config.kinds.sources).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from mdc.data.formats.captions import caption_name
from mdc.data.formats.parquet_file import holds_bytes, is_text, need_columns, open_parquet, parquet_rows
from mdc.data.formats.reading import SourceItem
from mdc.data.formats.samples import read_image, safe_key, texts_of
from mdc.data.formats.split_words import SplitWords, named_splits
from mdc.data.formats.table_rows import files_of
from mdc.plan.data_folder import Links
from mdc.plan.records import UserError

Chosen = Mapping[str, Callable[[str], bool]]
#: instead of a split's name: all rows
ALL = "all"


class ParquetFiles:
    """A source's parquet files in the order of their names. ``links`` becomes what is met of them; they are not followed in a
    dataset that was obtained. UserError if there is no file."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path, links: Links | None = None) -> None:
        self._source, self._words = source, SplitWords(source.get("splits", {}))
        self._root = Path(data_dir) / source["path"]  # an absolute path wins
        self.paths = files_of(self._root, (), "parquet", links=None if source.get("dataset") else links or Links())

    @cached_property
    def named(self) -> dict[Path, str | None]:
        """The split that each file is named after (``train/``, ``validation-00000-of-00002.parquet``), see ``named_splits``."""
        return named_splits(self._root, self.paths, partial(self._words.of_name, root=self._root))

    def of(self, split: str) -> list[Path]:
        """The files that can have rows of a split: all, if a column names the split; else those named after it, or, if no file
        is named after a split, all for "train"."""
        if self._source["split_column"] is not None or split == ALL:
            return self.paths
        return [path for path in self.paths if (self.named[path] or "train") == split]

    def counts(self) -> Counter[str]:
        """How many rows each split has by the split column, without reading images. UserError for a word that means no split."""
        column, total = self._source["split_column"], Counter[str]()
        for path in self.paths if column else ():
            with open_parquet(path) as file:
                words = Counter(row[column] for row in parquet_rows(path, file, [column]))
            for word, rows in words.items():
                total[self._words.known(word, f"{path}: column {column!r}", rows)] += rows
        return total

    def rows(self, split: str, **columns: Any) -> Iterator[SourceItem]:
        """The rows of one split of all files; ``columns`` as in ``rows_of_file``."""
        numbers = Counter[str]()
        for path in self.of(split):
            yield from self.rows_of_file(path, [split], numbers, **columns)

    def rows_of_file(
        self,
        path: Path,
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
        column = self._source["image_column"]
        with open_parquet(path) as file:
            schema = file.schema_arrow
            need_columns(path, schema.names, column)
            if not holds_bytes(kind := schema.field(column).type):
                raise UserError(f"{path}: column '{column}' holds {kind}; images are bytes, or a struct with bytes")
            captioned = caption_column(path, self._source["caption_column"], schema) if captions else None
            for split, key, row in self._rows(path, file, splits, numbers, [column, captioned, label_column]):
                if chosen and split in chosen and not chosen[split](key):
                    continue
                texts = texts_of(row[captioned]) if captioned else []
                label = row[label_column] if label_column else None
                named = "" if split == ALL else split
                yield SourceItem(key, path.name, partial(read_image, row[column]), texts, named, label)

    def keys_of_file(self, path: Path, splits: Sequence[str], numbers: Counter[str]) -> Iterator[str]:
        """The keys of the rows of one file that are in ``splits``, without reading images; ``numbers``: see ``rows_of_file``."""
        with open_parquet(path) as file:
            for _, key, _ in self._rows(path, file, splits, numbers, []):
                yield key

    def _rows(
        self, path: Path, file: Any, splits: Sequence[str], numbers: Counter[str], columns: Sequence[str | None]
    ) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(split, key, row) of the rows that are in ``splits``; without a split column, each row is in all of them."""
        key_column = self._source["key_column"]
        split_column = None if list(splits) == [ALL] else self._source["split_column"]
        for row in parquet_rows(path, file, [key_column, split_column, *columns]):
            for split in splits:
                if split_column is None or self._words.of(row[split_column]) == split:
                    # numbered before rows are left out, so that a key is the row's number in the source
                    key = f"{numbers[split]:08d}" if key_column is None else safe_key(str(row[key_column]))
                    numbers[split] += 1
                    yield split, key, row


def captions_of_file(
    path: Path, named: str | None, split_column: str | None, split_values: Sequence[str | None]
) -> Iterator[list[str]]:
    """The captions of every row of a file, in the column ``named`` or found by its name, without reading images; with
    ``split_column``, of the rows with one of ``split_values``."""
    with open_parquet(path) as file:
        column = caption_column(path, named, file.schema_arrow)
        for row in parquet_rows(path, file, [column, split_column]):
            if split_column is None or row[split_column] in split_values:
                yield texts_of(row[column])


def image_column(path: Path) -> str:
    """The first column of a file that can hold images: a struct with bytes (as in the hub's datasets) before plain bytes.
    UserError if there is none."""
    import pyarrow.types as types

    with open_parquet(path) as file:
        fields = sorted(file.schema_arrow, key=lambda field: not types.is_struct(field.type))  # stable
    column = next((field.name for field in fields if holds_bytes(field.type)), None)
    if column is None:
        raise UserError(
            f"{path}: no column holds images (bytes, or a struct with bytes); it has {', '.join(f.name for f in fields)}"
        )
    return str(column)


def caption_column(path: Path, named: str | None, schema: Any) -> str:
    """The column of captions: ``named``, or by its name. UserError if there is none, or if it has no texts."""
    import pyarrow.types as types

    column = named or caption_name(sorted(schema.names))
    if column is None:
        raise UserError(
            f"{path}: no column is called captions; name it in source.caption_column: {', '.join(sorted(schema.names))}"
        )
    need_columns(path, schema.names, column)
    kind = schema.field(column).type
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    inner = kind.value_type if any(test(kind) for test in lists) else kind
    if not (is_text(inner) or types.is_null(inner)):
        raise UserError(f"{path}: column '{column}' holds {kind}; captions are texts or lists of texts")
    return column
