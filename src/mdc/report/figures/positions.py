"""The position figure: what the image tells about a token, and how strongly a token teaches the encoder, by position."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdc.plan.jobs.shown import PositionsFigureJob, PositionSystem
from mdc.plan.records import write_text
from mdc.report import words
from mdc.report.figures.drawing import drawing, headline, line_handle
from mdc.report.figures.styles import method_styles
from mdc.report.given import Given
from mdc.report.lines import records_of
from mdc.report.positions import CONTEXTS, SUFFIX, Positions
from mdc.report.statistics.interval import Interval
from mdc.report.tidy import csv_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = {
    "artefacts": {"figure_position": {"title": "Figure: what the image tells, by position"}},
    "files": ".png .svg .csv _claims.csv _gradients.csv",
    "caption": "What the image adds to the log probability of a caption's token at scale {scale}, by the token's relative "
    "position: in the model's own contexts, and with the tokens before it shown and all others masked; and the norm of the "
    "loss's gradient at the visual tokens.",
    "config": "tables.PositionFigure",
    "plan": "score_plans.positions",
    "job": "shown.PositionsFigureJob",
}

Style = dict[str, tuple[str, str]]
_CURVES = (
    *("scale", "dataset", "method", "context", "kind", "position", "gain", "low", "high", "tokens"),
    *("outside_trained_range", "records"),
)
_CLAIMS = (
    *("scale", "dataset", "method", "against", "context", "kind", "fall", "low", "high", "interval", "seeds"),
    *("p", "p_holm", "verdict", "smallest_detectable", "primary", "records"),
)
_GRADIENTS = ("scale", "dataset", "method", "step", "position", "norm", "low", "high", "tokens", "records")


def make(job: PositionsFigureJob, given: Given, out: Path) -> None:
    """Write the figure and its csv files into ``out``; UserError names the record that is missing, stale or of another scale."""
    found = Positions(job, given)
    write_text(out / "figure_position.csv", csv_text(_curve_lines(found), _CURVES))
    write_text(out / "figure_position_claims.csv", csv_text(_claim_lines(found), _CLAIMS))
    write_text(out / "figure_position_gradients.csv", csv_text(_gradient_lines(found), _GRADIENTS))
    _draw(found, [out / "figure_position.png", out / "figure_position.svg"])


_BLIND = (
    "What the image adds: log p with the image less log p with other images, which is their mean in own contexts and the log "
    "of the mean probability in matched ones."
)


# --- lines --------------------------------------------------------------------------------------------------------------


def _named(found: Positions, system: PositionSystem) -> dict[str, Any]:
    labels = {"scale": found.job.scale, "dataset": system.corpus.label, "method": system.method.label}
    return {**labels, "records": records_of(system)}


def _context(system: PositionSystem, context: str) -> str:
    """A context as the csv files name it."""
    return SUFFIX if system.reverse and context == "prefix" else context


def _curve_lines(found: Positions) -> list[dict[str, Any]]:
    lines = []
    for key, system in found.systems.items():
        for context in CONTEXTS:
            for kind in (None, *found.kinds[key]):
                untrained = found.untrained(key, kind) if context == "prefix" else [None] * found.job.bins
                for number, gain, count in found.curve(key, context, kind):
                    lines.append(
                        {
                            **_named(found, system),
                            "context": _context(system, context),
                            "kind": kind or "all",
                            "position": (number + 0.5) / found.job.bins,
                            "gain": gain.value,
                            "low": gain.low,
                            "high": gain.high,
                            "tokens": count,
                            "outside_trained_range": untrained[number],
                        }
                    )
    return lines


def _claim_lines(found: Positions) -> list[dict[str, Any]]:
    """The claims first; then every method's fall in each context, and how it differs from the reference's, undecided."""
    lines = []
    for key, reference, interval, decision in found.claims():
        lines.append(
            {
                **_named(found, found.systems[key]),
                **_fall(found, interval),
                "against": found.systems[reference].method.label,
                "records": records_of(found.systems[key], found.systems[reference]),
                "context": "prefix",
                "kind": "all",
                "p": words.p_value(decision.p, 4),
                "p_holm": words.p_value(decision.p_holm, 4),
                "verdict": decision.verdict,
                "smallest_detectable": words.finite(decision.smallest_detectable),
                "primary": "true",
            }
        )
    for key, system in found.systems.items():
        reference = f"{system.corpus.key}/{found.job.reference}"
        for context in CONTEXTS:
            for kind in (None, *found.kinds[key]):
                for against in (None, reference):
                    comparable = key != reference and not system.reverse
                    if against is not None and not comparable:
                        continue
                    fall = found.fall(key, context, kind, against)
                    if fall is None:
                        continue
                    nothing = dict.fromkeys(("p", "p_holm", "verdict", "smallest_detectable"), "")
                    sides = (system, *([found.systems[against]] if against else []))
                    label = found.systems[against].method.label if against else ""
                    shown = {"context": _context(system, context), "kind": kind or "all"}
                    told = {"against": label, **shown, "primary": "false", "records": records_of(*sides), **nothing}
                    lines.append({**_named(found, system), **_fall(found, fall), **told})
    return lines


def _fall(found: Positions, interval: Interval) -> dict[str, Any]:
    seeds = " ".join(map(str, found.job.seeds))
    how = "bootstrap over captions" if interval.kind == "bootstrap" else f"t over {interval.seeds} seeds and captions"
    return {"fall": interval.value, "low": interval.low, "high": interval.high, "interval": how, "seeds": seeds}


def _gradient_lines(found: Positions) -> list[dict[str, Any]]:
    return [
        {
            **_named(found, system),
            "step": step,
            "position": (number + 0.5) / found.job.bins,
            "norm": norm.value,
            "low": norm.low,
            "high": norm.high,
            "tokens": count,
        }
        for key, system in found.systems.items()
        for step, number, norm, count in found.signal(key)
    ]


# --- the picture --------------------------------------------------------------------------------------------------------


def _draw(found: Positions, paths: Sequence[Path]) -> None:
    corpora = list(dict.fromkeys(system.corpus.label for system in found.job.systems))
    styles = method_styles(system.method.key for system in found.job.systems)
    labels = {
        system.method.key: f"{system.method.label} (control: suffix shown)" if system.reverse else system.method.label
        for system in found.job.systems
    }
    heads = [
        "own contexts: a description",
        "matched contexts: prefix shown, first mentions",
        "loss's gradient at visual tokens, trained",
        "gradient: last third / first third",
    ]
    with drawing(14.2, 2.75 * len(corpora) + 1.3, paths) as figure:
        axes = figure.subplots(len(corpora), 4, squeeze=False)
        for row, corpus in enumerate(corpora):
            here = {key: s for key, s in found.systems.items() if s.corpus.label == corpus}
            for column, context in enumerate(CONTEXTS):
                panel = axes[row, column]
                for key, system in here.items():
                    _line(panel, found, [(n, i) for n, i, _ in found.curve(key, context)], styles[system.method.key])
                panel.axhline(0, color="#333333", linewidth=0.8)
                panel.set_ylabel("nats that the image adds")
            _gradients(axes[row, 2], found, here, styles)
            _ratios(axes[row, 3], found, here, styles)
            for column, panel in enumerate(axes[row]):
                panel.set_title(f"{corpus}, {heads[column]}" if column == 0 else heads[column])
                if column < 3:
                    panel.set_xlim(0, 1)
                if row == len(corpora) - 1:
                    panel.set_xlabel("relative position in the caption" if column < 3 else "share of the training done")
        headline(
            figure,
            f"What the image tells about a token, by its position: {found.job.backbone}, scale {found.job.scale_label}",
            "\n".join(said for said in (_verdicts(found), _BLIND) if said),
        )
        handles = [line_handle(styles[key], labels[key]) for key in styles]
        figure.legend(handles=handles, loc="outside lower left", ncols=len(handles))


def _line(panel: Axes, found: Positions, points: Sequence[tuple[int, Interval]], style: tuple[str, str]) -> None:
    """Means by bin with their band."""
    colour, marker = style
    places = [(number + 0.5) / found.job.bins for number, _ in points]
    panel.fill_between(places, [i.low for _, i in points], [i.high for _, i in points], color=colour, alpha=0.16, lw=0)
    panel.plot(places, [i.value for _, i in points], color=colour, marker=marker, markersize=4.2, linewidth=1.4)


def _gradients(panel: Axes, found: Positions, here: dict[str, PositionSystem], styles: Style) -> None:
    for key, system in here.items():
        signal = found.signal(key)
        last = max(step for step, _, _, _ in signal)
        _line(panel, found, [(n, i) for step, n, i, _ in signal if step == last], styles[system.method.key])
    panel.set_yscale("log")
    panel.set_ylabel("norm, log scale")


def _ratios(panel: Axes, found: Positions, here: dict[str, PositionSystem], styles: Style) -> None:
    for key, system in here.items():
        ratios = found.signal_ratio(key)
        colour, marker = styles[system.method.key]
        done = [share for share, _ in ratios]
        low, high = ([float(np.exp(getattr(i, end))) for _, i in ratios] for end in ("low", "high"))
        panel.fill_between(done, low, high, color=colour, alpha=0.16, lw=0)
        value = [float(np.exp(i.value)) for _, i in ratios]
        panel.plot(done, value, color=colour, marker=marker, markersize=4.2, linewidth=1.4)
    panel.axhline(1, color="#333333", linewidth=0.8)
    panel.set_yscale("log")
    panel.set_ylabel("ratio of norms")


def _verdicts(found: Positions) -> str:
    """The claims in a line each: how much less a method falls than the reference in matched contexts."""
    said = []
    for key, reference, interval, decision in found.claims():
        system, other = found.systems[key], found.systems[reference]
        shown = f"{interval.value:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}] nats".replace("-", "−")
        said.append(
            f"{system.corpus.label}, {system.method.label} falls less from the first to the last third than "
            f"{other.method.label}: {shown}, {words.verdict(decision, 'nats')}"
        )
    return "\n".join(said)
