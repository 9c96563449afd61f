"""The scores of choice sets as arrays: one row for each item, one column for each option."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from mdc.report.manifests import Table
from mdc.report.statistics.replicates import Floats, rows_of

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scored:
    """A set under one estimator: ``own``, ``constant`` with their errors (N, K) and ``others`` (N, K, k).

    ``mismatched_error``, ``mismatched_mean_error`` (N, K): of the two mismatched-image scores computed from ``others``;
    ``mismatched_covariance`` (N, K): of the first's error with that of ``own``. Where an item has fewer than K options,
    scores are −∞ and errors 0.
    """

    own: Floats
    error: Floats
    constant: Floats
    constant_error: Floats
    others: Floats
    mismatched_error: Floats
    mismatched_covariance: Floats
    mismatched_mean_error: Floats


#: fields of :class:`Scored` → columns of ``scores.parquet``
_COLUMNS = {field.name: field.name for field in fields(Scored)} | {"own": "score"}


@dataclass(frozen=True, eq=False)
class ScoredSet:
    """N items of at most K options. ids, images and groups (N,). (N, K): ``present``: the option exists; its BPE tokens
    (``pieces``); tokens that no training caption had (``unseen``); the first equal option. ``by``: estimator → its scores."""

    items: tuple[str, ...]
    images: tuple[str, ...]
    groups: tuple[str, ...]
    present: NDArray[np.bool_]
    pieces: Ints
    unseen: Ints
    same_as: Ints
    by: Mapping[str, Scored]

    @property
    def chance(self) -> Floats:
        """The chance level of each item, (N,)."""
        return np.asarray(1.0 / self.present.sum(axis=1))

    def ceiling(self, ties: str = "shared") -> Floats:
        """What a perfect scorer reaches on each item, (N,): options equal to the right caption are ties; see
        :func:`right_share`."""
        return right_share((self.same_as == 0).astype(np.float64), self.present, ties)


def scores_of(columns: Table) -> dict[str, ScoredSet]:
    """The sets of a ``scores.parquet``."""
    return {name: _scored_set(columns, rows) for name, rows in rows_of(columns["set"]).items()}


def _scored_set(columns: Mapping[str, list[Any]], rows: list[int]) -> ScoredSet:
    cells = {name: [values[row] for row in rows] for name, values in columns.items()}
    place = {item: number for number, item in enumerate(dict.fromkeys(cells["item"]))}
    item, option = np.array([place[item] for item in cells["item"]]), np.array(cells["option"])
    every = np.ones(len(rows), dtype=bool)

    def grid(column: str, nothing: float, of_estimator: NDArray[np.bool_] = every, kind: type = np.float64) -> Any:
        values: NDArray[Any] = np.array(cells[column], dtype=kind)[of_estimator]
        array = np.full((len(place), 1 + option.max(), *values.shape[1:]), nothing, dtype=kind)
        array[item[of_estimator], option[of_estimator]] = values
        return array

    by = {}
    for name in dict.fromkeys(cells["estimator"]):
        of_estimator = np.array([estimator == name for estimator in cells["estimator"]])
        by[name] = Scored(**{field: grid(column, _nothing(field), of_estimator) for field, column in _COLUMNS.items()})
        if np.isnan(by[name].own).any():
            bad_item = list(place)[np.argwhere(np.isnan(by[name].own))[0, 0]]
            raise ValueError(f"a score of item {bad_item} is no number")
    images, groups = (tuple(dict(zip(cells["item"], cells[name], strict=True)).values()) for name in ("image", "group"))
    pieces, unseen, same_as = (grid(name, 0, kind=np.int64) for name in ("pieces", "unseen", "same_as"))
    present = np.zeros(pieces.shape, dtype=bool)
    present[item, option] = True
    return ScoredSet(tuple(place), images, groups, present, pieces, unseen, same_as, by)


def _nothing(field: str) -> float:
    return -np.inf if field in ("own", "constant", "others") else 0.0


def log_mean_exp(values: Floats) -> Floats:
    """log of the mean of e^values along the last axis; −∞ where all are."""
    return np.asarray(logsumexp(values, axis=-1) - np.log(values.shape[-1]))


def right_share(scores: Floats, present: NDArray[np.bool_], ties: str = "shared") -> Floats:
    """The value of each item, (N,): 1 if its first option alone scores highest, 1/k if it is one of k, else 0.

    ``scores`` (N, K), ``present`` (N, K). With ``ties`` right or wrong one of k counts 1 or 0. ValueError if the score of an
    option is NaN: it would count as wrong.
    """
    if np.isnan(scores[present]).any():
        raise ValueError("a score is no number (NaN)")
    best = np.where(present, scores, -np.inf)
    top = best == best.max(axis=1, keepdims=True)
    top &= present
    count = top.sum(axis=1)
    shared = {"shared": 1.0 / count, "right": np.ones(len(count)), "wrong": (count == 1).astype(np.float64)}[ties]
    return np.where(top[:, 0], shared, 0.0)


def pairs_of(scored_set: ScoredSet) -> list[tuple[int, int]]:
    """The places of the two samples of each item, for a set of items with two images. ValueError for any other set."""
    by, present = rows_of(scored_set.groups), scored_set.present
    if present.shape[1] != 2 or not present.all() or any(len(places) != 2 for places in by.values()):
        raise ValueError("its items are not of two images and two captions each")
    return [(places[0], places[1]) for places in by.values()]
