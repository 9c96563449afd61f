"""A table of numbers with intervals, as data, and the marks of its best numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from mdc.plan.records import UserError
from mdc.report.csv_file import signed

if TYPE_CHECKING:
    from mdc.report.frame import Number
    from mdc.report.statistics.estimate import Estimate

#: the roles of rows that are shown for reference, in italics
REFERENCE = ("reference", "control")
#: best is bold, second best underlined, grey is shown but not ranked
Mark = Literal["best", "second", "grey"]


@dataclass(frozen=True)
class Cell:
    """A number, its interval, its mark, a short note (such as a published value), and its ``decimals``."""

    value: float | None
    low: float | None = None
    high: float | None = None
    mark: Mark | None = None
    note: str = ""
    decimals: int = 1


def estimate_cell(estimate: Estimate, note: str = "") -> Cell:
    """A number with its interval."""
    return Cell(estimate.value, estimate.low, estimate.high, note=note)


def number_cell(number: Number) -> Cell:
    """A level with its interval and, beside it, what the paper prints."""
    printed = number.published
    return estimate_cell(
        number.estimate, "" if printed is None else f"paper {printed:.{1 if printed == round(printed, 1) else 2}f}"
    )


@dataclass(frozen=True)
class Column:
    """A column of numbers; neighbours with an equal ``group`` share a heading. ``note``: small, below the label.

    ``full``: its name in csv and Markdown, which have no headings over several columns (default: ``label``).
    """

    label: str
    group: str = ""
    note: str = ""
    full: str = ""

    @property
    def name(self) -> str:
        """Its unique name, where groups are not shown."""
        return self.full or self.label


@dataclass(frozen=True)
class Row:
    """``labels`` fill the leading columns. A rule is drawn where ``block`` changes; ``reference`` rows are italic, those that
    are not ``ranked`` grey. ``level``: it is no system's, as chance is."""

    labels: tuple[str, ...]
    cells: tuple[Cell, ...]
    block: str = ""
    reference: bool = False
    ranked: bool = True
    level: bool = False

    @property
    def grey(self) -> bool:
        """Whether no number of it is ranked."""
        return bool(self.cells) and all(cell.mark == "grey" for cell in self.cells)


@dataclass(frozen=True)
class Table:
    """``labels``: headings of the leading text columns. ``signed``: numbers are differences and show their sign. ``warnings``:
    sentences without which its numbers mislead, directly below it."""

    title: str
    caption: tuple[str, ...]
    labels: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footnotes: tuple[str, ...] = ()
    signed: bool = False
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.labels) != len(self.labels) or len(row.cells) != len(self.columns):
                raise UserError(
                    f"table '{self.title}': row {row.labels} has {len(row.labels)} labels and {len(row.cells)} cells "
                    f"where {len(self.labels)} and {len(self.columns)} are needed"
                )

    def rounded(self, cell: Cell) -> str:
        """The number with an ASCII minus, and never as ``-0.0``; empty where there is none."""
        return self._text(cell, cell.value)

    def shown(self, cell: Cell) -> str:
        """The number with a typographic minus sign."""
        return self._signed(cell, cell.value)

    def interval(self, cell: Cell) -> str:
        """``[low, high]``, empty without an interval."""
        if cell.low is None or cell.high is None:
            return ""
        return f"[{self._signed(cell, cell.low)}, {self._signed(cell, cell.high)}]"

    def _signed(self, cell: Cell, value: float | None) -> str:
        if self.signed and value is not None:
            return signed(value, cell.decimals)
        return self._text(cell, value).replace("-", "−")

    def _text(self, cell: Cell, value: float | None) -> str:
        # adding 0.0 turns the -0.0 that rounding may leave into 0.0
        return "" if value is None else f"{round(float(value), cell.decimals) + 0.0:.{cell.decimals}f}"

    def groups(self) -> list[tuple[str, int, int]]:
        """The headings over columns, unnamed ones included: (heading, first column from 1, number of columns); none if all are
        unnamed."""
        places = itertools.groupby(range(len(self.columns)), key=lambda place: self.columns[place].group)
        headings = [(label, list(members)) for label, members in places]
        named = any(label for label, _ in headings)
        return [(label, members[0] + 1, len(members)) for label, members in headings] if named else []

    def lines(self) -> Iterator[tuple[Row, bool, int]]:
        """Every row, whether it begins a block, and how many leading labels repeat those of the row above it."""
        for above, row in zip((None, *self.rows), self.rows, strict=False):
            new_block = above is not None and above.block != row.block
            pairs = zip(row.labels, () if above is None or new_block else above.labels, strict=False)
            yield row, new_block, len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))


def rank(values: Sequence[float | None], ranked: Sequence[bool]) -> list[Mark | None]:
    """Marks for one column of one block: the highest value ``best``, the next ``second``, unranked rows ``grey``.

    Compared after rounding, so equal-looking numbers are marked alike. After two or more best there is no second. A single ranked
    number, ranked numbers that are all equal, and None get no mark.
    """
    shown = [None if value is None else round(value, 1) for value in values]
    field = [value for value, counts in zip(shown, ranked, strict=True) if counts and value is not None]

    def mark(value: float | None, counts: bool) -> Mark | None:
        if value is None or (counts and len(set(field)) < 2):
            return None
        above = sum(other > value for other in field)
        return "grey" if not counts else "best" if above == 0 else "second" if above == 1 else None

    return [mark(value, counts) for value, counts in zip(shown, ranked, strict=True)]


def mark_rows(rows: Sequence[Row]) -> list[Row]:
    """``rows`` of one block with every column ranked; reference rows keep their cells."""
    chosen = [row for row in rows if not row.reference]
    columns = zip(*(row.cells for row in chosen), strict=True)
    marks = [rank([cell.value for cell in column], [row.ranked for row in chosen]) for column in columns]
    # transposed: the marks of each row
    by_row = zip(*marks, strict=True)

    def marked(row: Row) -> Row:
        return replace(row, cells=tuple(replace(c, mark=m) for c, m in zip(row.cells, next(by_row, ()), strict=True)))

    return [row if row.reference else marked(row) for row in rows]
