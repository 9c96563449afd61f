"""Numbers as text: csv files in one format, and differences with their sign."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.plan.records import write_text

#: significant digits of a number: more than any interval needs
_DIGITS = 6


def names(text: str) -> tuple[str, ...]:
    """The columns of a csv file, separated by spaces."""
    return tuple(text.split())


def write_csv(path: str | Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """``rows`` as csv with ``\\n`` line ends: None is empty, a float has six digits, true and false are ``True`` and
    ``False``."""
    write_text(path, csv_text(rows, columns))


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(row[column]) for column in columns] for row in rows)
    return text.getvalue()


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    # -0.0 + 0.0 is 0.0
    return f"{value + 0.0:.{_DIGITS}g}" if isinstance(value, float) else str(value)


def signed(value: float, decimals: int = 1) -> str:
    """``value`` with its sign, and a typographic minus; a zero has no sign."""
    text = f"{value:+.{decimals}f}".replace("-", "−")
    return text if text.strip("+−0.") else text[1:]
