"""Differences over datasets that are random splits of the same images: does one order of systems hold on all of them?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.records import UserError, read_json
from mdc.report import seen, words
from mdc.report.caption_numbers import Captioned
from mdc.report.csv_file import names
from mdc.report.frame import Contrast, Side, write_contrasts
from mdc.report.manifests import Manifests
from mdc.report.statistics.claims import CAPTION_MARGIN, Claim, decide
from mdc.report.statistics.estimate import NOT_COMPARED, Estimate, over_splits
from mdc.report.statistics.replicates import Floats
from mdc.report.tables import comparisons
from mdc.report.tables.table import Column, Row, Table, estimate_cell

#: of a pair over all splits: on how many of ``datasets`` the first is higher; test images over training images
_MORE = names("higher datasets test_over_train")


class OverDatasets:
    """The pairs of systems that a table compares over its datasets.

    ``over``: the ``pairs`` of systems' names, the first minus the second, over ``datasets`` that are splits of the same images,
    and datasets ``beside`` them, which are compared alone; each with its key, label, number of ``images`` and the corpus's job
    that it is ``trained_on``. ``share``: test images over training images. ``decisions``: of each pair on the metric ``claimed``,
    which may be one that is not available.
    """

    def __init__(self, job: ArtefactJob, manifests: Manifests, results: Captioned, over: Mapping[str, Any]) -> None:
        self.results, self.over, self.statistics = results, over, job.statistics
        self.pairs = [(first, second) for first, second in over["pairs"]]
        shares = {}
        for dataset in over["datasets"]:
            trained = read_json(manifests[dataset["trained_on"]])["splits"]["train"]["samples"]
            shares[dataset["key"]] = dataset["images"] / int(trained)
        if len({round(share, 12) for share in shares.values()}) > 1:
            text = ", ".join(f"{key} {share:.4f}" for key, share in shares.items())
            raise UserError(
                f"{job.artefact}: over: splits must have equal shares of images to test on; they have {text}"
            )
        self.share = next(iter(shares.values()))
        self.seeds = len(job.seeds)
        self.claimed, statistics = job.primary_metric, job.statistics
        self.lost = self.claimed in results.missing
        claims = [Claim(NOT_COMPARED) if self.lost else self._claim(pair, self.claimed) for pair in self.pairs]
        decisions = decide(claims, statistics.level, statistics.power, statistics.order)
        self.decisions = dict(zip(self.pairs, decisions, strict=True))

    def values(self, pair: tuple[str, str], measure: str) -> Floats:
        """The difference on each split."""
        differences = [self.results.differences[_on(dataset, pair), measure].value for dataset in self.over["datasets"]]
        return np.array(differences)

    def mean(self, values: Floats) -> Estimate:
        """Over the splits."""
        return over_splits(values, self.share, self.statistics.level, self.seeds)

    def _claim(self, pair: tuple[str, str], measure: str) -> Claim:
        """Its margin: a tenth of how much the second side is above its control over the splits, if that is above 0."""
        values = self.values(pair, measure)
        gains = [
            self._gains([_on(dataset, pair)[side] for dataset in self.over["datasets"]], measure) for side in (0, 1)
        ]
        lows = [None if gain is None else self.mean(gain).low for gain in gains]
        below_control = all(gain is not None for gain in gains) and not any(low is not None and low > 0 for low in lows)
        second, low = gains[1], lows[1]
        if second is None or low is None or low <= 0:
            return Claim(self.mean(values), below_control=below_control)
        margins = CAPTION_MARGIN * second
        ends = self.mean(values + margins), self.mean(values - margins)
        return Claim(self.mean(values), float(margins.mean()), *ends, below_control=below_control)

    def _gains(self, systems: Sequence[str], measure: str) -> Floats | None:
        """How much systems are above their controls; None if one has none."""
        level, controls = self.results.levels, [self.results.systems[key].control for key in systems]
        gains = [
            level[key, measure].value - level[control, measure].value
            for key, control in zip(systems, controls, strict=True)
            if control is not None
        ]
        return np.array(gains) if len(gains) == len(systems) else None

    def write(self, path: Path) -> None:
        """Write every pair on every metric as csv, on each dataset and over all of them."""
        lines: list[Contrast] = []
        more: list[Sequence[Any]] = []
        for pair in self.pairs:
            for measure in self.results.measures:
                each = [_on(dataset, pair) for dataset in (*self.over["beside"], *self.over["datasets"])]
                results = self.results.differences
                lines += [self.results.contrast("difference", keys, measure, results[keys, measure]) for keys in each]
                more += [(None,) * len(_MORE)] * len(each)
                values = self.values(pair, measure)
                lines.append(self._line(pair, measure))
                more.append((int((values > 0).sum()), len(values), self.share))
            if self.lost:
                lines.append(self._line(pair, self.claimed))
                more.append((None,) * len(_MORE))
        write_contrasts(path, self.results.job, lines, **dict(zip(_MORE, zip(*more, strict=True), strict=True)))

    def _line(self, pair: tuple[str, str], measure: str) -> Contrast:
        """A pair over all splits."""
        pairs = [_on(dataset, pair) for dataset in self.over["datasets"]]
        sides = zip(pair, (Side.of(self.results.systems[key]) for key in pairs[0]), strict=True)
        first, second = (replace(side, key=key, dataset="all") for key, side in sides)
        decision = self.decisions[pair] if measure == self.claimed else None
        more: dict[str, Any] = {"first": first, "second": second, "decision": decision, "predicted": "higher"}
        more["seen"] = seen.mark(self.results.trained_on, chain(*pairs), self.results.parts(measure))
        if measure in self.results.missing:
            return self.results.not_compared("splits", pairs[0], measure, **more)
        return self.results.contrast("splits", pairs[0], measure, self.mean(self.values(pair, measure)), **more)

    def tables(self, measures: Sequence[str]) -> list[Table]:
        """The claims over the splits, and every pair on every metric."""
        splits = f"{len(self.over['datasets'])} splits"
        beside = ", ".join(dataset["label"] for dataset in self.over["beside"])
        how = (
            f"Intervals: {words.percent(self.statistics.level)}, Student's t over splits, corrected for that they share most of "
            "the images they train on (Nadeau and Bengio, 2003: the variance times "
            f"1/{len(self.over['datasets'])} + {self.share:.3f}, the images tested on over those trained on). "
            "All splits have the same seeds, so the interval does not show how seeds differ."
            f"{f' Not among them: {beside}.' * bool(beside)}"
        )
        labels = {system.method.key: system.method.label for system in self.results.job.systems}
        titles = {pair: f"{labels[pair[0]]} − {labels[pair[1]]}" for pair in self.pairs}
        rows = []
        for pair in self.pairs:
            results = [(self.mean(self.values(pair, measure)), self._higher(pair, measure)) for measure in measures]
            rows.append(Row((titles[pair],), tuple(estimate_cell(*dataset) for dataset in results)))
        named = [self.results.name(measure) for measure in measures]
        every = Table(
            title=f"Over all {splits}, {self.results.scale_text}",
            caption=(
                f"The mean of the splits' differences, in points, and on how many splits the first is higher. {how}",
            ),
            labels=("Comparison",),
            columns=tuple(Column(name, "", "Difference", name) for name in named),
            rows=tuple(rows),
            signed=True,
        )
        if self.lost:
            return [every]
        claims = comparisons.claims(
            f"Primary comparisons over {splits} on {self.results.name(self.claimed)}, {self.results.scale_text}",
            f"Differences in points. {how}",
            self.statistics,
            ("Comparison", "Higher on"),
            [((titles[p], self._higher(p, self.claimed)), self._line(p, self.claimed)) for p in self.pairs],
        )
        return [claims, every]

    def _higher(self, pair: tuple[str, str], measure: str) -> str:
        """On how many splits the first is higher."""
        values = self.values(pair, measure)
        return f"{(values > 0).sum()} of {len(values)}"


def _on(dataset: Mapping[str, Any], pair: tuple[str, str]) -> tuple[str, str]:
    """The keys of two systems on a dataset."""
    return f"{dataset['key']}/{pair[0]}", f"{dataset['key']}/{pair[1]}"
