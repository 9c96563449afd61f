"""A list read once, file by file: of each file its counts and what a plan needs of its good rows are kept on disk.

``<place>/NNNNN.json`` tells of the NNNNNth file how many rows it has and why some cannot be used; the file beside it
holds what was kept. The record is written last, so a reading that was killed goes on with the file that was under way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from mdc.data.obtain.seals import need_unchanged
from mdc.data.obtain.url_list import BadRow, Columns, Row, read_rows
from mdc.plan.progress import progress
from mdc.plan.records import UserError, atomic_path, clear_leftovers, read_json, write_json

_TOLD = 10_000  # rows after which the progress is told


class Keeper(NamedTuple):
    """What is kept of the good rows of a file, numbered from 0: ``write`` puts it into a file that ends in ``suffix``.

    ``name`` tells one kind of keeping from another. What was kept under a larger ``bound`` includes what is under a smaller.
    """

    name: str
    bound: int
    suffix: str
    write: Callable[[Iterator[Row], Path], None]


class Kept(NamedTuple):
    """A file of the list that was read: ``first`` is the number of its first row in the list, ``bound`` that of its keeper."""

    path: Path
    first: int
    rows: int
    bad: dict[str, int]
    good: int
    bound: int


def read_files(
    place: Path, files: Sequence[Path], seals: Sequence[Mapping[str, Any]], columns: Columns, keeper: Keeper
) -> list[Kept]:
    """What ``keeper`` keeps of each file, in their order.

    A file is read unless it was before, with the same seal, columns and keeper. UserError if it changes under way.
    """
    clear_leftovers(place)
    found: list[Kept] = []
    first = 0
    with progress(desc="reading", unit="row") as bar:
        for number, (file, seal) in enumerate(zip(files, seals, strict=True)):
            of = {"name": file.name, "sha256": seal["sha256"], "columns": columns.described(), "kept": keeper.name}
            path = place / f"{number:05d}{keeper.suffix}"
            record = _there(path, of, keeper.bound)
            if record is None:
                record = _read(file, path, of, columns, keeper, bar)
                need_unchanged(file, seal)
                write_json(path.with_suffix(".json"), record)
            else:
                bar.update(record["rows"])
            found.append(Kept(path, first, **{name: record[name] for name in ("rows", "bad", "good", "bound")}))
            first += record["rows"]
    return found


def _there(path: Path, of: Mapping[str, Any], bound: int) -> dict[str, Any] | None:
    """The record of a file that was read before, if all of what it tells of is there."""
    try:
        record = read_json(path.with_suffix(".json"))
        same = record["of"] == of and record["bound"] >= bound and record["bytes"] == path.stat().st_size
    except (UserError, OSError, KeyError, TypeError):
        return None
    return record if same else None


def _read(file: Path, path: Path, of: Mapping[str, Any], columns: Columns, keeper: Keeper, bar: Any) -> dict[str, Any]:
    bad: Counter[str] = Counter()
    good = rows = 0

    def usable() -> Iterator[Row]:
        nonlocal good, rows
        listed = read_rows([file], columns)
        while chunk := list(islice(listed, _TOLD)):
            for row in chunk:
                if isinstance(row, BadRow):
                    bad[row.reason] += 1
                else:
                    good += 1
                    yield row
            rows += len(chunk)
            bar.update(len(chunk))

    with atomic_path(path) as temporary:
        keeper.write(usable(), temporary)
        size = temporary.stat().st_size
    return {"of": of, "bound": keeper.bound, "rows": rows, "bad": dict(bad), "good": good, "bytes": size}
