"""What Table 2 and the retrieval table share: rows of systems by columns, and the files they are written to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mdc.plan.estimators import ESTIMATORS
from mdc.plan.jobs.shown import ScoredSystem
from mdc.plan.records import write_text
from mdc.report import words
from mdc.report.lines import Contrast, Number, tidy
from mdc.report.scores import Choices, Retrieval
from mdc.report.tables import comparisons
from mdc.report.tables.render import write_csv, write_html, write_latex, write_markdown
from mdc.report.tables.table import Cell, Row, Table, mark_rows

#: what stands in the column ``control`` of the csv files
CONTROLS = {"own": "none"}


def rows(found: Choices | Retrieval, systems: Sequence[ScoredSystem], block: str = "") -> list[Row]:
    """A row a system with its levels, best and second best marked."""
    numbers = {(n.system.key, n.benchmark): n for n in found.numbers()}
    lines = []
    for system in systems:
        cells = []
        for measure in found.measures:
            number = numbers[system.key, found.name(measure)]
            note = "" if number.published is None else f"paper {number.published:.1f}"
            cells.append(Cell(number.value, number.low, number.high, note=note))
        lines.append(Row(comparisons.names(system), tuple(cells), block, reference=system.reference))
    return mark_rows(lines, [system.ranked for system in systems])


def chance(found: Choices | Retrieval) -> Row:
    """The row of guessing."""
    cells = tuple(Cell(found.chance[measure]) for measure in found.measures)
    return Row(("any", "any", "chance"), cells, "chance", reference=True)


def ceiling(found: Choices) -> Row:
    """The row of a perfect scorer, which cannot tell apart options that are the same."""
    cells = tuple(Cell(found.ceiling[measure]) for measure in found.measures)
    return Row(("any", "any", "perfect scorer"), cells, "chance", reference=True)


def table(
    found: Choices | Retrieval, title: str, caption: Sequence[str], body: Sequence[Row], notes: Sequence[str]
) -> Table:
    """A table of levels in per cent."""
    ends = [end for row in body for cell in row.cells for end in (cell.low, cell.high) if end is not None]
    if any(not 0 <= end <= 100 for end in ends):
        notes = [
            *notes,
            "An interval by t over seeds is symmetric about its value, so it may pass 0 or 100; it is shown as it is.",
        ]
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
        labels=("Dataset", "Backbone", "Method", "Estimator", "Weights", "Per", "Control"),
        columns=shown[0].columns,
        rows=tuple(
            Row((*row.labels, *_told(system)), row.cells)
            for row, system in zip(rows(found, systems), systems, strict=True)
        ),
    )
    write_csv(everything, out / f"{name}.csv", {"scale": words.scale_column(found.job)})
    told = [_told(number.system) for number in found.numbers() if isinstance(number.system, ScoredSystem)]
    more = {head: [one[place] for one in told] for place, head in enumerate(("weights", "per", "control"), 1)}
    if isinstance(found, Choices):
        by_name = {found.name(measure): found.ceiling[measure] for measure in found.measures}
        more["ceiling"] = [f"{by_name[number.benchmark]:.4f}" for number in found.numbers()]
    write_text(out / f"{name}_long.csv", tidy(found.numbers(), Number, **more))
    write_text(out / f"{name}_contrasts.csv", tidy(found.contrasts(), Contrast))
    write_html(shown, out / f"{name}.html")
    write_markdown(shown, out / f"{name}.md")
    write_latex(shown[0], out / f"{name}.tex")


def _told(system: ScoredSystem) -> tuple[str, str, str, str]:
    per = "token" if system.per_token else "caption"
    return system.estimator, system.weights or "", per, CONTROLS.get(system.shown, system.shown)
