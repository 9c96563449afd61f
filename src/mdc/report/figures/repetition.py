"""Probe accuracy and held-out loss over the samples that a run has seen: repeated pairs or fresh ones.

The corpora with the fewest pairs are one corpus seen several times, each run with a cosine of its own. Those with more pairs are
fresh: each pair is seen as often as in the shortest run. Both lines start at that run. The claims are differences between methods
at one number of samples; the figure's note gives their verdicts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from mdc.plan.jobs.shown import ProbingJob, System
from mdc.plan.records import UserError, read_json
from mdc.report.csv_file import names, write_csv
from mdc.report.figures.accuracy_panels import WIDTH, AccuracyPanels, count_words
from mdc.report.figures.drawing import Axes, drawing, error_bars, line_handle
from mdc.report.frame import write_contrasts, write_levels
from mdc.report.manifests import Manifests
from mdc.report.results import Results

SHOWN = {
    "artefacts": {"figure_repetition": {"title": "Many passes over few pairs"}},
    "files": ".png .svg .pdf .csv _contrasts.csv _losses.csv _runs.csv",
    "caption": "Linear-probe accuracy and held-out loss at scale {scale} over the samples that a run has seen: the same pairs "
    "again and again, each number of passes a run of its own, or fresh pairs; with intervals, and the differences between "
    "methods that the scale claims.",
    "config": "probe_tables.RepetitionFigure",
    "plan": "artefact_plans.probing",
    "job": "shown.ProbingJob",
}

_APART = 1.02  # times as many samples: from a method's marker to the next one's
#: ``least``, ``greatest``: over seeds
_LOSSES = names("scale artefact system dataset backbone method passes samples_seen seeds unit loss least greatest")


@dataclass(frozen=True)
class Exposure:
    """What a corpus's runs have seen: ``pairs``, each ``passes`` times; ``fresh``: more pairs than the smallest corpus."""

    pairs: int
    samples: int
    fresh: bool

    @property
    def passes(self) -> float:
        return self.samples / self.pairs


class Repetition(Results):
    """The systems by samples seen. ``losses``: the final held-out losses of each system's runs; ``captioners``: the systems whose
    losses are in nats per token, not per pair."""

    job: ProbingJob

    def __init__(self, job: ProbingJob, manifests: Manifests) -> None:
        super().__init__(job, manifests)
        of_corpus = self.training_of_corpus
        counts = {c: (of_corpus(c, "pairs", "pairs"), of_corpus(c, "samples_seen", "samples")) for c in self.corpora}
        fewest = min(pairs for pairs, _ in counts.values())
        self.seen = {corpus: Exposure(pairs, samples, pairs > fewest) for corpus, (pairs, samples) in counts.items()}
        first_corpus: dict[tuple[int, bool], str] = {}
        for corpus, seen in self.seen.items():
            if (first := first_corpus.setdefault((seen.samples, seen.fresh), corpus)) != corpus:
                raise UserError(
                    f"{self.title}: runs of {first} and {corpus} both saw {seen.samples:,} samples; drop one of them"
                )
        if len(first_corpus) < 2:
            raise UserError(f"{self.title}: needs runs that have seen different numbers of samples")
        self.losses: dict[str, list[float]] = {}
        self.captioners: list[System] = []
        for system in (system for system in job.systems if system.corpus):
            records = [read_json(manifests[f"runs/{run}"]) for run in system.runs]
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
        lines: dict[tuple[str, bool], list[System]] = {}
        for system in sorted((s for s in systems if s.corpus), key=self.samples):
            assert system.corpus is not None
            lines.setdefault((system.method.key, self.seen[system.corpus.key].fresh), []).append(system)
        for (method, fresh), line in lines.items():
            start = lines.get((method, False), [])
            if fresh and start and self.samples(start[0]) < self.samples(line[0]):
                line.insert(0, start[0])
        return lines


def make(job: ProbingJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers, losses and comparisons into ``out``; errors as of Table 1.

    UserError besides if the runs of a corpus have seen different numbers of pairs or samples, or two corpora the same.
    """
    results = Repetition(job, manifests)
    seen = [results.seen[n.system.corpus.key] if n.system.corpus else None for n in results.numbers]
    more: Mapping[str, Sequence[Any]] = {
        "passes": [exposure.passes if exposure else None for exposure in seen],
        "samples_seen": [exposure.samples if exposure else None for exposure in seen],
    }
    write_levels(out / "figure_repetition.csv", job, results.numbers, **more)
    write_contrasts(out / "figure_repetition_contrasts.csv", job, results.contrasts())
    write_csv(out / "figure_repetition_losses.csv", _loss_rows(results), _LOSSES)
    draw(results, [out / f"figure_repetition.{ending}" for ending in ("png", "svg", "pdf")])


def _loss_rows(results: Repetition) -> list[dict[str, Any]]:
    rows = []
    for key, losses in results.losses.items():
        system = results.systems[key]
        assert system.corpus is not None
        seen, job = results.seen[system.corpus.key], results.job
        unit = "nats per token" if system in results.captioners else "nats per pair"
        labels = job.scale, job.artefact, key, system.corpus.label, system.backbone.label, system.method.label
        numbers = seen.passes, seen.samples, len(losses), unit, fmean(losses), min(losses), max(losses)
        rows.append(dict(zip(_LOSSES, (*labels, *numbers), strict=True)))
    return rows


def draw(results: Repetition, paths: Sequence[Path]) -> None:
    """A panel for each column and one for the losses: every method over the samples, fresh pairs as dashes."""
    shown, count = AccuracyPanels(results), len(results.measures)
    rows, methods = math.ceil((count + 1) / 2), list(shown.styles)
    with drawing(WIDTH, 2.3 * rows + 1.6, paths) as figure:
        axes = figure.subplots(rows, 2, squeeze=False).ravel()
        for panel, measure in zip(axes, results.measures, strict=False):
            shown.axis(panel, results.name(measure))
            for (method, fresh), line in results.lines(results.job.systems).items():
                off = _APART ** (methods.index(method) - (len(methods) - 1) / 2)
                points = [(off * results.samples(s), results.number(s.key, measure)) for s in line]
                at, values = [x for x, _ in points], [number.value for _, number in points]
                panel.plot(at, values, color=shown.styles[method][0], **_dashes(fresh))
                for point in points:
                    shown.point(panel, *point)
        count += _losses(axes[count], results, shown.styles)
        for panel in axes[:count]:
            _samples_axis(panel, results)
        for panel in axes[count:]:
            panel.set_visible(False)
        handles, fresh = shown.handles(1.3), any(seen.fresh for seen in results.seen.values())
        if fresh:
            pairs = ((False, "the same pairs"), (True, "fresh pairs"))
            handles += [line_handle(("#444444", ""), label, **_dashes(fresh_pairs)) for fresh_pairs, label in pairs]
        note = "" if len(results.job.seeds) == 1 else " Bars of losses: from the least seed to the greatest."
        shown.finish(figure, f"Repeated pairs{', or fresh ones' * fresh}:", handles, "Bars:", note)


def _dashes(fresh: bool) -> dict[str, Any]:
    return {"linewidth": 1.3, "zorder": 2, "linestyle": (0, (3, 2)) if fresh else "-"}


def _losses(panel: Axes, results: Repetition, styles: dict[str, tuple[str, str]]) -> bool:
    """The captioners' losses, in nats per token, bars from the least seed to the greatest; False if there are no captioners."""
    for (method, fresh), line in results.lines(results.captioners).items():
        each = [(fmean(losses), min(losses), max(losses)) for losses in (results.losses[s.key] for s in line)]
        places = [results.samples(s) for s in line]
        error_bars(panel, places, each, styles[method], markersize=4, **_dashes(fresh))
    panel.set_ylabel("held-out loss (nats per token)")
    return bool(results.captioners)


def times(passes: float) -> str:
    """A number of passes as configured: dropping each pass's last batch makes 4.99 of 5."""
    whole = round(passes)
    return str(whole) if abs(passes - whole) <= 0.02 * passes else f"{passes:.3g}"


def _samples_axis(panel: Axes, results: Repetition) -> None:
    """Samples on a logarithmic scale, below them the passes over the smallest corpus."""
    from matplotlib.ticker import NullLocator

    fewest = min(seen.pairs for seen in results.seen.values())
    samples = sorted({seen.samples for seen in results.seen.values()})
    panel.set_xscale("log", base=2)
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xticks(samples, [f"{count_words(count)}\n{times(count / fewest)}×" for count in samples], fontsize=7.5)
    panel.set_xlabel(f"samples seen (×: passes over {count_words(fewest)} pairs)", fontsize=8)
