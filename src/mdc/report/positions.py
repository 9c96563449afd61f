"""The numbers of the position figure: what the image adds to a token, by its place, and what is claimed of it.

A token's *gain* is log p(token | image) − log p(token | other images), in nats. In own contexts the second term is, of every
method, the mean of log p over the other images; in matched contexts the log of the mean probability. A token's relative
position is (i − ½)/P for the i-th of P word pieces; EOT, which is not about the image, is left out. The *fall* of a method is
the mean gain of tokens in the last third of a caption minus that of tokens in the first third, the mean over captions of
similar length (thirds of captions by their number of pieces), so that it does not compare short captions with long ones.

Two contexts. ``own``: what each model conditions on when it scores. That is a description: by the chain rule the context
of an autoregressive model grows with the position, while the mean context of a masked model is the same everywhere. ``prefix``:
the tokens before are shown and all others are not, for both kinds of model, on first mentions only (a piece that the
context does not hold). Claims are about that. A model that reads from right to left stands beside as a control: its matched
contexts are the tokens behind, and a first mention is the first in its reading order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdc.plan.jobs.shown import PositionsFigureJob, PositionSystem
from mdc.plan.records import UserError, sha256_file
from mdc.report.given import Given, path_of, record_of
from mdc.report.statistics.bootstrap import Column, percentile, replicate
from mdc.report.statistics.interval import Interval
from mdc.report.statistics.seeds import student
from mdc.report.statistics.verdicts import Decision, decide

Floats = NDArray[np.float64]
CONTEXTS = {"own": "own contexts", "prefix": "matched contexts"}
SUFFIX = "suffix"  # what the csv files call the matched contexts of a right-to-left model
_THIRD = 1 / 3


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of held-out captions under one method: facts (N,), and gains by context, (S seeds, N), NaN where there is
    none. ``mentioned``: the method's context may hold the piece already. ``masked``: the share of masks in matched contexts."""

    keys: NDArray[np.str_]
    relative: Floats
    pieces: NDArray[np.int64]
    kind: NDArray[np.str_]
    eot: NDArray[np.bool_]
    mentioned: NDArray[np.bool_]
    masked: Floats
    gain: dict[str, Floats]

    def chosen(self, context: str, kind: str | None = None) -> NDArray[np.bool_]:
        """Which tokens count in a context: no EOT; in matched contexts first mentions alone; of one ``kind``, if given."""
        found = ~self.eot & ~np.isnan(self.gain[context]).any(axis=0)
        if context == "prefix":
            found &= ~self.mentioned
        return found if kind is None else found & (self.kind == kind)


class Positions:
    """The records of the figure's job."""

    def __init__(self, job: PositionsFigureJob, given: Given) -> None:
        self.job, self.given = job, given
        self.systems = {system.key: system for system in job.systems}
        self.records = {name: record_of(job, given, name) for s in job.systems for name in s.records}
        self.tokens = {system.key: self._tokens(system) for system in job.systems}
        self.kinds = {
            system.key: [k for k in dict.fromkeys(self.tokens[system.key].kind.tolist()) if k not in ("", "end")]
            for system in job.systems
        }

    def _table(self, name: str, file: str) -> dict[str, list[Any]]:
        import pyarrow
        import pyarrow.parquet as parquet

        path = path_of(self.job, self.given, name).with_name(file)
        if sha256_file(path) != self.records[name].get("outputs", {}).get(file):
            raise UserError(f"{path}: not the file that its record names (its sha256 differs); measure it again")
        try:
            table = parquet.ParquetFile(path).read()
            return {column: table.column(column).to_pylist() for column in table.column_names}
        except (OSError, pyarrow.ArrowException, ValueError) as error:
            raise UserError(f"{path}: cannot be read ({str(error)[:200]}); measure it again") from None

    def _tokens(self, system: PositionSystem) -> Tokens:
        tables = [self._table(name, "tokens.parquet") for name in system.records]
        first = tables[0]
        if any(table["key"] != first["key"] or table["place"] != first["place"] for table in tables):
            raise UserError(f"{system.key}: its seeds were measured on different captions; measure them again")
        pieces = np.array(first["tokens"]) - 1
        place = np.array(first["place"])
        gains = {}
        for context in CONTEXTS:
            seen = np.array([table[context] for table in tables], dtype=np.float64)
            gains[context] = seen - np.array([table[f"{context}_blind"] for table in tables], dtype=np.float64)
        return Tokens(
            np.array(first["key"]),
            (place - 0.5) / np.maximum(pieces, 1),
            pieces,
            np.array(first["kind"]),
            np.array(first["eot"]),
            np.array(first["after" if system.reverse else "before"]),
            (pieces + 2 - place) / (pieces + 1),  # of L = pieces + 1 tokens those from this place on
            gains,
        )

    # --- by position ----------------------------------------------------------------------------------------------------

    def curve(self, key: str, context: str, kind: str | None = None) -> list[tuple[int, Interval, int]]:
        """The mean gain in each bin of relative position that has tokens: (bin, interval in nats, tokens)."""
        tokens = self.tokens[key]
        chosen, place = tokens.chosen(context, kind), self._bins(tokens)
        found = []
        for number in range(self.job.bins):
            here = np.flatnonzero(chosen & (place == number))
            if len(set(tokens.keys[here].tolist())) > 1:
                values = tokens.gain[context][:, here]
                found.append((number, self._mean([(1.0, values, tokens.keys[here])], contrast=False), len(here)))
        return found

    def untrained(self, key: str, kind: str | None = None) -> list[float | None]:
        """For each bin the share of tokens whose matched context has a share of masks outside the range from which training draws
        t; None where there is no token, and for a method that masks nothing. What such a method does there is extrapolation."""
        trained, tokens = self.systems[key].t_range, self.tokens[key]
        if trained is None:
            return [None] * self.job.bins
        outside = (tokens.masked < trained[0]) | (tokens.masked > trained[1])
        chosen, place = tokens.chosen("prefix", kind), self._bins(tokens)
        bins = [outside[chosen & (place == number)] for number in range(self.job.bins)]
        return [float(one.mean()) if len(one) else None for one in bins]

    def _bins(self, tokens: Tokens) -> NDArray[np.int64]:
        return np.asarray(np.minimum((tokens.relative * self.job.bins).astype(int), self.job.bins - 1))

    def fall(self, key: str, context: str, kind: str | None = None, against: str | None = None) -> Interval | None:
        """The mean gain of the last third minus that of the first, or how much that of ``key`` is above that of ``against`` on
        the same tokens; None where no length of caption has tokens of several captions in both thirds."""
        tokens = self.tokens[key]
        values, chosen = tokens.gain[context], tokens.chosen(context, kind)
        if against is not None:
            other = self.tokens[against]
            if tokens.keys.tolist() != other.keys.tolist():
                raise UserError(f"{key} and {against} were measured on different captions; measure them again")
            values = values - other.gain[context]
            chosen &= other.chosen(context, kind)
        terms: list[tuple[float, Floats, NDArray[np.str_]]] = []
        lengths = self._lengths(tokens)
        bins = 0
        for length in range(3):
            late = np.flatnonzero(chosen & (lengths == length) & (tokens.relative >= 2 * _THIRD))
            early = np.flatnonzero(chosen & (lengths == length) & (tokens.relative < _THIRD))
            if min(len(set(tokens.keys[some].tolist())) for some in (late, early)) > 1:
                bins += 1
                terms += [(1.0, values[:, late], tokens.keys[late]), (-1.0, values[:, early], tokens.keys[early])]
        if not bins:
            return None
        # the plain mean over 2 · bins columns, the early ones negative, is half of what is wanted
        return self._mean(terms, contrast=True).times(2)

    def _lengths(self, tokens: Tokens) -> NDArray[np.int64]:
        """Which third of the captions by length a token's caption belongs to, (N,) 0…2."""
        _, first = np.unique(tokens.keys, return_index=True)
        edges = np.quantile(tokens.pieces[first], [_THIRD, 2 * _THIRD])
        return np.asarray(np.searchsorted(edges, tokens.pieces, side="left"))

    def _mean(self, terms: Sequence[tuple[float, Floats, NDArray[np.str_]]], contrast: bool) -> Interval:
        """The plain mean over ``terms`` (sign, values (S, n), keys (n,)), resampled by caption."""
        statistics = self.job.statistics
        columns = [Column(sign * values.mean(axis=0), values.shape[1], keys.tolist()) for sign, values, keys in terms]
        found = replicate(columns, np.random.default_rng(0), statistics.bootstrap)
        seeds = len(self.job.seeds)
        if seeds < 3:
            return percentile(found, statistics.level, contrast=contrast, seeds=seeds)
        per_seed = np.mean([sign * values.mean(axis=1) for sign, values, _ in terms], axis=0)
        return student(per_seed, found.components(), found.n, statistics.level, contrast, draws=len(found.whole))

    # --- claims ---------------------------------------------------------------------------------------------------------

    def claims(self) -> list[tuple[str, str, Interval, Decision]]:
        """(system, reference, how much less it falls in matched contexts, verdict), of the systems that the job names."""
        found = []
        for key in self.job.primary:
            reference = f"{self.systems[key].corpus.key}/{self.job.reference}"
            interval = self.fall(key, "prefix", against=reference)
            if interval is None:
                raise UserError(f"{key}: no held-out caption is long enough to have a first and a last third")
            found.append((key, reference, interval))
        statistics = self.job.statistics
        told = decide([one[2] for one in found], statistics.level, self.job.comparable, statistics.power)
        return [(*one, decision) for one, decision in zip(found, told, strict=True)]

    # --- the learning signal ---------------------------------------------------------------------------------------------

    def signal(self, key: str) -> list[tuple[int, int, Interval, int]]:
        """The norm of a token's loss's gradient at the visual tokens: (step, bin, interval, tokens), EOT left out."""
        system = self.systems[key]
        tables = [self._table(name, "gradients.parquet") for name in system.records]
        steps = sorted(set(tables[0]["step"]))
        found = []
        for number, step in enumerate(steps):
            rows = [self._of_step(table, sorted(set(table["step"]))[number]) for table in tables]
            relative, keys = rows[0][0], rows[0][1]
            norms = np.stack([row[2] for row in rows])
            place = np.minimum((relative * self.job.bins).astype(int), self.job.bins - 1)
            for one in range(self.job.bins):
                here = np.flatnonzero((place == one) & (relative < 1))
                if len(set(keys[here].tolist())) > 1:
                    mean = self._mean([(1.0, norms[:, here], keys[here])], contrast=False)
                    found.append((step, one, mean, len(here)))
        return found

    def signal_ratio(self, key: str) -> list[tuple[float, Interval]]:
        """(share of the training done, log of the norm in the last third over that in the first), at each snapshot."""
        system = self.systems[key]
        tables = [self._table(name, "gradients.parquet") for name in system.records]
        steps = sorted(set(tables[0]["step"]))
        found = []
        for number, step in enumerate(steps):
            rows = [self._of_step(table, sorted(set(table["step"]))[number]) for table in tables]
            relative, keys = rows[0][0], rows[0][1]
            logs = np.log(np.maximum(np.stack([row[2] for row in rows]), 1e-30))
            late, early = np.flatnonzero((relative >= 2 * _THIRD) & (relative < 1)), np.flatnonzero(relative < _THIRD)
            if min(len(set(keys[some].tolist())) for some in (late, early)) > 1:
                terms = [(1.0, logs[:, late], keys[late]), (-1.0, logs[:, early], keys[early])]
                found.append((step / steps[-1], self._mean(terms, contrast=True).times(2)))
        return found

    def _of_step(self, table: dict[str, list[Any]], step: int) -> tuple[Floats, NDArray[np.str_], Floats]:
        """relative position (EOT at 1 and beyond), keys and norms of a step's tokens."""
        rows = np.flatnonzero(np.array(table["step"]) == step)
        place, tokens = np.array(table["place"])[rows], np.array(table["tokens"])[rows]
        relative = np.where(place == tokens, 1.0, (place - 0.5) / np.maximum(tokens - 1, 1))
        return relative, np.array(table["key"])[rows], np.array(table["norm"], dtype=np.float64)[rows]
