"""Percentile bootstrap over test items (Efron & Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13).

It speaks of new test items, not of new seeds. An average over several columns (benchmarks) resamples within each column,
because the benchmarks are fixed and their items are drawn. Items may carry group labels (their images): columns that have
a label in common share one draw of the groups, over all labels that occur in any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdc.plan.records import UserError
from mdc.report.statistics.exact import proportion, right_or_wrong
from mdc.report.statistics.interval import LEVEL, Interval
from mdc.report.statistics.resampling import Resampler, chunks
from mdc.report.statistics.seeds import Component

Floats = NDArray[np.float64]
#: counts (R, N) of each item in each resample -> the statistic of each resample (R,), NaN where it is not defined
Statistic = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Column:
    """One benchmark of N = ``n`` items: the mean of the values ``of`` (N,), or ``of`` a statistic of resamples.

    ``groups`` (N,): labels of what the items share, unlike labels for unlike images in all columns; None if nothing.
    ``parts`` (N,): the column is the plain mean of the means of its parts, as some benchmarks define it; on a resample, of
    those parts that it has items of. Parts go with values and groups.
    """

    of: Floats | Statistic
    n: int
    groups: Sequence[Hashable] | None = None
    parts: Sequence[Hashable] | None = None

    def __post_init__(self) -> None:
        if self.n < 1 or (not callable(self.of) and self.of.shape != (self.n,)):
            raise UserError(f"column: {self.n} items, needed: one or more, and one value each")
        if not callable(self.of) and not np.isfinite(self.of).all():
            raise UserError("column: one value is not finite")
        if self.groups is not None and len(self.groups) != self.n:
            raise UserError(f"column: {len(self.groups)} groups for {self.n} items")
        if self.parts is not None and (callable(self.of) or self.groups is None or len(self.parts) != self.n):
            raise UserError(f"column: {len(self.parts)} parts for {self.n} items; parts go with values and groups")

    @property
    def independent(self) -> bool:
        """Whether no two of its items share anything."""
        return self.groups is None or len(set(self.groups)) == self.n

    @property
    def value(self) -> float:
        """The mean or statistic of the items themselves; UserError if it is not defined on them."""
        if self.parts is not None and not callable(self.of):
            return float(np.mean([self.of[rows].mean() for rows in _places(self.parts)]))
        if not callable(self.of):
            return float(self.of.mean())
        value = float(np.asarray(self.of(np.ones((1, self.n))))[0])
        if not math.isfinite(value):
            raise UserError("statistic: not defined on the items themselves")
        return value


@dataclass(frozen=True, eq=False)
class Replicates:
    """The mean over columns on the items themselves (``value``) and on the resamples.

    ``parts``: for each set of columns with a draw of its own, what it adds to the mean on each resample, (R,), and how many
    groups (or items) it draws. Only resamples on which all columns are defined are in it. ``n``: items of all columns.
    """

    value: float
    n: int
    parts: list[tuple[Floats, int]]

    @property
    def whole(self) -> Floats:
        """The mean over columns on each resample, (R,)."""
        return np.asarray(np.sum([part for part, _ in self.parts], axis=0), dtype=np.float64)

    def components(self) -> list[Component]:
        """The variance of each part, with G - 1 degrees of freedom.

        Resamples of G groups vary about the mean of these groups: too little by one part in G, which is put back.
        """
        return [Component(float(part.var(ddof=1)) * g / (g - 1), g - 1) for part, g in self.parts]


def replicate(columns: Sequence[Column], rng: np.random.Generator, draws: int) -> Replicates:
    """The plain mean of ``columns`` on ``draws`` resamples, drawn for each column without groups in its order, then for each
    set of others that share groups. UserError if no resample has all columns defined, or one has fewer than two items or
    groups."""
    if not columns:
        raise UserError("average: no column")
    value = sum(column.value for column in columns) / len(columns)
    sets = [[column] for column in columns if column.groups is None]
    sets += _sharing([column for column in columns if column.groups is not None])
    parts = [_drawn(some, rng, draws) for some in sets]
    defined = ~np.isnan(np.sum([part for part, _ in parts], axis=0))
    if not defined.any():
        raise UserError("bootstrap: the statistic is not defined on any resample")
    return Replicates(value, sum(c.n for c in columns), [(part[defined] / len(columns), g) for part, g in parts])


def percentile(found: Replicates, level: float = LEVEL, contrast: bool = False, seeds: int = 1) -> Interval:
    """The percentile interval about the value, with half-widths √(G/(G - 1)) · t(G - 1)/z times as long, since resamples of G
    groups vary too little (G: the smallest of the sets'). ``contrast`` adds ``p``: 1 minus the level at which this interval ends
    at 0, and at least 2/(R + 1) of R resamples."""
    whole = np.sort(found.whole)
    groups = min(g for _, g in found.parts)
    low, high = (_end(whole, found.value, groups, level, upper) for upper in (False, True))
    p = _p_value(whole, found.value, groups) if contrast else None
    error = float(whole.std(ddof=1)) * math.sqrt(groups / (groups - 1)) if len(whole) > 1 else math.inf
    return Interval(
        found.value,
        low,
        high,
        n=found.n,
        seeds=seeds,
        kind="bootstrap",
        p=p,
        draws=len(whole),
        se=error,
        level=level,
    )


def _end(whole: Floats, value: float, groups: int, level: float, upper: bool) -> float:
    """An end of the interval from the sorted replicates ``whole``."""
    from scipy.special import ndtri, stdtrit

    tail = (1 + level) / 2
    longer = math.sqrt(groups / (groups - 1)) * float(stdtrit(groups - 1, tail) / ndtri(tail))
    place = (tail if upper else 1 - tail) * (len(whole) - 1)
    quantile = float(np.interp(place, np.arange(len(whole)), whole))
    return value + longer * (quantile - value)


def _p_value(whole: Floats, value: float, groups: int) -> float:
    """1 minus the level at which the interval ends at 0, by halving."""
    if value == 0:
        return 1.0

    def excludes(p: float) -> bool:
        return _end(whole, value, groups, 1 - p, upper=value < 0) * value > 0

    least, most = 2 / (len(whole) + 1), 1.0
    if excludes(least):
        return least
    for _ in range(40):
        middle = math.sqrt(least * most)
        least, most = (least, middle) if excludes(middle) else (middle, most)
    return most


def level_over_items(
    columns: Sequence[Column], rng: np.random.Generator, draws: int, level: float = LEVEL, seeds: int = 1
) -> Interval:
    """The mean of ``columns`` of one checkpoint (or averaged over ``seeds``), with its interval over test items.

    It is exact (see :func:`mdc.report.statistics.exact.proportion`) for one checkpoint's right or wrong answers on one column
    whose items share nothing, and else the percentile bootstrap.
    """
    first = columns[0]
    alone = len(columns) == seeds == 1 and first.independent and first.parts is None
    if alone and not callable(first.of) and right_or_wrong(first.of):
        return proportion(int(first.of.sum()), first.n, level)
    return percentile(replicate(columns, rng, draws), level, seeds=seeds)


# --- inside ---------------------------------------------------------------------------------------------------------


def _sharing(columns: Sequence[Column]) -> list[list[Column]]:
    """Columns with groups, those together that have a group in common, directly or through others."""
    sets: list[tuple[set[Hashable], list[Column]]] = []
    for column in columns:
        labels, together, apart = set(column.groups or ()), [column], []
        for found in sets:
            if labels.isdisjoint(found[0]):
                apart.append(found)
            else:
                labels, together = labels | found[0], [*found[1], *together]
        sets = [*apart, (labels, together)]
    return [together for _, together in sets]


def _drawn(columns: Sequence[Column], rng: np.random.Generator, draws: int) -> tuple[Floats, int]:
    """The sum over ``columns``, which share a draw, on each resample, and how many groups were drawn."""
    first = columns[0]
    if first.groups is None and not callable(first.of):
        return _means(first.of, rng, draws), first.n
    labels = [label for column in columns for label in column.groups or ()]
    resampler = Resampler(labels or None, draws, rng, None if labels else first.n)
    places = [slice(None) if column.groups is None else resampler.places(column.groups) for column in columns]
    if not any(callable(column.of) for column in columns):
        return _group_means(columns, places, resampler, rng), resampler.units
    blocks = resampler.drawn(width=max(column.n for column in columns))
    scored = np.concatenate(
        [np.stack([_on(column, block[:, at]) for column, at in zip(columns, places, strict=True)]) for block in blocks],
        axis=1,
    )
    return np.sum([_centred(column, row) for column, row in zip(columns, scored, strict=True)], axis=0), resampler.units


def _on(column: Column, counts: Floats) -> Floats:
    """A column's value on each resample, ``counts`` (R, N); NaN where none of its items was drawn."""
    if callable(column.of):
        return np.asarray(column.of(counts), dtype=np.float64)
    return _share(counts @ column.of, counts.sum(axis=1))


def _centred(column: Column, row: Floats) -> Floats:
    """A statistic's replicates (R,) without the bootstrap's estimate of its bias; a mean's as they are.

    An item drawn twice ranks beside its own copy, which lifts an average precision: the replicates lie above the value
    that they should spread around. Their mean minus the value is that bias (Efron & Tibshirani, section 10.2).
    """
    defined = row[~np.isnan(row)]
    return row if not callable(column.of) or not len(defined) else row - (defined.mean() - column.value)


def _means(values: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """Means (draws,) of resamples of ``values`` (N,), N >= 2.

    A resample enters its mean only by how often each distinct value occurs, and these frequencies are multinomial: this
    is the very law of drawing items, and for right-or-wrong items costs two numbers a resample, unlike scipy's bootstrap.
    """
    if len(values) < 2:
        raise UserError("resampling: 1 item; two are needed")
    distinct, frequency = np.unique(values, return_counts=True)
    share = frequency / len(values)
    parts = [rng.multinomial(len(values), share, size=rows) @ distinct for rows in chunks(draws, len(distinct))]
    return np.asarray(np.concatenate(parts) / len(values), dtype=np.float64)


def _group_means(
    columns: Sequence[Column], places: Sequence[Any], resampler: Resampler, rng: np.random.Generator
) -> Floats:
    """The same for the sum of means of items in groups, through the distinct rows of each group's (sum, items) by part of a
    column.

    ``places``: (N_k,) the groups of the items of each column.
    """
    entries: list[Floats] = []
    owner: list[int] = []
    for k, (column, at) in enumerate(zip(columns, places, strict=True)):
        for chosen in [np.arange(column.n)] if column.parts is None else _places(column.parts):
            here = np.asarray(at)[chosen]
            weights = np.asarray(column.of, dtype=np.float64)[chosen]
            entries.append(np.bincount(here, weights=weights, minlength=resampler.units).astype(np.float64))
            entries.append(np.bincount(here, minlength=resampler.units).astype(np.float64))
            owner.append(k)
    rows = np.stack(entries, axis=1)
    distinct, frequency = np.unique(rows, axis=0, return_counts=True)
    share = frequency / resampler.units
    sums = np.concatenate(
        [rng.multinomial(resampler.units, share, size=r) @ distinct for r in chunks(resampler.draws, len(distinct))]
    )
    shares = _share(sums[:, 0::2], sums[:, 1::2])
    there = ~np.isnan(shares)
    member = np.eye(len(columns))[owner]  # (parts, columns)
    means = _share(np.where(there, shares, 0.0) @ member, there.astype(np.float64) @ member)
    return np.asarray(means.sum(axis=1), dtype=np.float64)


def _places(labels: Sequence[Hashable]) -> list[NDArray[np.int64]]:
    """Where each label stands, in the order of their first appearance."""
    found: dict[Hashable, list[int]] = {}
    for place, label in enumerate(labels):
        found.setdefault(label, []).append(place)
    return [np.array(places) for places in found.values()]


def _share(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0)
