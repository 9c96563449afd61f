"""A user's own table with named columns: csv, tsv, JSON lines (gzipped or not) or parquet."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from mdc.data.formats.captions import Choice, first_of
from mdc.data.formats.folders import needed
from mdc.data.formats.parquet_file import is_text, need_columns, open_parquet
from mdc.data.formats.table_rows import kind_of, table_rows
from mdc.plan.records import UserError

TAKEN = ".csv, .tsv, .jsonl (also .gz), .parquet"
_DELIMITERS = (",", ";", "|", "\t")  # that a csv may have
_LOOKED_AT = 100  # JSON lines from which the columns are taken
_IMAGE = first_of("image", "image_id", "file_name", "filename", "image_path", "filepath", "path", "file", "img")
#: usual names of the columns of right and of wrong captions
RIGHT = first_of(
    *("caption", "correct", "correct_caption", "positive", "positive_caption", "right", "right_caption", "true_caption")
)
WRONG = first_of(
    *("negative_caption", "negative_captions", "negative", "negatives", "wrong", "wrong_caption", "wrong_captions"),
    *("foil", "foils", "foil_caption", "incorrect", "incorrect_caption", "false_caption", "hard_negative"),
)


class NamedTable:
    """``names``: its columns. UserError if the file is missing, or no table."""

    def __init__(self, path: Path) -> None:
        if (kind := kind_of(needed(path, "file"))) is None:
            raise UserError(f"{path}: unknown file extension; allowed: {TAKEN}")
        self.path, self._kind, self._delimiter = path, kind, ","
        self.names = self._names()

    def columns(self, what: str, choice: Choice, named: str | list[str] | None = None) -> list[str]:
        """The columns ``named``, or those of ``choice``: one, or several with numbers at their ends (``caption_1``,
        ``caption_2``). UserError, which says ``what`` they hold, if there are none."""
        if named is not None:
            listed = [named] if isinstance(named, str) else named
            need_columns(self.path, self.names, *listed)
            return listed
        if names := self.called(choice):
            return names
        raise UserError(
            f"{self.path}: no column is called as {what} are ({choice.__doc__}); it has {', '.join(self.names)[:200]}"
        )

    def called(self, choice: Choice) -> list[str]:
        """The columns of ``choice``, see ``columns``; empty if there are none."""
        stems = {name: re.sub(r"[_ -]?\d+$", "", name) for name in self.names}
        stem = choice(stems.values())
        return [name for name in self.names if stem is not None and stems[name] == stem]

    def image_column(self, named: str | None = None) -> str:
        """The column of images: their names, or, in parquet files, their bytes."""
        return self.columns("images", _IMAGE, named)[0]

    def holds_bytes(self, column: str) -> bool:
        """Whether a column of a parquet file has the images' bytes."""
        if self._kind != "parquet":
            return False
        with open_parquet(self.path) as file:
            return not is_text(file.schema_arrow.field(column).type)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, Mapping[Any, Any], str]]:
        """(number from 0, values by column, complaint or "") of each row; a malformed row has a complaint."""
        rows = table_rows(self.path, self._kind, True, columns, delimiter=self._delimiter)
        return ((number, values, complaint) for number, (_, values, complaint) in enumerate(rows))

    def _names(self) -> list[str]:
        if self._kind == "parquet":
            with open_parquet(self.path) as file:
                return list(file.schema_arrow.names)
        if self._kind == "jsonl":
            rows = islice(table_rows(self.path, "jsonl", True, []), _LOOKED_AT)
            return list(dict.fromkeys(str(name) for _, row, _ in rows for name in row))
        names: list[str] = []
        for delimiter in _DELIMITERS if self._kind == "csv" else ("\t",):
            first = next(table_rows(self.path, self._kind, False, [], delimiter=delimiter), None)
            names = [str(cell).strip() for cell in first[1].values()] if first else []
            if len(names) > 1:
                self._delimiter = delimiter
                break
        return names
