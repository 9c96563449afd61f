"""Per-item results of linear probes, for intervals and paired comparisons."""

from typing import Any

import numpy as np

from mdc.report.manifests import Table
from mdc.report.statistics.metrics import mean_average_precision
from mdc.report.statistics.replicates import Floats, Items, rows_of

_ROWS = 128  # resamples scored at once, which fit into the CPU's cache


def items_of(table: Table) -> dict[str, Items]:
    """The items of every probe in ``items.parquet`` (columns probe, item, value, scores, targets; optional: group)."""
    groups = table.get("group", [None] * len(table["item"]))
    return {probe: _items(probe, table, groups, rows) for probe, rows in rows_of(table["probe"]).items()}


def _items(probe: str, table: Table, groups: list[Any], rows: list[int]) -> Items:
    ids = tuple(str(table["item"][row]) for row in rows)
    labels = [groups[row] for row in rows]
    if any(label is None for label in labels) and not all(label is None for label in labels):
        raise ValueError("some items of a probe have a group and some have none")
    # without groups, items of two probes share nothing even if their names are equal
    named = tuple(f"{probe}/{item}" for item in ids) if labels[0] is None else tuple(map(str, labels))
    if table["scores"][rows[0]] is None:
        return Items(ids, np.array([table["value"][row] for row in rows], dtype=np.float64), named, kind="answers")
    scores = np.array([table["scores"][row] for row in rows], dtype=np.float64)
    if np.isnan(scores).any():
        raise ValueError(f"{probe}: a score is no number (NaN)")
    targets = np.array([table["targets"][row] for row in rows], dtype=np.int64)

    def precision(counts: Floats) -> Floats:
        parts = [
            mean_average_precision(scores, targets, counts[start : start + _ROWS])
            for start in range(0, len(counts), _ROWS)
        ]
        return np.concatenate(parts).astype(np.float64)

    return Items(ids, precision, named, kind="share", biased=True)
