"""Items → replicates: a number on the test items themselves, and on resamples of their groups.

A group, such as the items of one image, is drawn together: G groups are drawn G times with replacement, each with the
same chance (Efron & Tibshirani, An Introduction to the Bootstrap, 1993, sections 6 and 8; for groups: Davison &
Hinkley, Bootstrap Methods and their Application, 1997, section 3.8). Columns that share groups share one draw. A function of
replicates (a difference, an average over columns, a slope, a ratio) has replicates too, so all intervals follow one rule
(:func:`mdc.report.statistics.estimate.estimate`).

The seed of a draw is a hash of its groups' names. So a number depends on others only if they share some of its groups and have
further ones.
"""

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mdc.plan.records import UserError

Floats = NDArray[np.float64]
#: counts (R, N) of each item in each resample → the statistic of each resample (R,), NaN where it is not defined
Statistic = Callable[[Floats], Floats]
Key = TypeVar("Key", bound=Hashable)
#: what a column's results are, see :class:`Items`
Kind = Literal["answers", "share", "number"]

_CELLS = 4_000_000  # numbers held at once: 32 MB


@dataclass(frozen=True, eq=False)
class Items:
    """Results of N test items: the mean of the values ``of`` (N,) float64, or ``of`` a statistic of resamples.

    ``ids``, ``groups`` (N,): names of the items and of what they share, such as their image; columns have a group in common if
    its name is the same. ``parts`` (N,): the result is the plain mean of the means of its parts, as some benchmarks define it;
    on a resample, of the parts with items. ``kind``: "answers" are right or wrong (a tie among k counts 1/k); a "share" is in 0
    to 1. ``biased``: replicates are biased upwards, and shifted by their mean difference to the value (Efron & Tibshirani,
    section 10.2): an item drawn twice ranks next to its own copy, which raises an average precision."""

    ids: tuple[str, ...]
    of: Floats | Statistic
    groups: tuple[str, ...]
    parts: tuple[str, ...] | None = None
    kind: Kind = "number"
    biased: bool = False

    def __post_init__(self) -> None:
        if not self.ids or len(self.groups) != self.n or (not callable(self.of) and self.of.shape != (self.n,)):
            raise UserError(
                f"items: {self.n} with {len(self.groups)} groups; needed: one or more, and one value and group each"
            )
        if not callable(self.of) and not np.isfinite(self.of).all():
            raise UserError(
                f"items: the result of {self.ids[int(np.argmin(np.isfinite(self.of)))]} is no finite number"
            )
        if self.parts is not None and (callable(self.of) or len(self.parts) != self.n):
            raise UserError(f"items: {len(self.parts)} parts for {self.n} items; parts go with values")

    @property
    def n(self) -> int:
        return len(self.ids)

    @property
    def value(self) -> float:
        """The mean or statistic of the items themselves; UserError if it is not defined on them."""
        if callable(self.of):
            value = float(np.asarray(self.of(np.ones((1, self.n))))[0])
            if not np.isfinite(value):
                raise UserError("statistic: not defined on the items themselves")
            return value
        if self.parts is None:
            return float(self.of.mean())
        return float(np.mean([self.of[rows].mean() for rows in rows_of(self.parts).values()]))

    def same_items(self, other: "Items") -> bool:
        """Whether both are results of the same items, so that they can be compared item by item."""
        return (self.ids, self.groups, self.parts) == (other.ids, other.groups, other.parts)


@dataclass(frozen=True, eq=False)
class Replicates:
    """A number of S trainings: ``values`` (S, 1 + R) float64, of each on the items themselves, then on R resamples,
    which are the same for all of them. ``n``: its items; ``groups``: the fewest that one of its columns draws.
    ``right``: of right or wrong answers on independent items, the number of right ones in the first training. ``share``: the
    number is in 0 to ``share``, None if unbounded."""

    values: Floats
    n: int
    groups: int
    right: int | None = None
    share: float | None = None

    @property
    def seeds(self) -> int:
        """Trainings behind it: S."""
        return len(self.values)

    def of(self, function: Callable[..., Any], *others: "Replicates") -> "Replicates":
        """``function`` of the values of this and the ``others``, training by training and resample by resample.

        One record is paired with every training of the other side. UserError if sides differ in how many they have.
        """
        every = (self, *others)
        seeds = {side.seeds for side in every} - {1}
        if len(seeds) > 1:
            raise UserError(
                f"a comparison needs as many seeds on both sides, not {' and '.join(map(str, sorted(seeds)))}"
            )
        values = np.asarray(function(*(side.values for side in every)), dtype=np.float64)
        return Replicates(values, self.n, min(side.groups for side in every))

    def __sub__(self, other: "Replicates") -> "Replicates":
        return self.of(np.subtract, other)

    def __add__(self, other: "Replicates") -> "Replicates":
        return self.of(np.add, other)

    def times(self, factor: float) -> Self:
        """In another unit, ``factor`` times as large."""
        return replace(self, values=self.values * factor, share=None if self.share is None else self.share * factor)


def mean(parts: Sequence[Replicates]) -> Replicates:
    """The plain mean over columns, each of which is resampled by itself."""
    if len(parts) == 1:
        return parts[0]
    total = reduce(lambda first, second: first + second, parts).times(1 / len(parts))
    shares = {part.share for part in parts}
    return replace(total, n=sum(part.n for part in parts), share=shares.pop() if len(shares) == 1 else None)


def resampled(columns: Mapping[Key, Sequence[Items]], draws: int) -> dict[Key, Replicates]:
    """The replicates of each of ``columns``: number → its items, training by training.

    UserError if the trainings of a number were not tested on the same items, or if all items are in one group."""
    for name, trainings in columns.items():
        if not all(trainings[0].same_items(items) for items in trainings):
            raise UserError(f"{_label(name)}: its seeds were not tested on the same items")
    every = [items for trainings in columns.values() for items in trainings]
    rows = {id(items): np.empty(1 + draws) for items in every}
    for labels, members in _sharing(every):
        if lone := [items for items in members if len(set(items.groups)) < 2]:
            raise UserError(f"resampling: {lone[0].n} items in 1 group; two groups are needed")
        for items, row in zip(members, _replicates(labels, members, draws), strict=True):
            rows[id(items)] = row
    return {name: _whole(trainings, [rows[id(items)] for items in trainings]) for name, trainings in columns.items()}


def _whole(trainings: Sequence[Items], rows: Sequence[Floats]) -> Replicates:
    first = trainings[0]
    groups = len(set(first.groups))
    right = None
    if first.kind == "answers" and groups == first.n and first.parts is None and not callable(first.of):
        right = int(first.of.sum()) if np.isin(first.of, (0, 1)).all() else None
    return Replicates(np.stack(rows), first.n, groups, right, None if first.kind == "number" else 1.0)


def _label(name: Hashable) -> str:
    return ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _sharing(every: Sequence[Items]) -> list[tuple[list[str], list[Items]]]:
    """Clusters of items whose groups share a name, directly or through others, each with its sorted names."""
    by_groups: dict[tuple[str, ...], list[Items]] = {}
    for items in {id(items): items for items in every}.values():
        by_groups.setdefault(items.groups, []).append(items)
    clusters: list[tuple[set[str], list[Items]]] = []
    for groups, members in by_groups.items():
        labels, apart = set(groups), []
        for cluster in clusters:
            if labels.isdisjoint(cluster[0]):
                apart.append(cluster)
            else:
                labels, members = labels | cluster[0], [*cluster[1], *members]
        clusters = [*apart, (labels, members)]
    return [(sorted(labels), members) for labels, members in clusters]


def _replicates(labels: Sequence[str], members: Sequence[Items], draws: int) -> list[Floats]:
    """For each of ``members`` the row (1 + R,): its number on the items themselves and on the resamples of ``labels``."""
    place = {label: number for number, label in enumerate(labels)}
    at = {groups: np.array([place[label] for label in groups]) for groups in {items.groups for items in members}}
    matrix, parts = _sums([items for items in members if not callable(items.of)], at, len(labels))
    widest = max([len(labels), matrix.shape[1], *(items.n for items in members if callable(items.of))])
    values_of: list[list[Floats]] = [[np.array([items.value])] for items in members]
    for counts in counted(labels, draws, widest):
        # means as ratios of sums over groups: one matrix product per block, whatever the number of columns
        totals, sums = counts @ matrix, iter(parts)
        for items, row in zip(members, values_of, strict=True):
            if callable(items.of):
                row.append(np.asarray(items.of(counts[:, at[items.groups]]), dtype=np.float64))
            else:
                above, below = next(sums)
                row.append(_mean_of_parts(totals[:, above], totals[:, below]))
    rows = [np.concatenate(row) for row in values_of]
    for items, whole in zip(members, rows, strict=True):
        defined = whole[1:][~np.isnan(whole[1:])]
        if items.biased and len(defined):
            whole[1:] -= defined.mean() - whole[0]
    return rows


def counted(labels: Sequence[str], draws: int, width: int = 0) -> Any:
    """How often each of ``labels`` occurs in each resample: blocks (r, G) of together ``draws`` rows, always the same
    for the same labels.

    ``r`` is such that a block (r, max(G, ``width``)) fits in memory; the numbers do not depend on it.
    """
    name = hashlib.blake2b("\n".join(labels).encode(), digest_size=8).digest()
    rng, units = np.random.default_rng(int.from_bytes(name)), len(labels)
    most = max(1, _CELLS // max(units, width))
    for start in range(0, draws, most):
        picks = rng.integers(0, units, size=(min(most, draws - start), units))
        picks += units * np.arange(len(picks))[:, None]
        yield np.bincount(picks.ravel(), minlength=picks.size).reshape(picks.shape).astype(np.float64)


def _sums(
    means: Sequence[Items], at: Mapping[tuple[str, ...], NDArray[np.intp]], units: int
) -> tuple[Floats, list[tuple[list[int], list[int]]]]:
    """Sums over groups (units, columns) of values and of numbers of items; and for each of ``means`` the columns of its parts'
    values and numbers."""
    columns: list[NDArray[Any]] = []
    known: dict[Any, int] = {}  # numbers of items that several columns share are stored once
    parts = []
    for items in means:
        places, values = at[items.groups], np.asarray(items.of, dtype=np.float64)
        chosen = [np.arange(items.n)] if items.parts is None else list(map(np.array, rows_of(items.parts).values()))
        above = range(len(columns), len(columns) + len(chosen))
        columns += [np.bincount(places[rows], values[rows], units) for rows in chosen]
        below = []
        for number, rows in enumerate(chosen):
            key = items.groups, items.parts, number
            if key not in known:
                known[key] = len(columns)
                columns.append(np.bincount(places[rows], minlength=units))
            below.append(known[key])
        parts.append((list(above), below))
    return np.stack(columns, axis=1).astype(np.float64) if columns else np.zeros((units, 0)), parts


def _mean_of_parts(above: Floats, below: Floats) -> Floats:
    """The mean (r,) over the parts (r, P) with items."""
    present = below > 0
    shares = np.divide(above, below, out=np.zeros_like(above), where=present)
    count = present.sum(axis=1)
    return np.divide(shares.sum(axis=1), count, out=np.full(len(above), np.nan), where=count > 0)


def rows_of(labels: Sequence[Key]) -> dict[Key, list[int]]:
    """The places of each label, in the order of first appearance."""
    places: dict[Key, list[int]] = {}
    for row, label in enumerate(labels):
        places.setdefault(label, []).append(row)
    return places
