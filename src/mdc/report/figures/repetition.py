"""Probe accuracy and held-out loss over the samples that a run has seen: the same pairs again and again, or fresh ones.

The corpora with the fewest pairs are one corpus seen several times, each run with a cosine of its own; those with more pairs are
fresh: each of their pairs is seen as often as in the shortest run. Both lines start at that run. What is claimed are differences
between methods at one number of samples; the figure's note says them with their verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from mdc.plan.jobs.shown import ProbingJob, System
from mdc.plan.records import UserError
from mdc.report import words
from mdc.report.csv_file import names, write_csv
from mdc.report.figures.accuracy_panels import WIDTH, AccuracyPanels, count_words
from mdc.report.figures.drawing import Axes, drawing, error_bars, line_handle
from mdc.report.frame import write_contrasts, write_levels
from mdc.report.given import Given, record_of
from mdc.report.results import Results

SHOWN = {
    "artefacts": {"figure_repetition": {"title": "Many passes over few pairs"}},
    "files": ".png .svg .pdf .csv _contrasts.csv _losses.csv",
    "caption": "Linear-probe accuracy and held-out loss at scale {scale} over the samples that a run has seen: the same pairs "
    "again and again, each number of passes a run of its own, or fresh pairs; with intervals, and the differences between "
    "methods that were named beforehand.",
    "config": "probe_tables.RepetitionFigure",
    "plan": "artefact_plans.probing",
    "job": "shown.ProbingJob",
}

#: ``least``, ``greatest``: over seeds
_LOSSES = names(
    "scale artefact system dataset backbone method passes samples_seen seeds unit loss least greatest records"
)


@dataclass(frozen=True)
class Seen:
    """What a corpus's runs have seen: ``pairs``, each ``passes`` times; ``fresh``: they are more than the fewest."""

    pairs: int
    samples: int
    fresh: bool

    @property
    def passes(self) -> float:
        return self.samples / self.pairs


class Repetition(Results):
    """The systems by the samples that they have seen. ``losses``: of each system the held-out losses of its runs at their ends;
    ``captioners``: those whose losses are in nats per token, not per pair."""

    job: ProbingJob

    def __init__(self, job: ProbingJob, given: Given) -> None:
        super().__init__(job, given)
        told = {
            corpus: (self.told_of(corpus, "pairs", "pairs"), self.told_of(corpus, "samples_seen", "samples"))
            for corpus in self.corpora
        }
        fewest = min(pairs for pairs, _ in told.values())
        self.seen = {corpus: Seen(pairs, samples, pairs > fewest) for corpus, (pairs, samples) in told.items()}
        of: dict[tuple[int, bool], str] = {}
        for corpus, seen in self.seen.items():
            if (other := of.setdefault((seen.samples, seen.fresh), corpus)) != corpus:
                raise UserError(
                    f"{self.title}: runs of {other} and {corpus} both saw {seen.samples:,} samples; drop one of them"
                )
        if len(of) < 2:
            raise UserError(f"{self.title}: needs runs that have seen different numbers of samples")
        self.losses: dict[str, list[float]] = {}
        self.captioners: list[System] = []
        for system in (system for system in job.systems if system.corpus):
            records = [record_of(job, given, f"runs/{run}") for run in system.runs]
            for record in records:
                if record.get("validation_loss") is None:
                    raise UserError(
                        f"{self.title}: {record['id']} has no held-out loss; give its corpus held-out pairs (val)"
                    )
            self.losses[system.key] = [float(record["validation_loss"]) for record in records]
            if records[0]["config"]["method"]["objective"] not in ("contrastive", "superclass"):
                self.captioners.append(system)

    def samples(self, system: System) -> int:
        return self.seen[system.corpus.key].samples if system.corpus else 0

    def lines(self, systems: Sequence[System]) -> dict[tuple[str, bool], list[System]]:
        """(method, whether its pairs are fresh) → its systems by samples; a fresh line starts where the repeated one does."""
        found: dict[tuple[str, bool], list[System]] = {}
        for system in sorted((s for s in systems if s.corpus), key=self.samples):
            assert system.corpus is not None
            found.setdefault((system.method.key, self.seen[system.corpus.key].fresh), []).append(system)
        for (method, fresh), line in found.items():
            start = found.get((method, False), [])
            if fresh and start and self.samples(start[0]) < self.samples(line[0]):
                line.insert(0, start[0])
        return found


def make(job: ProbingJob, given: Given, out: Path) -> None:
    """Write the figure, its numbers, losses and comparisons into ``out``; errors as of Table 1.

    UserError besides if the runs of a corpus have seen different numbers of pairs or samples, or two corpora the same.
    """
    found = Repetition(job, given)
    seen = [found.seen[n.system.corpus.key] if n.system.corpus else None for n in found.numbers]
    more: Mapping[str, Sequence[Any]] = {
        "passes": [one.passes if one else None for one in seen],
        "samples_seen": [one.samples if one else None for one in seen],
    }
    write_levels(out / "figure_repetition.csv", job, found.numbers, **more)
    write_contrasts(out / "figure_repetition_contrasts.csv", job, found.contrasts())
    write_csv(out / "figure_repetition_losses.csv", _loss_rows(found), _LOSSES)
    draw(found, [out / f"figure_repetition.{ending}" for ending in ("png", "svg", "pdf")])


def _loss_rows(found: Repetition) -> list[dict[str, Any]]:
    rows = []
    for key, losses in found.losses.items():
        system = found.systems[key]
        assert system.corpus is not None
        seen, unit = found.seen[system.corpus.key], "nats per token" if system in found.captioners else "nats per pair"
        labels = system.corpus.label, system.backbone.label, system.method.label
        told = (found.job.scale, found.job.artefact, key, *labels, seen.passes, seen.samples, len(losses), unit)
        runs = " ".join(f"runs/{run}" for run in system.runs)
        rows.append(dict(zip(_LOSSES, (*told, fmean(losses), min(losses), max(losses), runs), strict=True)))
    return rows


def draw(found: Repetition, paths: Sequence[Path]) -> None:
    """A panel for each column and one for the losses: every method over the samples, fresh pairs as dashes."""
    shown, count = AccuracyPanels(found), len(found.measures)
    rows = math.ceil((count + 1) / 2)
    with drawing(WIDTH, 2.3 * rows + 1.6, paths) as figure:
        axes = figure.subplots(rows, 2, squeeze=False).ravel()
        for panel, measure in zip(axes, found.measures, strict=False):
            shown.axis(panel, found.name(measure))
            for (method, fresh), line in found.lines(found.job.systems).items():
                points = [(found.samples(s), found.number(s.key, measure)) for s in line]
                at, values = [x for x, _ in points], [number.value for _, number in points]
                panel.plot(at, values, color=shown.styles[method][0], **_dashes(fresh))
                for point in points:
                    shown.point(panel, *point)
        count += _losses(axes[count], found, shown.styles)
        for panel in axes[:count]:
            _samples_axis(panel, found)
        for panel in axes[count:]:
            panel.set_visible(False)
        handles, fresh = shown.handles(1.3), any(seen.fresh for seen in found.seen.values())
        if fresh:
            pairs = ((False, "the same pairs"), (True, "fresh pairs"))
            handles += [line_handle(("#444444", ""), label, **_dashes(one)) for one, label in pairs]
        note = "" if len(found.job.seeds) == 1 else " Bars of losses: from the least seed to the greatest."
        if claims := words.claims_told(found.claims()):
            note += f" Of {found.name(found.primary_measure)}, in points: {'; '.join(claims)}."
        shown.finish(figure, f"The same pairs again{', or fresh ones' * fresh}:", handles, "Bars:", note)


def _dashes(fresh: bool) -> dict[str, Any]:
    return {"linewidth": 1.3, "zorder": 2, "linestyle": (0, (3, 2)) if fresh else "-"}


def _losses(panel: Axes, found: Repetition, styles: dict[str, tuple[str, str]]) -> bool:
    """Of captioners, in nats per token; False if there are none. Bars reach from the least seed to the greatest."""
    for (method, fresh), line in found.lines(found.captioners).items():
        each = [(fmean(one), min(one), max(one)) for one in (found.losses[s.key] for s in line)]
        places = [found.samples(s) for s in line]
        error_bars(panel, places, each, styles[method], markersize=4, **_dashes(fresh))
    panel.set_ylabel("held-out loss (nats per token)")
    return bool(found.captioners)


def times(passes: float) -> str:
    """A number of passes as it is asked for: a last batch that is left out of each makes 4.99 of 5."""
    whole = round(passes)
    return str(whole) if abs(passes - whole) <= 0.02 * passes else f"{passes:.3g}"


def _samples_axis(panel: Axes, found: Repetition) -> None:
    """Samples on a logarithmic scale, below them how many passes over the fewest pairs that is."""
    from matplotlib.ticker import NullLocator

    fewest = min(seen.pairs for seen in found.seen.values())
    samples = sorted({seen.samples for seen in found.seen.values()})
    panel.set_xscale("log", base=2)
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xticks(samples, [f"{count_words(count)}\n{times(count / fewest)}×" for count in samples], fontsize=7.5)
    panel.set_xlabel(f"samples seen (×: passes over {count_words(fewest)} pairs)", fontsize=8)
