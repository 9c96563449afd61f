"""The numbers of the position figure: what the image adds to a token's log probability, by position, with the claims.

A token's *gain* is log p(token | image) − log p(token | mismatched images), in nats. The second term is, in own contexts, the
mean of log p over the mismatched images; in matched contexts the log of the mean probability. A token's relative position is (i
− ½)/P for the i-th of P BPE tokens; EOT is left out. The *fall* of a method is the mean gain in the last third of a caption
minus that in the first third, within captions of similar length (three groups by number of tokens), then the mean over these
groups.

Two contexts. ``own``: what each model conditions on when it scores. This is descriptive: the context of an autoregressive model
grows with the position, the mean context of a masked model does not. ``prefix``, or matched: the tokens before are shown and
all others masked, for both kinds of model, on first mentions only (tokens that the context does not contain). Claims are about
matched contexts. A right-to-left model is a control: its matched contexts are the tokens after, and a first mention is the
first in its reading order.

The *strength* of a kind of word is the mean gradient norm of its tokens at the visual tokens, in training contexts, over that of
all BPE tokens of the same model.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.plan.records import UserError
from mdc.report.frame import Contrast, Kind, Side, decided
from mdc.report.manifests import Manifests, table_of
from mdc.report.statistics.claims import Claim, claim
from mdc.report.statistics.estimate import Estimate, estimate
from mdc.report.statistics.replicates import Floats, Items, Replicates, mean, resampled

CONTEXTS = {"own": "own contexts", "prefix": "matched contexts"}
FUNCTION = "function"  # what kind_of_word calls words that are about no part of the image
SUFFIX = "suffix"  # what the csv files call the matched contexts of a right-to-left model
Bools = NDArray[np.bool_]
#: a mean over tokens: its name, values (S seeds, N), which of the N count, the caption of each
Average = tuple[Hashable, Floats, Bools, NDArray[np.str_]]


@dataclass(frozen=True, eq=False)
class Tokens:
    """The N tokens of held-out captions under one method; ``gain`` by context, (S seeds, N). ``length``: the caption's third by
    number of tokens. ``mentioned``: the token may be in the method's context already. ``masked``: the share of masks in matched
    contexts."""

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
        """Which tokens count in a context: no EOT; in matched contexts first mentions only; of one ``kind``, if given."""
        counted = ~self.eot
        if context == "prefix":
            counted &= ~self.mentioned
        return counted if kind is None else counted & (self.kind == kind)


class Positions:
    """The results of the figure's job. All means are over tokens; captions are resampled, the same for all systems of a
    corpus."""

    def __init__(self, job: ArtefactJob, manifests: Manifests) -> None:
        self.job, self.manifests = job, manifests
        self.systems = {system.key: system for system in job.systems}
        self.tokens = {system.key: self._tokens(system) for system in job.systems}
        self.kinds = {
            key: [kind for kind in dict.fromkeys(tokens.kind.tolist()) if kind not in ("", "end")]
            for key, tokens in self.tokens.items()
        }
        self._steps: dict[str, list[int]] = {}
        means: dict[Hashable, list[Items]] = {}
        for key in self.systems:
            for name, values, chosen, keys in (*self._gains(key), *self._norms(key)):
                captions = keys[chosen].tolist()
                if len(set(captions)) > 1:
                    groups = tuple(f"{key.partition('/')[0]}/{caption}" for caption in captions)
                    ids = tuple(f"{group}/{place}" for place, group in enumerate(groups))
                    means[name] = [Items(ids, row, groups) for row in values[:, chosen]]
        self._replicates = resampled(means, job.statistics.bootstrap)

    def reference(self, key: str) -> str | None:
        """The key of the system to compare with; None for the reference itself and for a right-to-left model."""
        reference = f"{key.partition('/')[0]}/{self.job.more['reference']}"
        return None if key == reference or self.systems[key].more["reverse"] else reference

    def _tokens(self, system: System) -> Tokens:
        tables = [table_of(self.manifests, name, "tokens.parquet") for name in system.records]
        first = tables[0]
        if any(table["key"] != first["key"] or table["place"] != first["place"] for table in tables):
            raise UserError(f"{system.key}: its seeds were measured on different captions")
        gains = {}
        for context, label in CONTEXTS.items():
            own, other = (
                np.array([t[f"{context}{end}"] for t in tables], dtype=np.float64) for end in ("", "_mismatched")
            )
            gains[context] = own - other
            for name, row in zip(system.records, gains[context], strict=True):
                if not np.isfinite(row).all():
                    raise UserError(f"{name}: a token's gain in {label} is no finite number")
        keys, pieces, place = np.array(first["key"]), np.array(first["tokens"]) - 1, np.array(first["place"])
        edges = np.quantile(pieces[np.unique(keys, return_index=True)[1]], [1 / 3, 2 / 3])
        return Tokens(
            keys,
            place,
            (place - 0.5) / np.maximum(pieces, 1),
            np.searchsorted(edges, pieces, side="left"),
            np.array(first["kind"]),
            np.array(first["eot"]),
            np.array(first["after" if system.more["reverse"] else "before"]),
            (pieces + 2 - place) / (pieces + 1),  # of L = pieces + 1 tokens those from this place on
            gains,
        )

    def _bins(self, relative: Floats) -> NDArray[np.int64]:
        return np.asarray(np.minimum((relative * self.job.more["bins"]).astype(int), self.job.more["bins"] - 1))

    def _gains(self, key: str) -> Iterator[Average]:
        """Gains by position, and in the first and last third of captions of one length."""
        tokens = self.tokens[key]
        place = self._bins(tokens.relative)
        for context, kind in product(CONTEXTS, (None, *self.kinds[key])):
            own, ours = tokens.gain[context], tokens.chosen(context, kind)
            for number in range(self.job.more["bins"]):
                yield ("curve", key, context, kind, number), own, ours & (place == number), tokens.keys
            for against in dict.fromkeys((None, self.reference(key))):
                values = own
                if against is not None:
                    other = self.tokens[against]
                    if tokens.keys.tolist() != other.keys.tolist():
                        raise UserError(f"{key} and {against} were measured on different captions")
                    values = values - other.gain[context]
                for (end, in_third), length in product(_ends(tokens.relative).items(), range(3)):
                    here = ours & in_third & (tokens.length == length)
                    yield (end, key, context, kind, against, length), values, here, tokens.keys

    def _norms(self, key: str) -> Iterator[Average]:
        """Gradient norms by position and by kind, and their logarithms in the first and last third, at each snapshot, without
        EOT."""
        import pandas as pd

        tables = [table_of(self.manifests, name, "gradients.parquet") for name in self.systems[key].records]
        for name, table in zip(self.systems[key].records, tables, strict=True):
            if any(table[column] != tables[0][column] for column in ("step", "place", "key")):
                raise UserError(f"{name}: gradients of other captions than those of the first seed")
            if not np.isfinite(np.array(table["norm"], dtype=np.float64)).all():
                raise UserError(f"{name}: a gradient's norm is no finite number")
        snapshots = [list(pd.DataFrame(table).groupby("step")) for table in tables]
        self._steps[key] = sorted(set(tables[0]["step"]))
        for step, seeds in zip(self._steps[key], zip(*snapshots, strict=True), strict=True):
            rows = seeds[0][1]
            norms = np.stack([of_seed["norm"].to_numpy(float) for _, of_seed in seeds])
            place, pieces = rows["place"].to_numpy(), rows["tokens"].to_numpy() - 1
            relative, keys = (place - 0.5) / np.maximum(pieces, 1), rows["key"].to_numpy()
            for number in range(self.job.more["bins"]):
                yield ("norm", key, step, number), norms, (self._bins(relative) == number) & (place <= pieces), keys
            kind_of = self.tokens[key].kind_of
            kinds = np.array([kind_of[token] for token in zip(keys.tolist(), place.tolist(), strict=True)])
            for kind in (None, *self.kinds[key]):
                yield ("kind", key, step, kind), norms, place <= pieces if kind is None else kinds == kind, keys
            logs = np.log(np.maximum(norms, 1e-30))
            for end, in_third in _ends(relative).items():
                yield ("log norm", key, step, end), logs, in_third & (place <= pieces), keys

    def _estimates(self, names: list[Hashable]) -> list[tuple[int, Estimate]]:
        """(place in the list, estimate) of the names with tokens of several captions."""
        level, known = self.job.statistics.level, self._replicates
        return [(n, estimate(known[name], level)) for n, name in enumerate(names) if name in known]

    def curve(self, key: str, context: str, kind: str | None = None) -> list[tuple[int, Estimate]]:
        """The mean gain in each bin of relative position that has tokens of several captions: (bin, estimate in nats)."""
        return self._estimates([("curve", key, context, kind, number) for number in range(self.job.more["bins"])])

    def untrained(self, key: str, context: str, kind: str | None = None) -> list[float | None]:
        """For each bin the share of tokens whose matched context has a share of masks outside the training range of t, where the
        method extrapolates; None where there is no token, in own contexts, and for a method that masks nothing."""
        trained, tokens = self.systems[key].more["t_range"], self.tokens[key]
        if trained is None or context == "own":
            return [None] * self.job.more["bins"]
        outside = (tokens.masked < trained[0]) | (tokens.masked > trained[1])
        chosen, place = tokens.chosen("prefix", kind), self._bins(tokens.relative)
        bins = [outside[chosen & (place == number)] for number in range(self.job.more["bins"])]
        return [float(tokens_of_bin.mean()) if len(tokens_of_bin) else None for tokens_of_bin in bins]

    def signal(self, key: str) -> dict[int, list[tuple[int, Estimate]]]:
        """The norm of a token's loss's gradient at the visual tokens: at each snapshot's step (bin, estimate)."""
        bins = range(self.job.more["bins"])
        return {step: self._estimates([("norm", key, step, number) for number in bins]) for step in self._steps[key]}

    def strengths(self, key: str, step: int | None = None) -> list[tuple[str, Estimate]]:
        """The strength of each kind of word with tokens of several captions, at a snapshot's step (by default the last)."""
        strengths = {kind: self._strength(key, kind, step) for kind in self.kinds[key]}
        level = self.job.statistics.level
        return [(kind, estimate(strength, level)) for kind, strength in strengths.items() if strength is not None]

    def _strength(self, key: str, kind: str, step: int | None = None) -> Replicates | None:
        step = self._steps[key][-1] if step is None else step
        own, every = (self._replicates.get(("kind", key, step, name)) for name in (kind, None))
        return own.of(np.divide, every) if own is not None and every is not None else None

    def signal_ratio(self, key: str) -> list[tuple[float, Estimate]]:
        """(share of the training done, log of the norm in the last third over that in the first), at each snapshot."""
        steps, ratios = self._steps[key], []
        for step in steps:
            late, early = (self._replicates.get(("log norm", key, step, end)) for end in ("late", "early"))
            if late is not None and early is not None:
                ratio = estimate(late - early, self.job.statistics.level, contrast=True)
                ratios.append((step / steps[-1], ratio))
        return ratios

    def _fall(self, key: str, context: str, kind: str | None, against: str | None) -> Replicates | None:
        ends = [
            [self._replicates.get((end, key, context, kind, against, length)) for end in ("late", "early")]
            for length in range(3)
        ]
        apart = [late - early for late, early in ends if late is not None and early is not None]
        return mean(apart) if apart else None

    def falls(self) -> list[Contrast]:
        """The fall in nats of every system in each context, over all tokens and each kind, and its difference to the
        reference's on the same tokens, but for those that are claimed; where at least one group of lengths has tokens of several
        captions in both thirds."""
        falls = []
        for key in self.systems:
            for context, kind in product(CONTEXTS, (None, *self.kinds[key])):
                for against in dict.fromkeys((None, self.reference(key))):
                    if against and key in self.job.more["claimed"] and (context, kind) == ("prefix", None):
                        continue
                    fall = self._fall(key, context, kind, against)
                    if fall is not None:
                        falls.append(self._fall_contrast(key, against, context, kind, fall))
        return falls

    def claims(self) -> list[Contrast]:
        """The claims that the job names: differences to the reference's fall in matched contexts, and differences in the
        strength of function words."""
        statistics = self.job.statistics
        lines: list[Contrast] = []
        claims: list[Claim] = []
        for key in self.job.more["claimed"]:
            reference = self.reference(key)
            fall = self._fall(key, "prefix", None, reference)
            if fall is None or reference is None:
                raise UserError(f"{key}: no held-out caption is long enough to have a first and a last third")
            lines.append(self._fall_contrast(key, reference, "prefix", None, fall))
            claims.append(claim(fall, self.job.more["margin"], statistics.level))
        labels = {"column": FUNCTION, "label": f"{FUNCTION} words", "condition": "as trained"}
        labels |= {"metric": "strength of the gradient", "unit": "times the mean BPE token"}
        for first, second in self.job.more["function_words"]:
            ours, theirs = self._strength(first, FUNCTION), self._strength(second, FUNCTION)
            if ours is None or theirs is None:
                raise UserError(f"{first}: no caption whose gradients are measured has a function word")
            lines.append(self._contrast("difference", first, second, ours - theirs, **labels))
            claims.append(claim(ours - theirs, None, statistics.level))
        return decided(lines, claims, statistics)

    def context(self, key: str, context: str) -> str:
        """A context as the csv files name it."""
        return SUFFIX if self.systems[key].more["reverse"] and context == "prefix" else context

    def _fall_contrast(
        self, key: str, against: str | None, context: str, kind: str | None, fall: Replicates
    ) -> Contrast:
        """A fall; the ``condition`` is the context."""
        labels = {"column": kind or "all", "label": kind or "all tokens", "condition": self.context(key, context)}
        labels |= {"metric": "last third minus first third", "unit": "nats"}
        return self._contrast("fall", key, against, fall, **labels)

    def _contrast(self, kind: Kind, key: str, against: str | None, replicates: Replicates, **labels: Any) -> Contrast:
        """A system compared with 0, or with the system ``against``; ``labels``: further fields."""
        systems = [self.systems[system] for system in (key, against) if system is not None]
        sides = [Side.of(system) for system in systems]
        return Contrast(
            kind=kind,
            first=sides[0],
            second=sides[1] if against else None,
            estimate=estimate(replicates, self.job.statistics.level, contrast=True),
            **labels,
        )


def _ends(relative: Floats) -> dict[str, Bools]:
    """Which places lie in the last and in the first third."""
    return {"late": relative >= 2 / 3, "early": relative < 1 / 3}
