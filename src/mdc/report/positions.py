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

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mdc.plan.jobs.shown import PositionsFigureJob, PositionSystem
from mdc.plan.records import UserError
from mdc.report.given import Given, Table, record_of, table_of
from mdc.report.statistics.claims import Decision, claim, decide
from mdc.report.statistics.estimate import Estimate, estimate
from mdc.report.statistics.replicates import Floats, Items, Replicates, drawn, mean

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
        found = ~self.eot
        if context == "prefix":
            found &= ~self.mentioned
        return found if kind is None else found & (self.kind == kind)


class Positions:
    """The records of the figure's job. All means are over tokens, whose captions are resampled, the same for all
    systems of a corpus."""

    def __init__(self, job: PositionsFigureJob, given: Given) -> None:
        self.job, self.given = job, given
        self.systems = {system.key: system for system in job.systems}
        for name in (name for s in job.systems for name in s.records):
            record_of(job, given, name)
        self.tokens = {system.key: self._tokens(system) for system in job.systems}
        self.kinds = {
            system.key: [k for k in dict.fromkeys(self.tokens[system.key].kind.tolist()) if k not in ("", "end")]
            for system in job.systems
        }
        self._steps: dict[str, list[int]] = {}
        #: what is averaged: by its name the tokens, training by training
        self._means: dict[Hashable, list[Items]] = {}
        for key in self.systems:
            for context in CONTEXTS:
                for kind in (None, *self.kinds[key]):
                    self._add_curve(key, context, kind)
                    for against in (None, self.reference(key)):
                        self._add_thirds(key, context, kind, against)
            self._add_signal(key)
        self._found = drawn(self._means, job.statistics.bootstrap)

    def reference(self, key: str) -> str | None:
        """What a system is held against; None of the reference itself, and of one that reads from right to left."""
        system, reference = self.systems[key], f"{self.systems[key].corpus.key}/{self.job.reference}"
        return None if key == reference or system.reverse else reference

    def _tokens(self, system: PositionSystem) -> Tokens:
        columns = (
            "key",
            "place",
            "tokens",
            "kind",
            "eot",
            "before",
            "after",
            *CONTEXTS,
            *(f"{one}_blind" for one in CONTEXTS),
        )
        tables = [table_of(self.job, self.given, name, "tokens.parquet", columns) for name in system.records]
        first = tables[0]
        if any(table["key"] != first["key"] or table["place"] != first["place"] for table in tables):
            raise UserError(f"{system.key}: its seeds were measured on different captions; measure them again")
        pieces = np.array(first["tokens"]) - 1
        place = np.array(first["place"])
        gains = {}
        for context in CONTEXTS:
            seen = np.array([table[context] for table in tables], dtype=np.float64)
            gains[context] = seen - np.array([table[f"{context}_blind"] for table in tables], dtype=np.float64)
            for name, row in zip(system.records, gains[context], strict=True):
                if not np.isfinite(row).all():
                    raise UserError(
                        f"{name}: a token's gain in {CONTEXTS[context]} is no finite number; measure it again"
                    )
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

    def _add(self, name: Hashable, key: str, values: Floats, captions: NDArray[np.str_]) -> None:
        """The mean of ``values`` (S, n) of tokens whose captions are ``captions`` (n,), if these are two or more."""
        if len(set(captions.tolist())) > 1:
            groups = tuple(f"{self.systems[key].corpus.key}/{caption}" for caption in captions)
            ids = tuple(f"{group}/{place}" for place, group in enumerate(groups))
            self._means[name] = [Items(ids, row, groups) for row in values]

    def _estimate(self, found: Replicates, contrast: bool = False) -> Estimate:
        return estimate(found, self.job.statistics.level, contrast)

    # --- by position ----------------------------------------------------------------------------------------------------

    def _add_curve(self, key: str, context: str, kind: str | None) -> None:
        tokens = self.tokens[key]
        chosen, place = tokens.chosen(context, kind), self._bins(tokens)
        for number in range(self.job.bins):
            here = np.flatnonzero(chosen & (place == number))
            self._add(("curve", key, context, kind, number), key, tokens.gain[context][:, here], tokens.keys[here])

    def curve(self, key: str, context: str, kind: str | None = None) -> list[tuple[int, Estimate]]:
        """The mean gain in each bin of relative position that has tokens of several captions: (bin, estimate in nats)."""
        names = ((number, ("curve", key, context, kind, number)) for number in range(self.job.bins))
        return [(number, self._estimate(self._found[name])) for number, name in names if name in self._found]

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

    def _add_thirds(self, key: str, context: str, kind: str | None, against: str | None) -> None:
        tokens = self.tokens[key]
        values, chosen = tokens.gain[context], tokens.chosen(context, kind)
        if against is not None:
            other = self.tokens[against]
            if tokens.keys.tolist() != other.keys.tolist():
                raise UserError(f"{key} and {against} were measured on different captions; measure them again")
            values = values - other.gain[context]
            chosen &= other.chosen(context, kind)
        lengths = self._lengths(tokens)
        for length in range(3):
            for third, there in (("late", tokens.relative >= 2 * _THIRD), ("early", tokens.relative < _THIRD)):
                some = np.flatnonzero(chosen & (lengths == length) & there)
                self._add((third, key, context, kind, against, length), key, values[:, some], tokens.keys[some])

    def fall(self, key: str, context: str, kind: str | None = None, against: str | None = None) -> Replicates | None:
        """The mean gain of the last third minus that of the first, or how much that of ``key`` is above that of ``against`` on
        the same tokens, in nats; None where no length of caption has tokens of several captions in both thirds."""
        ends = [
            [self._found.get((third, key, context, kind, against, length)) for third in ("late", "early")]
            for length in range(3)
        ]
        apart = [late - early for late, early in ends if late is not None and early is not None]
        return mean(apart) if apart else None

    def _lengths(self, tokens: Tokens) -> NDArray[np.int64]:
        """Which third of the captions by length a token's caption belongs to, (N,) 0…2."""
        _, first = np.unique(tokens.keys, return_index=True)
        edges = np.quantile(tokens.pieces[first], [_THIRD, 2 * _THIRD])
        return np.asarray(np.searchsorted(edges, tokens.pieces, side="left"))

    # --- claims ---------------------------------------------------------------------------------------------------------

    def claims(self) -> list[tuple[str, str, Replicates, Decision]]:
        """(system, reference, how much less it falls in matched contexts, what was found), of the systems that the job names."""
        found = []
        for key in self.job.primary:
            reference = self.reference(key)
            fall = self.fall(key, "prefix", against=reference)
            if fall is None or reference is None:
                raise UserError(f"{key}: no held-out caption is long enough to have a first and a last third")
            found.append((key, reference, fall))
        how = self.job.statistics
        claims = [claim(fall, self.job.margin, how.level) for _, _, fall in found]
        return [
            (*one, decision)
            for one, decision in zip(found, decide(claims, how.level, how.power, how.order), strict=True)
        ]

    # --- the learning signal ---------------------------------------------------------------------------------------------

    def _add_signal(self, key: str) -> None:
        columns = ("step", "place", "tokens", "key", "norm")
        tables = [
            table_of(self.job, self.given, name, "gradients.parquet", columns) for name in self.systems[key].records
        ]
        self._steps[key] = sorted(set(tables[0]["step"]))
        for number, step in enumerate(self._steps[key]):
            rows = [self._of_step(table, sorted(set(table["step"]))[number]) for table in tables]
            relative, captions = rows[0][0], rows[0][1]
            norms = np.stack([row[2] for row in rows])
            place = np.minimum((relative * self.job.bins).astype(int), self.job.bins - 1)
            for one in range(self.job.bins):
                here = np.flatnonzero((place == one) & (relative < 1))
                self._add(("norm", key, step, one), key, norms[:, here], captions[here])
            logs = np.log(np.maximum(norms, 1e-30))
            late, early = np.flatnonzero((relative >= 2 * _THIRD) & (relative < 1)), np.flatnonzero(relative < _THIRD)
            for third, some in (("late", late), ("early", early)):
                self._add(("log norm", key, step, third), key, logs[:, some], captions[some])

    def signal(self, key: str) -> list[tuple[int, int, Estimate]]:
        """The norm of a token's loss's gradient at the visual tokens: (step, bin, estimate), EOT left out."""
        names = [(step, one) for step in self._steps[key] for one in range(self.job.bins)]
        return [
            (step, one, self._estimate(self._found["norm", key, step, one]))
            for step, one in names
            if ("norm", key, step, one) in self._found
        ]

    def signal_ratio(self, key: str) -> list[tuple[float, Estimate]]:
        """(share of the training done, log of the norm in the last third over that in the first), at each snapshot."""
        steps, found = self._steps[key], []
        for step in steps:
            late, early = (self._found.get(("log norm", key, step, third)) for third in ("late", "early"))
            if late is not None and early is not None:
                found.append((step / steps[-1], self._estimate(late - early, contrast=True)))
        return found

    def _of_step(self, table: Table, step: int) -> tuple[Floats, NDArray[np.str_], Floats]:
        """relative position (EOT at 1 and beyond), keys and norms of a step's tokens."""
        rows = np.flatnonzero(np.array(table["step"]) == step)
        place, tokens = np.array(table["place"])[rows], np.array(table["tokens"])[rows]
        relative = np.where(place == tokens, 1.0, (place - 0.5) / np.maximum(tokens - 1, 1))
        return relative, np.array(table["key"])[rows], np.array(table["norm"], dtype=np.float64)[rows]
