"""Table 2, compositionality: how often a model's score prefers the right caption, and what language alone can do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mdc.plan.estimators import ESTIMATORS
from mdc.plan.jobs.shown import ChoiceTableJob, ScoredSystem, ShownColumn
from mdc.report.csv_file import names, write_csv
from mdc.report.frame import ESTIMATE, dataset, estimate_cells, records_of
from mdc.report.given import Given
from mdc.report.scores import KEPT, Choices, Store, chosen_items, shown_errors, shown_scores
from mdc.report.tables import comparisons, score_rows
from mdc.report.tables.table import Cell, Column, Row, Table

SHOWN = {
    "artefacts": {"table2": {"title": "Table 2: compositionality"}},
    "files": ".csv _long.csv _contrasts.csv _kept.csv _errors.csv .html .md .tex",
    "caption": "How often the right caption scores higher than wrong ones at scale {scale}, in per cent, of every model and "
    "estimator, beside the same model with other images, with no image, and beside the rule that the shorter caption wins.",
    "config": "tables.ChoiceTable",
    "plan": "score_plans.choices",
    "job": "shown.ChoiceTableJob",
}

_KEPT_LINE = (*names("scale artefact system dataset backbone method column label kept"), *ESTIMATE, "records")
_KEPT_WORDS = {"distinct": "without equal options", "trained": "without unseen pieces"}


def make(job: ChoiceTableJob, given: Given, out: Path) -> None:
    """Write the table's files into ``out``.

    UserError names the record that is missing, stale, of another scale, or does not match its scores.
    """
    store = Store(job, given)
    found = Choices(job, given, store=store)
    errors = list(_errors(job, store, found))
    kept, kept_lines = _kept(job, given, store, found)
    gains = comparisons.gains(found)
    shown = [
        *_main(found),
        _blind(found),
        *([gains] if gains else []),
        *comparisons.tables(found),
        *([kept] if kept else []),
        _error_table(found, errors),
    ]
    score_rows.write(found, shown, out)
    write_csv(out / "table2_kept.csv", kept_lines, _KEPT_LINE)
    lines = [{"scale": job.scale, "artefact": job.artefact, **vars(one)} for one in errors]
    write_csv(out / "table2_errors.csv", lines, ("scale", "artefact", *_Error.__dataclass_fields__))


def _main(found: Choices) -> list[Table]:
    """The paper's rows and ours by sums, then by means a token, each with the rule that shorter wins and with chance."""
    job = found.job
    shorter = [system for system in job.systems if system.shown == "shorter"]
    weights = list(dict.fromkeys(system.weights for system in job.systems if system.weights is not None))
    tables: list[Table] = []
    for kind in weights:
        for per_token in (False, True):
            own = [
                s
                for s in job.systems
                if s.shown == "own"
                and s.weights in (kind, None)
                and (s.per_token == per_token or not ESTIMATORS[s.estimator].nats)
            ]
            body = [*score_rows.rows(found, own), *score_rows.rows(found, shorter, "control")]
            body += comparisons.levels(found)
            what = "means a token" if per_token else "sums over a caption's tokens"
            of = {"last": "", "best": ", weights that were best on held-out pairs"}[kind]
            tables.append(
                score_rows.table(
                    found,
                    f"Table 2. Compositionality, {what}{of}",
                    ("Per cent of items whose right caption scores highest; a tie among k counts 1/k.",),
                    body,
                    _main_notes(found, own) if not tables else _NOTES_ABOVE,
                )
            )
    return tables


_NOTES_ABOVE = ("Notes: those of the first table.",)


def _main_notes(found: Choices, own: Sequence[ScoredSystem]) -> tuple[str, ...]:
    """What stands below the first table, and holds for those that follow."""
    every = [system for system in found.job.systems if system.shown == "own"]
    return (
        "Best in bold, second best underlined, compared as printed.",
        *score_rows.estimator_notes(every, found.job.samples),
        *_set_notes(found),
        *found.notes(found.numbers(), own),
    )


def _blind(found: Choices) -> Table:
    """Every model beside itself with other images, with none, and with its blind score taken off."""
    job = found.job
    body: list[Row] = []
    grouped: dict[tuple[str, str | None, str, bool], list[ScoredSystem]] = {}
    for system in job.systems:
        if system.shown != "shorter":
            key = (" ".join(system.runs), system.weights, system.estimator, system.per_token)
            grouped.setdefault(key, []).append(system)
    for number, systems in enumerate(grouped.values()):
        body += score_rows.rows(found, systems, f"{number}")
    images = f"{job.others} other image{'s' if job.others > 1 else ''}"
    return score_rows.table(
        found,
        "What language alone can do",
        ("Each model's own row, and below it the same model blind.",),
        body,
        (
            f"Other images: the log of the mean probability under {images} of the set, the same for every option and model (of "
            "cosines, their mean). No image: one of the mean colour.",
            "own − α other images: a score less α times its blind score. α is chosen on held-out pairs of the training corpus, "
            f"with {images} too; {score_rows.alpha_notes(found)}.",
        ),
    )


# --- with and without the items that no model can answer, or that this vocabulary cannot --------------------------------


def _kept(
    job: ChoiceTableJob, given: Given, store: Store, found: Choices
) -> tuple[Table | None, list[dict[str, object]]]:
    """Columns of which some items do not count, with and without them; all columns as csv lines."""
    own = [s for s in job.systems if s.shown == "own" and not s.per_token]
    narrow = job.model_copy(
        update={
            "systems": [s.model_copy(update={"control": None}) for s in own],
            "contrasts": [],
            "primary": [],
        }
    )
    left = {kept: {(s.key, c.key): _left(store, s, c, kept) for s in own for c in job.columns} for kept in KEPT}
    lines: list[dict[str, object]] = []
    cells: dict[str, list[Cell]] = {system.key: [] for system in own}
    heads: list[Column] = []
    for kept in KEPT:
        wanted = [
            c
            for c in job.columns
            if kept == "all"
            or (
                any(left[kept][s.key, c.key] != left["all"][s.key, c.key] for s in own)
                and all(_several(store, s, c, kept) for s in own)
            )
        ]
        if not wanted:
            continue
        part = found if kept == "all" else Choices(narrow.model_copy(update={"columns": wanted}), given, kept, store)
        for column in wanted:
            for system in own:
                level = part.levels[system.key, column.key]
                lines.append(
                    {
                        "scale": job.scale,
                        "artefact": job.artefact,
                        "system": system.key,
                        "dataset": dataset(system),
                        "backbone": system.backbone.label,
                        "method": system.method.label,
                        "column": column.key,
                        "label": column.label,
                        "kept": kept,
                        **estimate_cells(level),
                        "records": records_of(system),
                    }
                )
        if kept == "all":
            continue
        for column in wanted:
            for one, source, said in (("all", found, "all"), (kept, part, _KEPT_WORDS[kept])):
                counts = [left[one][system.key, column.key] for system in own]
                most = max(set(counts), key=counts.count)
                name = f"{column.label}, all, {kept}" if one == "all" else f"{column.label}, {kept}"
                heads.append(Column(said, column.label, f"{most} items", name))
                for system, count in zip(own, counts, strict=True):
                    level = source.levels[system.key, column.key]
                    note = "" if count == most else f"{count} items"
                    cells[system.key].append(Cell(level.value, level.low, level.high, note=note))
    if not heads:
        return None, lines
    table = Table(
        title=f"With and without items that cannot be answered, {found.scale_text}",
        caption=(
            "Equal options: a perturbation that changed nothing, so that no model can tell it from the right caption. Unseen "
            "pieces: word pieces that no training caption had. Each column with all its items, and without those. A row of which "
            "another number of items is left, because it was trained on other captions or on captions that are not known here, "
            "says how many.",
        ),
        labels=("Dataset", "Backbone", "Method"),
        columns=tuple(heads),
        rows=tuple(Row(comparisons.names(system), tuple(cells[system.key])) for system in own),
    )
    return table, lines


def _several(store: Store, system: ScoredSystem, column: ShownColumn, kept: str) -> bool:
    """Whether items of two images or more are left in every seed, which an interval needs."""
    seeds = range(len(system.records))
    chosen = [chosen_items(store, system, seed, column, kept) for seed in seeds]
    return all(len({one.images[n] for _, one, numbers in found for n in numbers}) > 1 for found in chosen)


def _left(store: Store, system: ScoredSystem, column: ShownColumn, kept: str) -> int:
    """How many items of a column count for a system."""
    return sum(len(numbers) for _, _, numbers in chosen_items(store, system, 0, column, kept))


def _too_long(found: Choices, name: str) -> list[str]:
    """How many items of a set were left out of which rows, since they are longer than the model's context."""
    rows: dict[int, list[str]] = {}
    for system in found.job.systems:
        told = found.store.record(system.records[0])["sets"].get(name)
        label = f"{system.corpus.label}, {system.method.label}" if system.corpus else system.method.label
        if told is not None and label not in rows.setdefault(told["too_long"], []):
            rows[told["too_long"]].append(label)
    return [
        f"{count} items left out{'' if len(rows) == 1 else f' of {_and(labels)}'}, longer than the context"
        for count, labels in rows.items()
        if count
    ]


def _and(labels: list[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def _set_notes(found: Choices) -> list[str]:
    """How the sets were made, and what was left out or counted."""
    job, record = found.job, found.store.record(found.job.systems[0].records[0])
    labels = {one.key: one.label for one in job.sets}
    notes = []
    for name, told in record["sets"].items():
        said = []
        if "tagger" in told:
            said.append("parts of speech by " + " ".join(str(value) for value in told["tagger"].values()))
        if "perturbed" in told:
            said.append(
                "perturbed captions: " + ", ".join(f"{count} {what}" for what, count in told["perturbed"].items())
            )
        same = told["same_as_answer"].get("any", 0)
        if same:
            share = 100 * same / told["items"]
            said.append(f"{same} items ({share:.1f} %) have a wrong option equal to the right one, a tie by definition")
        said += _too_long(found, name)
        skipped = sum(told["skipped"].values())
        if skipped:
            said.append(f"{skipped} items left out when the set was made")
        if said:
            notes.append(f"{labels[name]}: {'; '.join(said)}.")
    for column in job.columns:
        if column.parts == "groups":
            notes.append(f"{column.label}: the plain mean over its groups with {column.least} items or more.")
        elif len(column.sets) > 1:
            notes.append(f"{column.label}: the plain mean of {', '.join(labels[one] for one in column.sets)}.")
    return notes


# --- standard errors ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Error:
    """Of the right captions, all columns and seeds together, in nats per caption: with their own images, or as ``shown`` says.

    ``error``: the root mean square of a score's standard error. ``bits_per_token``: of a log likelihood or its bound.
    """

    system: str
    dataset: str
    backbone: str
    method: str
    estimator: str
    weights: str
    shown: str
    captions: int
    score: float
    error: float
    tokens: float
    bits_per_token: float | None
    records: str


def _errors(job: ChoiceTableJob, store: Store, choices: Choices) -> Iterator[_Error]:
    """Of every row of sums; of those that are blind only where masks are drawn, because no other has an error."""
    for system in job.systems:
        blind = system.shown != "own"
        if system.per_token or system.shown == "shorter" or (blind and not ESTIMATORS[system.estimator].sampled):
            continue
        scores, errors, tokens = [], [], []
        alphas: Sequence[float | None] = choices.alpha[system.key] or [None] * len(system.records)
        for record, alpha in zip(system.records, alphas, strict=True):
            for one in store.scores(record).values():
                scores.append(shown_scores(system, one, alpha)[:, 0])
                errors.append(shown_errors(system, one, alpha)[:, 0])
                tokens.append(one.pieces[:, 0] + 1)
        score, error, count = (np.concatenate(part) for part in (scores, errors, tokens))
        likelihood = not blind and system.estimator in ("likelihood", "monte_carlo", "parallel")
        yield _Error(
            system=system.key,
            dataset=dataset(system),
            backbone=system.backbone.label,
            method=system.method.label,
            estimator=system.estimator,
            weights=system.weights or "",
            shown=system.shown,
            captions=len(score),
            score=float(score.mean()),
            error=float(np.sqrt((error**2).mean())),
            tokens=float(count.mean()),
            bits_per_token=float(-score.sum() / count.sum() / math.log(2)) if likelihood else None,
            records=records_of(system),
        )


def _error_table(found: Choices, errors: Sequence[_Error]) -> Table:
    rows = []
    for one in errors:
        nats = ESTIMATORS[one.estimator].nats
        cells = (
            Cell(one.score),
            Cell(one.error) if ESTIMATORS[one.estimator].sampled else Cell(None),
            Cell(one.tokens if nats else None),
            Cell(one.bits_per_token),
        )
        rows.append(Row((one.dataset, one.backbone, one.method, ESTIMATORS[one.estimator].text), cells))
    return Table(
        title=f"Scores and their standard errors, {found.scale_text}",
        caption=(
            "Means over the right captions with their own images, and of what is drawn also without. Estimators that draw take "
            f"{found.job.samples} masks a caption; the standard error is of one score, and the root of its mean square over "
            "captions is shown. Bits a token are of the bound where the score is the bound, else of the likelihood itself.",
        ),
        labels=("Dataset", "Backbone", "Method", "Score"),
        columns=(
            Column("mean", "Score", "nats, or cosine"),
            Column("standard error", "Score", "nats"),
            Column("tokens", "", "a caption"),
            Column("bits", "", "a token"),
        ),
        rows=tuple(rows),
        decimals=2,
    )
