"""The numbers of Table 2 and the retrieval table, estimated from per-item results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.winoground import PAIR_CHANCE, pair_values
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.jobs.shown import ArtefactJob, ShownColumn, System
from mdc.plan.records import UserError, read_json
from mdc.report.held_out import Matrix, best_alpha, prior_subtracted, read_matrix, recall
from mdc.report.manifests import Manifests, read_table, reading
from mdc.report.results import Results, best_shortcut
from mdc.report.scored_sets import ScoredSet, log_mean_exp, pairs_of, right_share, scores_of
from mdc.report.statistics.replicates import Floats, Items

METRIC = "right"
#: which items of a column count: all; without those where a wrong option equals the right caption; without those with BPE tokens
#: that no training caption had
KEPT = {"all": "all", "distinct": "without equal options", "trained": "without unseen tokens"}


class Choices(Results):
    """Table 2. ``kept``: which items count."""

    def __init__(self, job: ArtefactJob, manifests: Manifests, kept: str = "all", store: "Store | None" = None) -> None:
        self.kept, self.store = kept, store or Store(job, manifests)
        super().__init__(job, manifests)

    def read(self) -> None:
        self.alpha = {system.key: self.store.alphas(system) for system in self.job.systems}
        for system in self.job.systems:
            for column in self.job.columns:
                self.items[system.key, column.key] = [
                    self._items(system, seed, column, alpha) for seed, alpha in enumerate(self.alpha[system.key])
                ]
        self.metric = {column.key: METRIC for column in self.job.columns}
        first = self.job.systems[0].records[0]
        sets, scored = self.record(first)["sets"], self.store.scores(first)
        for column in self.job.columns:
            if column.more["score"] is not None:
                self.chance[column.key] = PAIR_CHANCE[column.more["score"]]
                self.ceiling[column.key] = self._pair_ceiling(column)
            else:
                self.chance[column.key] = self._level(
                    column, {name: scored[name].chance for name in column.more["sets"]}
                )
                ceilings = {name: scored[name].ceiling(column.more["ties"]) for name in column.more["sets"]}
                self.ceiling[column.key] = self._level(column, ceilings)
            found = {name: best_shortcut(sets[name], column.more["score"]) for name in column.more["sets"]}
            shortcuts = {name: best for name, best in found.items() if best is not None}
            if len(shortcuts) == len(column.more["sets"]):
                self.shortcut[column.key] = self._shortcut(
                    column, {name: share for name, (share, _) in shortcuts.items()}
                )
                self.shortcut_by[column.key] = ", ".join(dict.fromkeys(what for _, what in shortcuts.values()))

    def _items(self, system: System, seed: int, column: ShownColumn, alpha: float | None) -> Items:
        ids: list[str] = []
        images: list[str] = []
        parts: list[str] = []
        values: list[Floats] = []
        for name, scored_set, chosen in self.chosen(system, seed, column):
            scores = shown_scores(system, scored_set, alpha)
            if column.more["score"] is not None:
                with reading(Path(self.manifests[system.records[seed]])):
                    pairs = kept_pairs(scored_set, chosen)
                    values.append(pair_values(scores, pairs, column.more["score"]))
                named = [f"{name}/{scored_set.groups[first]}" for first, _ in pairs]
                ids, images, parts = ids + named, images + named, parts + [name] * len(pairs)
                continue
            with reading(Path(self.manifests[system.records[seed]])):
                values.append(right_share(scores, scored_set.present, column.more["ties"])[chosen])
            ids += [f"{name}/{scored_set.items[n]}" for n in chosen]
            images += [scored_set.images[n] for n in chosen]
            parts += [name if column.more["parts"] == "sets" else scored_set.groups[n] for n in chosen]
        if not ids:
            raise UserError(f"{self.title}: no item of {column.key} is left ({self.kept})")
        several = tuple(parts) if len(set(parts)) > 1 else None
        return Items(tuple(ids), np.concatenate(values), tuple(images), several, kind="answers")

    def chosen(
        self, system: System, seed: int, column: ShownColumn, kept: str | None = None
    ) -> list[tuple[str, ScoredSet, list[int]]]:
        """The items of a column that count for a system, by set. ``kept``: see ``KEPT``, by default this table's. Unseen tokens
        depend on the system's training corpus."""
        chosen_by_set = []
        for name in column.more["sets"]:
            scored_set = self.store.scores(system.records[seed])[name]
            keep = kept_items(scored_set, kept or self.kept)
            if column.more["parts"] == "groups":
                counts = Counter(scored_set.groups)
                keep &= np.array(
                    [counts[g] >= column.more["min_items"] and g not in column.more["omit"] for g in scored_set.groups]
                )
            chosen_by_set.append((name, scored_set, np.flatnonzero(keep).tolist()))
        return chosen_by_set

    def _pair_ceiling(self, column: ShownColumn) -> float:
        """What a perfect scorer reaches: it cannot distinguish two equal captions."""
        chosen_by_set = self.chosen(self.job.systems[0], 0, column)
        values = [pair_values((s.same_as == 0) * 1.0, kept_pairs(s, rows), "text") for _, s, rows in chosen_by_set]
        return 100 * float(np.mean([value.mean() for value in values]))

    def _shortcut(self, column: ShownColumn, shares: Mapping[str, float]) -> float:
        """A column's value in per cent if each set has this share of right answers."""
        if column.more["score"] is not None:
            return 100 * float(np.mean(list(shares.values())))
        scored = self.store.scores(self.job.systems[0].records[0])
        return self._level(column, {name: np.full(len(scored[name].items), share) for name, share in shares.items()})

    def _level(self, column: ShownColumn, of: Mapping[str, Floats]) -> float:
        """A column's value in per cent if each item has the value in ``of`` its set, (N,)."""
        first = self.job.systems[0]
        items = self._items(first, 0, column, 0.0)
        values = [of[name][chosen] for name, _, chosen in self.chosen(first, 0, column)]
        return 100 * Items(items.ids, np.concatenate(values), items.groups, items.parts).value


def kept_pairs(scored_set: ScoredSet, chosen: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs of a set whose samples are both ``chosen``."""
    kept = set(chosen)
    return [pair for pair in pairs_of(scored_set) if kept.issuperset(pair)]


def kept_items(scored_set: ScoredSet, kept: str) -> Any:
    """Which items count, (N,) bool; see ``KEPT``."""
    if kept == "distinct":
        return ~((scored_set.same_as[:, 1:] == 0) & scored_set.present[:, 1:]).any(axis=1)
    if kept == "trained":
        return ~((scored_set.unseen > 0) & scored_set.present).any(axis=1)
    return np.ones(len(scored_set.items), dtype=bool)


def shown_scores(system: System, scored_set: ScoredSet, alpha: float | None) -> Floats:
    """The scores (N, K) that a row of Table 2 chooses by."""
    if system.more["shown"] == "shorter":
        return -scored_set.pieces.astype(np.float64)
    scored = scored_set.by[system.estimator]
    mismatched_mean = scored.others.mean(axis=-1)
    mismatched = log_mean_exp(scored.others) if ESTIMATORS[system.estimator].nats else mismatched_mean
    with np.errstate(invalid="ignore"):  # missing options
        prior_subtracted = scored.own - (alpha or 0.0) * mismatched
    scores = {
        "own": scored.own,
        "constant": scored.constant,
        "mismatched": mismatched,
        "mismatched_mean": mismatched_mean,
        "prior_subtracted": prior_subtracted,
    }[system.more["shown"]]
    return scores / (scored_set.pieces + 1) if system.more["per_token"] else scores


def shown_errors(system: System, scored_set: ScoredSet, alpha: float | None) -> Floats:
    """The standard errors (N, K) of :func:`shown_scores` for this α, 0 where nothing is drawn."""
    if system.more["shown"] == "shorter":
        return np.zeros(scored_set.pieces.shape)
    scored, weight = scored_set.by[system.estimator], alpha or 0.0
    # both use the same masks: their shared error cancels in the difference
    variance = scored.error**2 - 2 * weight * scored.mismatched_covariance + (weight * scored.mismatched_error) ** 2
    errors = {
        "own": scored.error,
        "constant": scored.constant_error,
        "mismatched": scored.mismatched_error,
        "mismatched_mean": scored.mismatched_mean_error,
        "prior_subtracted": np.sqrt(np.maximum(variance, 0.0)),
    }[system.more["shown"]]
    return errors / (scored_set.pieces + 1) if system.more["per_token"] else errors


class Store:
    """The records of a table of scores, each read once."""

    def __init__(self, job: ArtefactJob, manifests: Manifests) -> None:
        self.job, self.manifests = job, manifests
        self.scores = cache(self._scores)
        self.matrix = cache(self._matrix)

    def _scores(self, name: str) -> dict[str, ScoredSet]:
        return read_table(self.manifests, name, "scores.parquet", scores_of)

    def _matrix(self, name: str, estimator: str) -> Matrix:
        path = Path(self.manifests[name])
        return read_matrix(path.with_name("matrix.safetensors"), read_json(path), estimator)

    def alphas(self, system: System) -> list[float | None]:
        """α of each seed for a row that subtracts the language prior, None for any other row."""
        if system.more["shown"] != "prior_subtracted":
            return [None] * len(system.records)
        others = self.job.more.get("others")
        held_out = [self.matrix(name, system.estimator) for name in system.more["held_out"]]
        tokens = [matrix.pieces + 1 if system.more["per_token"] else None for matrix in held_out]
        return [
            best_alpha(m.scores, m.same, self.job.more["language_prior_weights"], t, others)
            for m, t in zip(held_out, tokens, strict=True)
        ]


class Retrieval(Results):
    """The retrieval table: a column's items are queries, images or captions."""

    def read(self) -> None:
        store = Store(self.job, self.manifests)
        self.alpha = {system.key: store.alphas(system) for system in self.job.systems}
        for system in self.job.systems:
            queries = [
                self._queries(system, store.matrix(name, system.estimator), alpha)
                for name, alpha in zip(system.records, self.alpha[system.key], strict=True)
            ]
            for column in self.columns:
                self.items[system.key, column] = [by_column[column] for by_column in queries]
        self.metric = {column.key: "recall" for column in self.job.columns}
        right = store.matrix(self.job.systems[0].records[0], self.job.systems[0].estimator).same
        level = np.zeros(right.shape)
        self.chance = {c.key: 100 * float(recall(level, right, _count(c.key)).mean()) for c in self.job.columns}

    def _queries(self, system: System, matrix: Matrix, alpha: float | None) -> dict[str, Items]:
        scores = matrix.scores if alpha is None else prior_subtracted(matrix.scores, alpha)
        scores = scores / (matrix.pieces + 1) if system.more["per_token"] else scores
        by_column = {}
        for column in self.job.columns:
            by_image = column.key.startswith("text")
            value = recall(scores if by_image else scores.T, matrix.same, _count(column.key))
            # queries share one gallery, so their answers are not independent
            by_column[column.key] = Items(matrix.keys, value, matrix.keys, kind="share")
        return by_column


def _count(key: str) -> int:
    return int(key.rpartition("_")[2])
