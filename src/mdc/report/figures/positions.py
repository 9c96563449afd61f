"""The position figure: what the image adds to a token's log probability, and the token's gradient at the encoder, by position."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from mdc.plan.jobs.shown import ArtefactJob
from mdc.report import words
from mdc.report.csv_file import names, write_csv
from mdc.report.figures.drawing import Axes, bottom_legend, drawing, error_bars, headline, line_handle, plain_logarithm
from mdc.report.figures.styles import method_styles
from mdc.report.frame import ESTIMATE, dataset, estimate_cells, job_cells, write_contrasts, write_runs
from mdc.report.manifests import Manifests
from mdc.report.positions import CONTEXTS, Positions
from mdc.report.statistics.estimate import Estimate, factors

SHOWN = {
    "artefacts": {"figure_position": {"title": "Figure: what the image tells, by position"}},
    "files": ".png .svg .csv _contrasts.csv _gradients.csv _kinds.csv _runs.csv",
    "caption": "What the image adds to the log probability of a caption's token at scale {scale}, by the token's relative "
    "position: in the model's own contexts, and with the tokens before it shown and all others masked; and the norm of the "
    "loss's gradient at the visual tokens, also by the kind of word where that is known.",
    "config": "score_tables.PositionFigure",
    "plan": "score_plans.positions",
}

_CURVES = (
    *names("scale artefact system dataset method context words position unit"),
    *(*ESTIMATE, "outside_trained_range"),
)
_GRADIENTS = (*names("scale artefact system dataset method step position unit"), *ESTIMATE)
_KINDS = (*names("scale artefact system dataset method step words unit"), *ESTIMATE)


_MISMATCHED = (
    "What the image adds: log p with the token's own image less log p with other images. Hollow: most tokens have contexts of "
    "more or fewer masks than in training."
)
#: heading and vertical label of each panel of a row
_PANELS = (
    ("own contexts: a description", "nats that the image adds"),
    ("matched contexts: prefix shown, first mentions", "nats that the image adds"),
    ("loss's gradient at visual tokens, trained", "norm, log scale"),
    ("gradient: last third / first third", "ratio of norms"),
)
#: a further panel where the kinds of words are known
_OF_KINDS = ("gradient by kind of word, trained", "norm / mean of all words")


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure and its csv files into ``out``; UserError names the record that is missing, stale or of another scale."""
    positions = Positions(job, manifests)
    claims = positions.claims()
    write_csv(out / "figure_position.csv", _curve_lines(positions), _CURVES)
    write_contrasts(out / "figure_position_contrasts.csv", job, [*claims, *positions.falls()])
    write_runs(out / "figure_position_runs.csv", job)
    write_csv(out / "figure_position_gradients.csv", _gradient_lines(positions), _GRADIENTS)
    write_csv(out / "figure_position_kinds.csv", _kind_lines(positions), _KINDS)
    _draw(positions, [out / "figure_position.png", out / "figure_position.svg"])


# --- lines --------------------------------------------------------------------------------------------------------------


def _line(positions: Positions, key: str, value: Estimate, **more: Any) -> dict[str, Any]:
    system = positions.systems[key]
    cells: dict[str, Any] = {
        **job_cells(positions.job),
        "system": key,
    }
    cells |= {"dataset": dataset(system), "method": system.method.label}
    return {**cells, **estimate_cells(value), **more}


def _curve_lines(positions: Positions) -> list[dict[str, Any]]:
    lines = []
    for key in positions.systems:
        for context, kind in product(CONTEXTS, (None, *positions.kinds[key])):
            untrained = positions.untrained(key, context, kind)
            labels = {"context": positions.context(key, context), "words": kind or "all", "unit": "nats"}
            for number, gain in positions.curve(key, context, kind):
                bin_cells = {"position": _place(positions, number), "outside_trained_range": untrained[number]}
                lines.append(_line(positions, key, gain, **bin_cells, **labels))
    return lines


def _gradient_lines(positions: Positions) -> list[dict[str, Any]]:
    return [
        _line(positions, key, norm, step=step, position=_place(positions, number), unit="norm of the gradient")
        for key in positions.systems
        for step, norms in positions.signal(key).items()
        for number, norm in norms
    ]


def _kind_lines(positions: Positions) -> list[dict[str, Any]]:
    return [
        _line(positions, key, strength, step=step, words=kind, unit="times the mean BPE token")
        for key in positions.systems
        for step in positions.signal(key)
        for kind, strength in positions.strengths(key, step)
    ]


def _place(positions: Positions, number: int) -> float:
    """The middle of a bin."""
    return (number + 0.5) / positions.job.more["bins"]


# --- the picture --------------------------------------------------------------------------------------------------------


def _draw(positions: Positions, paths: Sequence[Path]) -> None:
    corpora = list(dict.fromkeys(dataset(system) for system in positions.job.systems))
    styles = method_styles(system.method.key for system in positions.job.systems)
    labels = {
        system.method.key: f"{system.method.label} (control: suffix shown)"
        if system.more["reverse"]
        else system.method.label
        for system in positions.job.systems
    }
    kinds = list(dict.fromkeys(kind for known in positions.kinds.values() for kind in known))
    panels = (*_PANELS, _OF_KINDS) if kinds else _PANELS
    # a row of five is taller, or the index page's thumbnail would be a strip
    with drawing(3.55 * len(panels), (3.2 if kinds else 2.75) * len(corpora) + 1.3, paths) as figure:
        axes = figure.subplots(len(corpora), len(panels), squeeze=False)
        for row, corpus in zip(axes, corpora, strict=True):
            here = {
                key: styles[claim.method.key] for key, claim in positions.systems.items() if dataset(claim) == corpus
            }
            for key, style in here.items():
                _draw_system(row, positions, key, style)
            if kinds:
                _by_kind(row[4], positions, here, kinds)
            for panel, (heading, label) in zip(row, panels, strict=True):
                panel.set_title(f"{corpus}, {heading}" if panel is row[0] else heading)
                panel.set_ylabel(label)
            for panel in row[:3]:
                panel.set_xlim(0, 1)
            for panel, middle in ((row[0], 0), (row[1], 0), (row[3], 1)):
                panel.axhline(middle, color="#333333", linewidth=0.8)
            for panel in row[2:4]:
                panel.set_yscale("log")
                plain_logarithm(panel.yaxis)
        for panel in axes[-1][:4]:
            panel.set_xlabel(
                "share of the training done" if panel is axes[-1][3] else "relative position in the caption"
            )
        scale = f"{positions.job.systems[0].backbone.label}, scale {positions.job.scale_label}"
        headline(figure, f"What the image tells about a token, by its position: {scale}")
        handles = [line_handle(styles[key], labels[key]) for key in styles]
        bottom_legend(figure, handles, f"{_MISMATCHED} {words.bars(positions.job)}")


def _draw_system(row: Sequence[Axes], positions: Positions, key: str, style: tuple[str, str]) -> None:
    """A system in the four panels of its corpus."""
    for panel, context in zip(row[:2], CONTEXTS, strict=True):
        curve = positions.curve(key, context)
        _band(panel, [(_place(positions, number), gain) for number, gain in curve], style)
        untrained = positions.untrained(key, context)
        hollow = [(_place(positions, number), gain.value) for number, gain in curve if (untrained[number] or 0) > 0.5]
        if hollow:
            look: dict[str, Any] = {"markersize": 4.2, "markerfacecolor": "white", "markeredgecolor": style[0]}
            panel.plot(*zip(*hollow, strict=True), marker=style[1], linestyle="none", zorder=3, **look)
    signal = positions.signal(key)
    _band(row[2], [(_place(positions, number), norm) for number, norm in signal[max(signal)]], style)
    _band(row[3], [(done, factors(ratio)) for done, ratio in positions.signal_ratio(key)], style)


def _by_kind(panel: Axes, positions: Positions, looks: Mapping[str, tuple[str, str]], kinds: Sequence[str]) -> None:
    """The strength of each kind of word after training, for the systems of a corpus side by side."""
    for number, (key, style) in enumerate(looks.items()):
        beside = 0.7 * ((number + 0.5) / len(looks) - 0.5)
        for kind, strength in positions.strengths(key):
            error_bars(panel, [kinds.index(kind) + beside], [(strength.value, *strength.ends)], style, markersize=4.2)
    panel.axhline(1, color="#333333", linewidth=0.8)
    panel.set_xticks(range(len(kinds)), kinds, rotation=30)


def _band(panel: Axes, points: Sequence[tuple[float, Estimate]], style: tuple[str, str]) -> None:
    """Estimates as a line with their intervals as a band."""
    places = [place for place, _ in points]
    low, high = ([estimate.ends[end] for _, estimate in points] for end in (0, 1))
    panel.fill_between(places, low, high, color=style[0], alpha=0.16, lw=0)
    value = [estimate.value for _, estimate in points]
    panel.plot(places, value, color=style[0], marker=style[1], markersize=4.2, linewidth=1.4)
