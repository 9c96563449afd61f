"""Per-item results of linear probes, read back for intervals and paired comparisons."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdc.plan.records import UserError, sha256_file
from mdc.report.statistics.bootstrap import Statistic


@dataclass(frozen=True, eq=False)
class ProbeItems:
    """One encoder on one probe's test items, in a fixed order.

    ``ids`` (N,) names the items. Single-label: ``value`` (N,) float64 correctness in 0..1 (a tie among k counts 1/k).
    Multi-label: ``scores`` (N, K) float64 and ``targets`` (N, K) int64 of 0 and 1, and ``value`` is None. ``groups`` (N,)
    names what items share, such as their image, unlike in all benchmarks that do not share it; None if no two share anything.
    ``parts`` (N,): the result is the plain mean over these parts, as some benchmarks define it; None: over all items.
    ``statistic``: counts (R, N) of each item in each resample → the result of each, (R,), of what is no mean over items.
    """

    ids: tuple[str, ...]
    value: NDArray[np.float64] | None = None
    scores: NDArray[np.float64] | None = None
    targets: NDArray[np.int64] | None = None
    groups: tuple[str, ...] | None = None
    parts: tuple[str, ...] | None = None
    statistic: Statistic | None = None

    def __post_init__(self) -> None:
        multi = self.scores is not None and self.targets is not None
        if [self.value is not None, multi, self.statistic is not None].count(True) != 1:
            raise UserError("probe items: need either values, or scores with targets, or a statistic")
        for array in (self.value, self.scores, self.targets):
            if array is not None and len(array) != len(self.ids):
                raise UserError(f"probe items: {len(array)} results for {len(self.ids)} items")
        if self.groups is not None and len(self.groups) != len(self.ids):
            raise UserError(f"probe items: {len(self.groups)} groups for {len(self.ids)} items")

    @property
    def n(self) -> int:
        return len(self.ids)


def mean_items(ids: tuple[str, ...], values: NDArray[np.float64]) -> ProbeItems:
    """A mean of values that are no answers, right or wrong, though all may happen to be 0 or 1: its interval is the
    bootstrap's, never that of a proportion."""
    return ProbeItems(ids, value=values, groups=ids, parts=("all",) * len(ids))


def read_items(path: str | Path, sha256: str) -> dict[str, ProbeItems]:
    """The items of every probe in ``items.parquet`` (columns probe, item, value, scores, targets; optional: group).

    UserError if the file is missing, is not the one that its record names by ``sha256``, or lacks a column.
    """
    import pyarrow
    import pyarrow.parquet as parquet

    found = sha256_file(path)
    if found != sha256:
        raise UserError(
            f"{path}: sha256 {found[:12]}… is not the {sha256[:12]}… of its record; probe this encoder again"
        )
    try:
        return _by_probe(parquet.ParquetFile(path).read(), path)  # read_table would import pandas
    except (OSError, pyarrow.ArrowException, ValueError, TypeError, LookupError) as error:
        raise UserError(f"{path}: no items of a probe can be read from it ({str(error)[:200]})") from None


def _by_probe(table: Any, path: str | Path) -> dict[str, ProbeItems]:
    missing = {"probe", "item", "value"} - set(table.column_names)
    if missing:
        raise UserError(f"{path}: no column {', '.join(sorted(missing))}")
    columns: dict[str, list[Any]] = {name: table.column(name).to_pylist() for name in ("probe", "item", "value")}
    for name in ("scores", "targets", "group"):
        there = name in table.column_names
        columns[name] = table.column(name).to_pylist() if there else [None] * table.num_rows
    rows: dict[str, list[int]] = defaultdict(list)
    for row, probe in enumerate(columns["probe"]):
        rows[probe].append(row)
    return {probe: _probe_items(columns, chosen) for probe, chosen in rows.items()}


def _probe_items(columns: dict[str, list[Any]], rows: list[int]) -> ProbeItems:
    ids = tuple(str(columns["item"][row]) for row in rows)
    groups = None
    if columns["group"][rows[0]] is not None:
        groups = tuple(_label(columns["group"][row]) for row in rows)
    if columns["scores"][rows[0]] is None:
        value = np.array([columns["value"][row] for row in rows], dtype=np.float64)
        return ProbeItems(ids, value=value, groups=groups)
    return ProbeItems(
        ids,
        scores=np.array([columns["scores"][row] for row in rows], dtype=np.float64),
        targets=np.array([columns["targets"][row] for row in rows], dtype=np.int64),
        groups=groups,
    )


def _label(group: Any) -> str:
    if group is None:
        raise ValueError("some items of a probe have a group and some have none")
    return str(group)
