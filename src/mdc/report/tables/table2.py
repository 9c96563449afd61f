"""Table 2, compositionality: how often a model's score prefers the right caption, with mismatched-image and no-image controls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.kinds.choice_sources import mean_over
from mdc.plan.config.references import BackboneName, ChoicesNames, Methods
from mdc.plan.config.score import OpenClipModel
from mdc.plan.config.score_tables import OfScores
from mdc.plan.config.types import Name, Strict, equal_labels
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.jobs.shown import ArtefactJob, Labelled, ShownColumn, System
from mdc.report.csv_file import names, write_csv
from mdc.report.tables.table import Cell, Column, Row, Table, estimate_cell

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context
    from mdc.report.frame import Cells
    from mdc.report.manifests import Manifests
    from mdc.report.scores import Choices

SHOWN = {
    "artefacts": {"table2": {"title": "Table 2: compositionality"}},
    "files": ".csv _long.csv _contrasts.csv _kept.csv _errors.csv _runs.csv .html .md .tex",
    "caption": "How often the right caption scores higher than wrong ones at scale {scale}, in per cent, of every model and "
    "estimator, beside the same model with mismatched images, with no image, and beside the rule that the shorter caption wins.",
    "config": "Block",
}

_KEPT_LINE = names("scale artefact system dataset backbone method column label unit kept")
_ERROR_LINE = names(
    "scale artefact system dataset backbone method estimator weights shown captions unit score error tokens bits_per_token"
)


class ChoiceColumn(Strict):
    """A column of Table 2: ``sets`` of data.choices, averaged as their benchmark does
    (:class:`mdc.plan.config.kinds.choice_sources.Parts`). ``ties``: a tie among k best options counts 1/k (shared), or as by an
    argmax if the right option comes first (right) or last (wrong); the average leaves out columns of the latter two.

    ``score``: Winoground's, for sets whose items have two images and two captions: whether each image's own caption scores higher
    (text), each caption's own image (image), or both (group). The average leaves out such a column too, and ties do not count.
    """

    label: str
    sets: ChoicesNames
    ties: Literal["shared", "right", "wrong"] = "shared"
    score: Literal["text", "image", "group"] | None = None

    @model_validator(mode="after")
    def _no_ties(self) -> Self:
        if self.score is not None and self.ties != "shared":
            raise ValueError(f"ties = {self.ties}: goes with no score of pairs, in which an equal score is not higher")
        return self


class Block(OfScores):
    """Table 2: compositionality. ``open_clip``: external models as rows. ``language_prior_weights``: the candidates for the
    weight α of the mismatched-image score that is subtracted, chosen on held-out pairs. ``also``: runs on other backbones as
    rows, {backbone: {corpus: methods}}; comparisons are on ``backbones``."""

    also: dict[BackboneName, Methods] = Field(default_factory=dict)
    columns: Annotated[dict[Name, ChoiceColumn], Field(min_length=1)]
    open_clip: dict[Name, OpenClipModel] = Field(default_factory=dict)
    language_prior_weights: Annotated[list[Annotated[float, Field(ge=0, le=2)]], Field(min_length=2)]

    @property
    def trained(self) -> dict[str, dict[str, list[str]]]:
        return super().trained | self.also

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        for name in (name for name in self.also if name in self.backbones):
            yield f"{where}.also: {name} is already in backbones"
        yield from self._columns_of_pairs(params, where)
        yield from super().misfits(params, where)
        yield from equal_labels(f"{where}.columns", {key: column.label for key, column in self.columns.items()})

    def _columns_of_pairs(self, params: Any, where: str) -> Iterator[str]:
        """Winoground's scores need sets whose items have two images, and another column for the average."""
        scored = {key: column for key, column in self.columns.items() if column.score is not None}
        for key, column in scored.items():
            for name in column.sets:
                source = params.data.choices[name].source
                if not source.paired:
                    said = f"items of two images and two captions, and data.choices.{name} is of the kind {source.kind}"
                    yield f"{where}.columns.{key}.score = {column.score}: needs {said}"
        if len(scored) == len(self.columns):
            yield f"{where}.columns: all have a score of pairs, of which there is no average; name another column too"

    @property
    def sets(self) -> list[str]:
        """The choice sets of all columns, each once."""
        return list(dict.fromkeys(name for column in self.columns.values() for name in column.sets))


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """The values of Table 2's job, and the jobs that it is made from (``jobs``)."""
    from mdc.plan.jobs import score_jobs, score_plans

    retrieval = plan.scale.tables.get("table_retrieval")
    sets = plan.scale.data.choices
    jobs: dict[str, Any] = {}
    shown: list[System] = []
    for weights, runs in product(block.weights, score_plans.runs_of_rows(plan, block)):
        scores = [score_jobs.choices(plan, run, weights) for run in runs]
        held_out = [score_jobs.retrieval(plan, run, weights) for run in runs] if retrieval is not None else []
        jobs |= {job.job: job for job in (*scores, *held_out)}
        records, pairs = [job.job for job in scores], [job.job for job in held_out]
        for estimator in score_jobs.estimators(plan, runs[0]):
            shown += score_plans.rows_of(plan, runs, estimator, weights, records, pairs)
    for key, model in block.open_clip.items():
        job = score_jobs.choices_open_clip(plan, key)
        jobs[job.job] = job
        shown += _open_clip_rows(plan, key, model.label, job.job)
    # a set with two columns counts once in the average
    apart = [key for key, column in block.columns.items() if column.score is not None or column.ties != "shared"]
    averaged = [key for key in block.columns if key not in apart]
    return {"jobs": jobs, **score_plans.common_values(plan, block, [*shown, _shorter(shown[0])])} | {
        "columns": [
            ShownColumn(
                key=key,
                label=column.label,
                more={
                    **column.model_dump(exclude={"label"}, context="complete"),
                    **mean_over([sets[name].source for name in column.sets]).complete(),
                },
            )
            for key, column in block.columns.items()
        ],
        "reported_separately": apart,
        "primary_metric": "average" if len(averaged) > 1 else [*averaged, *apart][0],
        "language_prior_weights": block.language_prior_weights,
        "others": plan.scale.score.mismatched if plan.scale.score else 1,
        "sets": [{"key": name, "label": sets[name].label} for name in block.sets],
    }


def _open_clip_rows(plan: Context, name: str, label: str, record: str) -> list[System]:
    from mdc.plan.jobs import score_plans

    records = [record] * len(plan.scale.training.seeds)
    own = System(
        key=f"open_clip/{name}",
        corpus=Labelled(key="open_clip", label="data of others"),
        backbone=Labelled(key=name, label="open_clip"),
        method=Labelled(key=f"open_clip_{name}", label=label),
        runs=records,
        records=records,
        estimator="cosine",
        role="grey",
        more={"held_out": []},
        note="An external model (open_clip), trained on other data; it is shown for reference and not ranked.",
    )
    return list(score_plans.variants(own, held_out=False))


def _shorter(first: System) -> System:
    """The row in which the caption with fewer BPE tokens wins. It uses a record's captions, but no score."""
    none = Labelled(key="none", label="none")
    method = Labelled(key="shorter", label="fewer BPE tokens")
    labels = {"key": "shorter", "corpus": none, "backbone": none, "method": method}
    once = [first.records[0]] * len(first.records)
    more = {"held_out": [], "per_token": False, "shown": "shorter"}
    return first.but(**labels, records=once, control=None, role="reference", more=more)


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the table's files into ``out``.

    UserError names the record that is missing, stale, of another scale, or does not match its scores.
    """
    from mdc.report.frame import ESTIMATE
    from mdc.report.scores import Choices
    from mdc.report.tables import comparisons, score_rows

    results = Choices(job, manifests)
    kept, kept_lines = _kept(results)
    shown = [*_main(results), _mismatched(results), *comparisons.gains(results), *comparisons.tables(results)]
    score_rows.write(results, [*shown, *kept], out)
    write_csv(out / "table2_kept.csv", kept_lines, (*_KEPT_LINE, *ESTIMATE))
    write_csv(out / "table2_errors.csv", list(_errors(results)), _ERROR_LINE)


def _main(results: Choices) -> list[Table]:
    """The paper's rows and ours by sums, then by per-token means, each with the shortest-caption rule and chance."""
    from mdc.report.tables import comparisons, score_rows

    job = results.job
    every = [system for system in job.systems if system.more["shown"] == "own"]
    shorter = [system for system in job.systems if system.more["shown"] == "shorter"]
    tables: list[Table] = []
    for weights in dict.fromkeys(system.weights for system in job.systems if system.weights is not None):
        for per_token in (False, True):
            of_kind = [s for s in every if s.weights in (weights, None)]
            own = [s for s in of_kind if s.more["per_token"] == per_token or not ESTIMATORS[s.estimator].nats]
            below = [*comparisons.rows(results, shorter, "control"), *comparisons.levels(results)]
            what = "per-token means" if per_token else "sums over a caption's tokens"
            notes = (
                "Best in bold, second best underlined (after rounding).",
                score_rows.estimator_notes(job.more["samples"]),
                *_set_notes(results),
                *results.notes(),
            )
            tables.append(
                comparisons.level_table(
                    results,
                    f"Table 2. Compositionality, {what}{_WEIGHTS[weights]}",
                    (
                        "Per cent of items whose right caption scores highest; a tie among k counts 1/k.",
                        results.level_words,
                    ),
                    [*comparisons.rows(results, own, ""), *below],
                    ("Notes: those of the first table.",) if tables else notes,
                )
            )
    return tables


_WEIGHTS = {"last": "", "best": ", best validation checkpoint"}


def _mismatched(results: Choices) -> Table:
    """Every model beside its mismatched-image and no-image controls, and with the language prior subtracted."""
    from mdc.report.tables import comparisons, score_rows

    job = results.job
    grouped: dict[object, list[System]] = {}
    for s in job.systems:
        if s.more["shown"] != "shorter":
            grouped.setdefault((*s.runs, s.weights, s.estimator, s.more["per_token"]), []).append(s)
    blocks = enumerate(grouped.values())
    images = f"{job.more['others']} mismatched image{'s' if job.more['others'] > 1 else ''}"
    return comparisons.level_table(
        results,
        "What language alone can do",
        ("Each model, followed by its mismatched-image controls.", results.level_words),
        [row for number, systems in blocks for row in comparisons.rows(results, systems, f"{number}")],
        (
            f"Mismatched images: the log of the mean probability under {images}, the same for every option and model (of "
            "cosines, their mean). No image: one of the mean colour.",
            "own − α mismatched: a score minus α times its mismatched-image control. α is chosen on held-out pairs of the "
            f"training corpus, with {images} too; {score_rows.alpha_notes(results)}.",
        ),
    )


# --- with and without items with equal options or unseen tokens ---------------------------------------------------------


def _kept(results: Choices) -> tuple[list[Table], list[Cells]]:
    """Columns with such items, with and without them; all columns as csv lines."""
    from mdc.report.frame import job_cells
    from mdc.report.scores import KEPT, Choices
    from mdc.report.tables import comparisons

    job = results.job
    own = [s for s in job.systems if s.more["shown"] == "own" and not s.more["per_token"]]
    alone: dict[str, Any] = {
        "systems": [s.model_copy(update={"control": None}) for s in own],
        "contrasts": [],
        "primary": [],
    }
    left = {(kept, s.key, c.key): _left(results, s, c, kept) for kept in KEPT for s in own for c in job.columns}
    lines: list[Cells] = []
    parts = {"all": results}
    cells: dict[str, list[Cell]] = {system.key: [] for system in own}
    heads: list[Column] = []
    for kept in KEPT:
        # an interval needs items of at least two images in every seed
        wanted = [
            c
            for c in job.columns
            if any(left[kept, s.key, c.key][0] != left["all", s.key, c.key][0] for s in own)
            and all(left[kept, s.key, c.key][1] for s in own)
        ]
        if kept == "all":
            wanted = job.columns
        elif wanted:
            update = {**alone, "columns": wanted, "primary_metric": wanted[0].key}
            update["reported_separately"] = [c.key for c in wanted if c.key in job.reported_separately]
            part = job.model_copy(update=update)
            parts[kept] = Choices(part, results.manifests, kept, results.store)
        numbers = [parts[kept].number(s.key, c.key) for c in wanted for s in own]
        lines += [{**job_cells(job), **number.cells(), "kept": kept} for number in numbers]
        for column in wanted if kept != "all" else ():
            for which in ("all", kept):
                counts = [left[which, s.key, column.key][0] for s in own]
                most = max(set(counts), key=counts.count)
                name = f"{column.label}, all, {kept}" if which == "all" else f"{column.label}, {kept}"
                heads.append(Column(KEPT[which], column.label, f"{most} items", name))
                for system, count in zip(own, counts, strict=True):
                    note = "" if count == most else f"{count} items"
                    cells[system.key].append(estimate_cell(parts[which].number(system.key, column.key).estimate, note))
    table = Table(
        title=f"With and without items that cannot be answered, {results.scale_text}",
        caption=(
            "Equal options: a perturbation that changed nothing, so that no model can tell it from the right caption. Unseen "
            "tokens: BPE tokens that no training caption had. Each column with all its items, and without those. A row of which "
            "another number of items is left, because it was trained on other captions or on captions that are not known here, "
            "says how many.",
        ),
        labels=("Dataset", "Backbone", "Method"),
        columns=tuple(heads),
        rows=tuple(Row(comparisons.names(system), tuple(cells[system.key])) for system in own),
    )
    return [table] if heads else [], lines


def _left(results: Choices, system: System, column: ShownColumn, kept: str) -> tuple[int, bool]:
    """How many items of a column count for a system, and whether they have at least two images in every seed."""
    seeds = [results.chosen(system, seed, column, kept) for seed in range(len(system.records))]
    images = [{scored_set.images[n] for _, scored_set, numbers in chosen for n in numbers} for chosen in seeds]
    samples = sum(len(numbers) for _, _, numbers in seeds[0])
    return samples // (2 if column.more["score"] else 1), min(map(len, images)) > 1


_PAIRS = (
    "Text, image and group: of two images and two captions of the same words. Text: each image's own caption scores higher than "
    "the other; image: each caption scores higher with its own image; group: both. Strictly, as published (chance 25, 25 and "
    "16.7); a captioner that ignores its image gets text 0 by construction, and so does any row without the images."
)
_MEANS = "A column of several sets, or of a set's groups, is the plain mean of theirs."


def _set_notes(results: Choices) -> list[str]:
    """Of each set its items, those that are a tie, and those that were left out; then notes on kinds of columns."""
    notes, records = [], [results.first(system)["sets"] for system in results.job.systems]
    for one_set in results.job.more["sets"]:
        label = one_set["label"]
        entries = [record[one_set["key"]] for record in records if one_set["key"] in record]
        same, skipped = entries[0]["same_as_answer"].get("any", 0), sum(entries[0]["skipped"].values())
        too_long = " or ".join(str(count) for count in sorted({entry["too_long"] for entry in entries}))
        notes.append(
            f"{label}: {entries[0]['items']} items, of {same} a wrong option equals the right one, a tie by definition. "
            f"Left out: {skipped} when the set was made, {too_long} that are longer than a row's context."
        )
    return [*notes, _PAIRS, _MEANS]


# --- standard errors ----------------------------------------------------------------------------------------------------


def _errors(results: Choices) -> Iterator[Cells]:
    """Csv lines of the right captions, all columns and seeds together, in nats per caption: of every row of sums, controls only
    where masks are drawn.

    ``error``: the root mean square of a score's standard error. ``bits_per_token``: of a log likelihood or its bound.
    """
    import numpy as np

    from mdc.report.frame import job_cells, system_cells
    from mdc.report.scores import shown_errors, shown_scores

    for system in results.job.systems:
        shown = system.more["shown"]
        mismatched = shown != "own"
        if system.more["per_token"] or shown == "shorter" or (mismatched and not ESTIMATORS[system.estimator].sampled):
            continue
        parts = [
            (shown_scores(system, s, alpha)[:, 0], shown_errors(system, s, alpha)[:, 0], s.pieces[:, 0] + 1)
            for record, alpha in zip(system.records, results.alpha[system.key], strict=True)
            for s in results.store.scores(record).values()
        ]
        score, error, tokens = map(np.concatenate, zip(*parts, strict=True))
        likelihood = not mismatched and system.estimator in ("likelihood", "monte_carlo", "parallel")
        yield {
            **job_cells(results.job),
            **system_cells(system),
            "weights": system.weights or "",
            "shown": shown,
            "captions": len(score),
            "unit": "nats" if ESTIMATORS[system.estimator].nats else "cosine",
            "score": float(score.mean()),
            "error": float(np.sqrt((error**2).mean())),
            "tokens": float(tokens.mean()),
            "bits_per_token": float(-score.sum() / tokens.sum() / math.log(2)) if likelihood else None,
        }
