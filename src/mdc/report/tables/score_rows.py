"""What Table 2 and the retrieval table share: rows of systems by columns, and the files they are written to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mdc.plan.estimators import ESTIMATORS
from mdc.plan.jobs.shown import ScoredSystem
from mdc.report import words
from mdc.report.frame import write_contrasts, write_levels
from mdc.report.scores import Choices, Retrieval
from mdc.report.tables import comparisons
from mdc.report.tables.render import write_csv, write_html, write_latex, write_markdown
from mdc.report.tables.table import Row, Table, mark_rows, number_cell


def rows(found: Choices | Retrieval, systems: Sequence[ScoredSystem], block: str = "") -> list[Row]:
    """A row a system with its levels, best and second best marked."""
    numbers = {(n.system.key, n.label): n for n in found.numbers()}
    lines = []
    for system in systems:
        cells = tuple(number_cell(numbers[system.key, found.name(measure)]) for measure in found.measures)
        lines.append(Row(comparisons.names(system), cells, block, reference=system.reference))
    return mark_rows(lines, [system.ranked for system in systems])


def table(
    found: Choices | Retrieval, title: str, caption: Sequence[str], body: Sequence[Row], notes: Sequence[str]
) -> Table:
    """A table of levels in per cent."""
    return Table(
        title=f"{title}, {found.scale_text}",
        caption=(*caption, found.interval_words(found.levels.values())),
        labels=("Dataset", "Backbone", "Method"),
        columns=comparisons.columns(found, ""),
        rows=tuple(body),
        footnotes=tuple(notes),
    )


def estimator_notes(systems: Sequence[ScoredSystem], samples: int) -> list[str]:
    """What each estimator is, a sentence each."""
    used = dict.fromkeys(system.estimator for system in systems)
    by_name: dict[str, list[str]] = {}
    for system in systems:
        if system.shown == "own" and not system.per_token and system.weights in (None, "last"):
            by_name.setdefault(system.estimator, []).append(system.method.label)
    found = []
    for name in used:
        labels = ", ".join(dict.fromkeys(by_name.get(name, [])))
        drawn = f", by {samples} masks a caption" if ESTIMATORS[name].sampled else ""
        if labels:
            found.append(f"{labels}: {ESTIMATORS[name].text}{drawn}.")
    return found


def alpha_notes(found: Choices | Retrieval) -> str:
    """How α was chosen, a clause, and which α each row of sums has, a seed each."""
    asked = ", ".join(f"{alpha:g}" for alpha in found.job.alphas)
    chosen = [
        f"{found.systems[key].method.label.partition(' · own')[0]} {' '.join(f'{one:g}' for one in alphas)}"
        for key, alphas in found.alpha.items()
        if alphas and not found.scored[key].per_token
    ]
    said = (
        f"of {asked} it is the one, a seed, estimator and unit (caption or token), by which most of the held-out images find "
        "their own caption at the first place among all held-out captions, the least of equals"
    )
    return f"{said}: {'; '.join(chosen)}" if chosen else said


def write(found: Choices | Retrieval, shown: Sequence[Table], out: Path) -> None:
    """The files that both tables have: all rows in the paper's layout and tidy, the comparisons, and the pages."""
    name, systems = found.job.artefact, list(found.job.systems)
    everything = Table(
        title=shown[0].title,
        caption=(),
        labels=("Dataset", "Backbone", "Method", "Estimator", "Weights", "Per", "Shown"),
        columns=shown[0].columns,
        rows=tuple(
            Row((*row.labels, *_told(system)), row.cells)
            for row, system in zip(rows(found, systems), systems, strict=True)
        ),
    )
    write_csv(everything, out / f"{name}.csv", {"scale": words.scale_column(found.job)})
    told = [_told(number.system) for number in found.numbers() if isinstance(number.system, ScoredSystem)]
    more = {head: [one[place] for one in told] for place, head in enumerate(("weights", "per", "shown"), 1)}
    write_levels(out / f"{name}_long.csv", found.numbers(), **more)
    write_contrasts(out / f"{name}_contrasts.csv", found.contrasts())
    write_html(shown, out / f"{name}.html")
    write_markdown(shown, out / f"{name}.md")
    write_latex(shown[0], out / f"{name}.tex")


def _told(system: ScoredSystem) -> tuple[str, str, str, str]:
    per = "token" if system.per_token else "caption"
    return system.estimator, system.weights or "", per, system.shown
