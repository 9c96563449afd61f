"""The scores of choice sets that a table was handed, as arrays: a row an item, a column an option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from mdc.report.given import Table
from mdc.report.statistics.replicates import Floats, rows_of

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scored:
    """A set under one estimator: ``own``, ``constant`` with their errors (N, K) and ``others`` (N, K, k).

    ``mismatched_error``, ``mismatched_mean_error`` (N, K): of the two blind scores that are taken of ``others``;
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
    """N items of at most K options: ids, images and groups (N,), and (N, K) whether an option is there, its pieces, those of
    them that no training caption had, and the first option that is the same. ``by``: estimator → its scores."""

    items: tuple[str, ...]
    images: tuple[str, ...]
    groups: tuple[str, ...]
    there: NDArray[np.bool_]
    pieces: Ints
    unseen: Ints
    same_as: Ints
    by: Mapping[str, Scored]

    @property
    def chance(self) -> Floats:
        """What guessing gets of each item, (N,)."""
        return np.asarray(1.0 / self.there.sum(axis=1))

    def ceiling(self, ties: str = "shared") -> Floats:
        """What a perfect scorer gets of each item, (N,): of options that are the right caption itself it can choose none, and
        they are ties; see :func:`right_share`."""
        return right_share((self.same_as == 0).astype(np.float64), self.there, ties)


def scores_of(columns: Table) -> dict[str, ScoredSet]:
    """The sets of a ``scores.parquet``."""
    return {name: _one(columns, rows) for name, rows in rows_of(columns["set"]).items()}


def _one(columns: Mapping[str, list[Any]], rows: list[int]) -> ScoredSet:
    told = {name: [values[row] for row in rows] for name, values in columns.items()}
    place = {item: number for number, item in enumerate(dict.fromkeys(told["item"]))}
    item, option = np.array([place[one] for one in told["item"]]), np.array(told["option"])
    every = np.ones(len(rows), dtype=bool)

    def grid(column: str, nothing: float, some: NDArray[np.bool_] = every, kind: type = np.float64) -> Any:
        values: NDArray[Any] = np.array(told[column], dtype=kind)[some]
        found = np.full((len(place), 1 + option.max(), *values.shape[1:]), nothing, dtype=kind)
        found[item[some], option[some]] = values
        return found

    by = {}
    for name in dict.fromkeys(told["estimator"]):
        some = np.array([one == name for one in told["estimator"]])
        by[name] = Scored(**{field: grid(column, _nothing(field), some) for field, column in _COLUMNS.items()})
        if np.isnan(by[name].own).any():
            wrong = list(place)[np.argwhere(np.isnan(by[name].own))[0, 0]]
            raise ValueError(f"a score of item {wrong} is no number")
    images, groups = (tuple(dict(zip(told["item"], told[name], strict=True)).values()) for name in ("image", "group"))
    pieces, unseen, same_as = (grid(name, 0, kind=np.int64) for name in ("pieces", "unseen", "same_as"))
    there = np.zeros(pieces.shape, dtype=bool)
    there[item, option] = True
    return ScoredSet(tuple(place), images, groups, there, pieces, unseen, same_as, by)


def _nothing(field: str) -> float:
    return -np.inf if field in ("own", "constant", "others") else 0.0


def log_mean_exp(values: Floats) -> Floats:
    """log of the mean of e^values along the last axis; −∞ where all are."""
    return np.asarray(logsumexp(values, axis=-1) - np.log(values.shape[-1]))


def right_share(scores: Floats, there: NDArray[np.bool_], ties: str = "shared") -> Floats:
    """What each item counts, (N,): 1 if its first option alone scores highest, 1/k if it is one of k, else 0.

    ``scores`` (N, K), ``there`` (N, K). With ``ties`` right or wrong one of k counts 1 or 0. ValueError if a score that is
    there is no number: it could not be highest, and would count as wrong.
    """
    if np.isnan(scores[there]).any():
        raise ValueError("a score is no number (NaN)")
    best = np.where(there, scores, -np.inf)
    top = best == best.max(axis=1, keepdims=True)
    top &= there
    count = top.sum(axis=1)
    shared = {"shared": 1.0 / count, "right": np.ones(len(count)), "wrong": (count == 1).astype(np.float64)}[ties]
    return np.where(top[:, 0], shared, 0.0)


#: what guessing gets, as published: of four random scores a comparison holds in half of the cases, all four in a sixth
PAIR_CHANCE = {"text": 25.0, "image": 25.0, "group": 100 / 6}


def pairs_of(one: ScoredSet) -> list[tuple[int, int]]:
    """Of a set of items with two images the places of each item's two samples. ValueError for any other set."""
    by = rows_of(one.groups)
    if one.there.shape[1] != 2 or not one.there.all() or any(len(places) != 2 for places in by.values()):
        raise ValueError("its items are not of two images and two captions each")
    return [(places[0], places[1]) for places in by.values()]


def pair_values(scores: Floats, pairs: Sequence[tuple[int, int]], score: str) -> Floats:
    """Winoground's text, image or group score of each pair, (P,) of 0 and 1; ``scores`` (N, 2), an image's own caption first.

    text: each image's own caption scores higher; image: each caption scores higher with its own image; group: both. As
    published, an equal score is not higher. ValueError if a score is no number.
    """
    if np.isnan(scores).any():
        raise ValueError("a score is no number (NaN)")
    (own, other), (other_own, other_other) = (scores[[pair[side] for pair in pairs]].T for side in (0, 1))
    # the first caption is "own" with the first image and "other_other" with the second
    text = (own > other) & (other_own > other_other)
    image = (own > other_other) & (other_own > other)
    return np.asarray({"text": text, "image": image, "group": text & image}[score], dtype=np.float64)
