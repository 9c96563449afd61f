"""The numbers of the position figure: what the image adds to a token, by its place, and what is claimed of it.

A token's *gain* is log p(token | image) − log p(token | other images), in nats. In own contexts the second term is, of every
method, the mean of log p over the other images; in matched contexts the log of the mean probability. A token's relative
position is (i − ½)/P for the i-th of P BPE tokens; EOT, which is not about the image, is left out. The *fall* of a method is
the mean gain of tokens in the last third of a caption minus that of tokens in the first third, the mean over captions of
similar length (thirds of captions by their number of pieces), so that it does not compare short captions with long ones.

Two contexts. ``own``: what each model conditions on when it scores. That is a description: by the chain rule the context
of an autoregressive model grows with the position, while the mean context of a masked model is the same everywhere. ``prefix``:
the tokens before are shown and all others are not, for both kinds of model, on first mentions only (a piece that the
context does not hold). Claims are about that. A model that reads from right to left stands beside as a control: its matched
contexts are the tokens behind, and a first mention is the first in its reading order.

The *strength* of a kind of word is the mean norm of its tokens' gradients at the visual tokens, in contexts as training draws
them, over that of all BPE tokens. It is of one model, so how large a model's gradients are does not matter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdc.plan.jobs.shown import PositionsFigureJob, PositionSystem
from mdc.plan.records import UserError
from mdc.report.frame import Contrast, Kind, Side, decided, records_of
from mdc.report.given import Given, table_of
from mdc.report.statistics.claims import Claim, claim
from mdc.report.statistics.estimate import Estimate, estimate
from mdc.report.statistics.replicates import Floats, Items, Replicates, drawn, mean

CONTEXTS = {"own": "own contexts", "prefix": "matched contexts"}
FUNCTION = "function"  # what kind_of_word calls words that are about no part of the image
SUFFIX = "suffix"  # what the csv files call the matched contexts of a right-to-left model
Bools = NDArray[np.bool_]
#: what is averaged: a name, values (S seeds, N), which of the N count, the caption of each
Average = tuple[Hashable, Floats, Bools, NDArray[np.str_]]


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of held-out captions under one method: facts (N,), and gains by context, (S seeds, N). ``length``: which third
    of the captions by their number of pieces it belongs to. ``mentioned``: the method's context may hold the piece already.
    ``masked``: the share of masks in matched contexts."""

    keys: NDArray[np.str_]
    place: NDArray[np.int64]
    relative: Floats
    length: NDArray[np.int64]
    kind: NDArray[np.str_]
    eot: Bools
    mentioned: Bools
    masked: Floats
    gain: dict[str, Floats]

    @cached_property
    def kind_of(self) -> dict[tuple[str, int], str]:
        """(caption, place) → kind."""
        return dict(zip(zip(self.keys.tolist(), self.place.tolist(), strict=True), self.kind.tolist(), strict=True))

    def chosen(self, context: str, kind: str | None = None) -> Bools:
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
        self.tokens = {system.key: self._tokens(system) for system in job.systems}
        self.kinds = {
            key: [kind for kind in dict.fromkeys(tokens.kind.tolist()) if kind not in ("", "end")]
            for key, tokens in self.tokens.items()
        }
        self._steps: dict[str, list[int]] = {}
        means: dict[Hashable, list[Items]] = {}
        for key, system in self.systems.items():
            for name, values, chosen, keys in (*self._gains(key), *self._norms(key)):
                captions = keys[chosen].tolist()
                if len(set(captions)) > 1:
                    groups = tuple(f"{system.corpus.key}/{caption}" for caption in captions)
                    ids = tuple(f"{group}/{place}" for place, group in enumerate(groups))
                    means[name] = [Items(ids, row, groups) for row in values[:, chosen]]
        self._found = drawn(means, job.statistics.bootstrap)

    def reference(self, key: str) -> str | None:
        """What a system is held against; None of the reference itself, and of one that reads from right to left."""
        system, reference = self.systems[key], f"{self.systems[key].corpus.key}/{self.job.reference}"
        return None if key == reference or system.reverse else reference

    def _tokens(self, system: PositionSystem) -> Tokens:
        own = [f"{context}{end}" for context in CONTEXTS for end in ("", "_blind")]
        columns = ("key", "place", "tokens", "kind", "eot", "before", "after", *own)
        tables = [table_of(self.job, self.given, name, "tokens.parquet", columns) for name in system.records]
        first = tables[0]
        if any(table["key"] != first["key"] or table["place"] != first["place"] for table in tables):
            raise UserError(f"{system.key}: its seeds were measured on different captions; measure them again")
        gains = {}
        for context, label in CONTEXTS.items():
            seen, blind = (np.array([t[f"{context}{end}"] for t in tables], dtype=np.float64) for end in ("", "_blind"))
            gains[context] = seen - blind
            for name, row in zip(system.records, gains[context], strict=True):
                if not np.isfinite(row).all():
                    raise UserError(f"{name}: a token's gain in {label} is no finite number; measure it again")
        keys, pieces, place = np.array(first["key"]), np.array(first["tokens"]) - 1, np.array(first["place"])
        edges = np.quantile(pieces[np.unique(keys, return_index=True)[1]], [1 / 3, 2 / 3])
        return Tokens(
            keys,
            place,
            (place - 0.5) / np.maximum(pieces, 1),
            np.searchsorted(edges, pieces, side="left"),
            np.array(first["kind"]),
            np.array(first["eot"]),
            np.array(first["after" if system.reverse else "before"]),
            (pieces + 2 - place) / (pieces + 1),  # of L = pieces + 1 tokens those from this place on
            gains,
        )

    def _bins(self, relative: Floats) -> NDArray[np.int64]:
        return np.asarray(np.minimum((relative * self.job.bins).astype(int), self.job.bins - 1))

    def _gains(self, key: str) -> Iterator[Average]:
        """By position, and those of both ends of captions of one length."""
        tokens = self.tokens[key]
        place = self._bins(tokens.relative)
        for context, kind in product(CONTEXTS, (None, *self.kinds[key])):
            own, ours = tokens.gain[context], tokens.chosen(context, kind)
            for number in range(self.job.bins):
                yield ("curve", key, context, kind, number), own, ours & (place == number), tokens.keys
            for against in dict.fromkeys((None, self.reference(key))):
                values = own
                if against is not None:
                    other = self.tokens[against]
                    if tokens.keys.tolist() != other.keys.tolist():
                        raise UserError(f"{key} and {against} were measured on different captions; measure them again")
                    values = values - other.gain[context]
                for (end, there), length in product(_ends(tokens.relative).items(), range(3)):
                    here = ours & there & (tokens.length == length)
                    yield (end, key, context, kind, against, length), values, here, tokens.keys

    def _norms(self, key: str) -> Iterator[Average]:
        """The learning signal: norms by position and by kind, and their logarithms at both ends, at each snapshot; EOT left
        out."""
        import pandas as pd

        columns = ("step", "place", "tokens", "key", "norm")
        tables = [
            table_of(self.job, self.given, name, "gradients.parquet", columns) for name in self.systems[key].records
        ]
        snapshots = [list(pd.DataFrame(table).groupby("step")) for table in tables]
        self._steps[key] = sorted(set(tables[0]["step"]))
        for step, seeds in zip(self._steps[key], zip(*snapshots, strict=True), strict=True):
            rows = seeds[0][1]
            norms = np.stack([of_seed["norm"].to_numpy(float) for _, of_seed in seeds])
            place, pieces = rows["place"].to_numpy(), rows["tokens"].to_numpy() - 1
            relative, keys = (place - 0.5) / np.maximum(pieces, 1), rows["key"].to_numpy()
            for number in range(self.job.bins):
                yield ("norm", key, step, number), norms, (self._bins(relative) == number) & (place <= pieces), keys
            kinds = np.array([self.tokens[key].kind_of[one] for one in zip(keys.tolist(), place.tolist(), strict=True)])
            for kind in (None, *self.kinds[key]):
                yield ("kind", key, step, kind), norms, place <= pieces if kind is None else kinds == kind, keys
            logs = np.log(np.maximum(norms, 1e-30))
            for end, there in _ends(relative).items():
                yield ("log norm", key, step, end), logs, there & (place <= pieces), keys

    def _estimates(self, names: list[Hashable]) -> list[tuple[int, Estimate]]:
        """Of those names that have tokens of several captions: (place in the list, estimate)."""
        level = self.job.statistics.level
        return [(n, estimate(self._found[name], level)) for n, name in enumerate(names) if name in self._found]

    def curve(self, key: str, context: str, kind: str | None = None) -> list[tuple[int, Estimate]]:
        """The mean gain in each bin of relative position that has tokens of several captions: (bin, estimate in nats)."""
        return self._estimates([("curve", key, context, kind, number) for number in range(self.job.bins)])

    def untrained(self, key: str, context: str, kind: str | None = None) -> list[float | None]:
        """For each bin the share of tokens whose matched context has a share of masks outside the range from which training draws
        t; None where there is no token, in own contexts, and for a method that masks nothing. What such a method does there is
        extrapolation."""
        trained, tokens = self.systems[key].t_range, self.tokens[key]
        if trained is None or context == "own":
            return [None] * self.job.bins
        outside = (tokens.masked < trained[0]) | (tokens.masked > trained[1])
        chosen, place = tokens.chosen("prefix", kind), self._bins(tokens.relative)
        bins = [outside[chosen & (place == number)] for number in range(self.job.bins)]
        return [float(one.mean()) if len(one) else None for one in bins]

    def signal(self, key: str) -> dict[int, list[tuple[int, Estimate]]]:
        """The norm of a token's loss's gradient at the visual tokens: at each snapshot's step (bin, estimate)."""
        bins = range(self.job.bins)
        return {step: self._estimates([("norm", key, step, number) for number in bins]) for step in self._steps[key]}

    def strengths(self, key: str, step: int | None = None) -> list[tuple[str, Estimate]]:
        """At a snapshot's step, or the last one's, the strength of each kind of word that has tokens of several captions."""
        found = ((kind, self._strength(key, kind, step)) for kind in self.kinds[key])
        return [(kind, estimate(one, self.job.statistics.level)) for kind, one in found if one is not None]

    def _strength(self, key: str, kind: str, step: int | None = None) -> Replicates | None:
        step = self._steps[key][-1] if step is None else step
        own, every = (self._found.get(("kind", key, step, one)) for one in (kind, None))
        return own.of(np.divide, every) if own is not None and every is not None else None

    def signal_ratio(self, key: str) -> list[tuple[float, Estimate]]:
        """(share of the training done, log of the norm in the last third over that in the first), at each snapshot."""
        steps, found = self._steps[key], []
        for step in steps:
            late, early = (self._found.get(("log norm", key, step, end)) for end in ("late", "early"))
            if late is not None and early is not None:
                ratio = estimate(late - early, self.job.statistics.level, contrast=True)
                found.append((step / steps[-1], ratio))
        return found

    def _fall(self, key: str, context: str, kind: str | None, against: str | None) -> Replicates | None:
        ends = [
            [self._found.get((end, key, context, kind, against, length)) for end in ("late", "early")]
            for length in range(3)
        ]
        apart = [late - early for late, early in ends if late is not None and early is not None]
        return mean(apart) if apart else None

    def falls(self) -> list[Contrast]:
        """The mean gain of the last third minus that of the first, in nats: of every system in each context, of all tokens and of
        each kind; and how much that is above the reference's on the same tokens. Where captions of one length at least
        have tokens of several captions in both thirds."""
        found = []
        for key in self.systems:
            for context, kind in product(CONTEXTS, (None, *self.kinds[key])):
                for against in dict.fromkeys((None, self.reference(key))):
                    fall = self._fall(key, context, kind, against)
                    if fall is not None:
                        found.append(self._fell(key, against, context, kind, fall))
        return found

    def claims(self) -> list[Contrast]:
        """How much less a system falls than the reference in matched contexts, and how much stronger function words are of one
        system than of another, of those that the job names."""
        how = self.job.statistics
        lines: list[Contrast] = []
        claims: list[Claim] = []
        for key in self.job.primary:
            reference = self.reference(key)
            fall = self._fall(key, "prefix", None, reference)
            if fall is None or reference is None:
                raise UserError(f"{key}: no held-out caption is long enough to have a first and a last third")
            lines.append(self._fell(key, reference, "prefix", None, fall))
            claims.append(claim(fall, self.job.margin, how.level))
        told = {"column": FUNCTION, "label": f"{FUNCTION} words", "condition": "as trained"}
        told |= {"metric": "strength of the gradient", "unit": "times the mean BPE token"}
        for one, other in self.job.function_words:
            ours, theirs = self._strength(one, FUNCTION), self._strength(other, FUNCTION)
            if ours is None or theirs is None:
                raise UserError(f"{one}: no caption whose gradients are measured has a function word")
            lines.append(self._contrast("difference", one, other, ours - theirs, **told))
            claims.append(claim(ours - theirs, None, how.level))
        return decided(lines, claims, how)

    def context(self, key: str, context: str) -> str:
        """A context as the csv files name it."""
        return SUFFIX if self.systems[key].reverse and context == "prefix" else context

    def _fell(self, key: str, against: str | None, context: str, kind: str | None, fall: Replicates) -> Contrast:
        """A fall; the ``condition`` is the context."""
        told = {"column": kind or "all", "label": kind or "all tokens", "condition": self.context(key, context)}
        told |= {"metric": "last third minus first third", "unit": "nats"}
        return self._contrast("fall", key, against, fall, **told)

    def _contrast(self, kind: Kind, key: str, against: str | None, found: Replicates, **told: Any) -> Contrast:
        """A number of a system, or of how much it is above another; ``told``: what it is."""
        systems = [self.systems[one] for one in (key, against) if one is not None]
        sides = [Side(one.key, one.corpus.label, self.job.backbone, one.method.label) for one in systems]
        return Contrast(
            kind=kind,
            first=sides[0],
            second=sides[1] if against else None,
            found=estimate(found, self.job.statistics.level, contrast=True),
            records=records_of(*systems),
            **told,
        )


def _ends(relative: Floats) -> dict[str, Bools]:
    """Which places lie in the last and in the first third."""
    return {"late": relative >= 2 / 3, "early": relative < 1 / 3}
