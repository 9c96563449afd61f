"""Lines of a result as csv text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """``rows`` as csv text with ``\\n`` line ends; None is empty, a float has 4 decimals."""
    import pandas as pd  # here: it takes half a second to import

    lines = [[_text(row[column]) for column in columns] for row in rows]
    return pd.DataFrame(lines, columns=list(columns), dtype=object).to_csv(index=False, lineterminator="\n")


def _text(value: Any) -> str:
    if value is None:
        return ""
    # adding 0.0 turns the -0.0 that rounding may leave into 0.0
    return f"{round(value, 4) + 0.0:.4f}" if isinstance(value, float) else str(value)
