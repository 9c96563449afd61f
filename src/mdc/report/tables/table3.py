"""Table 3, captioning, and other tables of captions: compared with references, images, and the truth where it is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mdc.plan.config.captions import Captions, Claimed, OfCaptions
from mdc.plan.config.types import Claims, Name, Names, Pairs, Side, unknown, within
from mdc.plan.estimators import CLIP_COUNTS
from mdc.plan.jobs.shown import ArtefactJob, ShownColumn, System
from mdc.report.csv_file import write_csv
from mdc.report.tables.table import REFERENCE, Cell, Column, Row, Table, mark_rows, number_cell

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context
    from mdc.report.caption_numbers import Captioned
    from mdc.report.frame import Number
    from mdc.report.judged import Judged
    from mdc.report.manifests import Manifests

SHOWN = {
    "kind": "captions",
    "artefacts": {
        "table3": {
            "title": "Table 3: captioning",
            "caption": "Captions at scale {scale} compared with references, by the metrics of the COCO caption challenge and by "
            "a CLIP; what of them is true where that is known; their length, variety and content words; beside the most "
            "frequent training caption and the same captioner on mismatched images.",
        },
        "table_decoding": {
            "title": "Ways of decoding",
            "what": "Captions that one MDC run writes in several ways, from all words at once to one word at a time",
        },
    },
    "files": ".csv _long.csv _contrasts.csv _sets.csv _runs.csv .html .md .tex",
    "what": "Captions",
    "caption": "{what} at scale {scale}, compared with references by the metrics of the COCO caption challenge, and by "
    "a CLIP; what of the captions is true, where it is known.",
    "config": "Block",
}

_OTHERS_NOTE = (
    "Rows without numbers are in the paper's table; theirs are not in its public text, and are of other images."
)
_LENGTH = (
    "Length: number of tokens that a caption must have; free: MDC predicts its end; –: until the first end-of-text; best of "
    "several: MDC writes one of each length, and keeps the one with the highest length-normalised log probability.",
    "ARC is not told how long its caption is to be, and an MDC row with a number is, so metrics that reward the right length "
    "are not comparable between them (the paper's footnote); rows of ARC that are forced to a length are.",
)


_ONE_DATASET = within("datasets, whose images differ")


class Block(OfCaptions):
    """A table of some ``systems`` on some ``datasets`` of the scale's captions.

    ``contrasts`` and ``primary``: pairs of systems, as dataset/system, the first minus the second, all of their metrics and
    ``primary_metric`` alone. ``select_on``: the dataset on which the best system is chosen by the primary metric; the table's
    notes name it. ``first_seed``: only the first seed is shown. ``without_numbers``: rows of the paper's table that are not run.
    """

    datasets: Names
    systems: Names
    primary_metric: Claimed = "CIDEr"
    contrasts: Annotated[Pairs[Side], _ONE_DATASET] = Field(default_factory=list)
    primary: Annotated[Claims[Side], _ONE_DATASET] = Field(default_factory=list)
    select_on: Name | None = None
    first_seed: bool = False
    without_numbers: list[str] = Field(default_factory=list)

    @property
    def one_seed(self) -> bool:
        return self.first_seed

    def shown(self, captions: Captions) -> Iterator[tuple[str, str]]:
        keys = captions.members(self.systems)
        yield from product(self.datasets, keys)
        if self.select_on is not None:
            yield from ((self.select_on, key) for key in keys if captions.is_own(key))

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        yield from super().misfits(params, where)
        chosen = [self.select_on] if self.select_on is not None else []
        yield from unknown(f"{where}.select_on", chosen, params.captions.datasets, "dataset (captions.datasets)")
        for key, pairs in (("contrasts", self.contrasts), ("primary", self.primary)):
            yield from self.strangers(params.captions, f"{where}.{key}", chain(*pairs))


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """The values of the table's job, and the jobs that it is made from (``jobs``)."""
    from mdc.plan.jobs import caption_rows
    from mdc.plan.jobs.caption_jobs import captions_of

    section = captions_of(plan)
    seeds = plan.scale.training.seeds[:1] if block.first_seed else plan.scale.training.seeds
    pairs = block.primary_metric, block.contrasts, block.primary
    values = caption_rows.table_values(plan, block, block.datasets, seeds, *pairs)
    if block.without_numbers:
        values["without_numbers"] = block.without_numbers
    if block.select_on is None:
        return values
    here = block.rows_on(section, block.select_on)
    measured = caption_rows.Measured(plan, block.select_on, seeds)
    systems = {key: measured.records(key, values["jobs"]) for key in section.members(block.systems) if key in here}
    return {**values, "choose": {"label": section.datasets[block.select_on].label, "systems": systems}}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the table's files into ``out``.

    UserError names the record that is missing, stale, of another scale, or does not match its captions.
    """
    from mdc.report.caption_numbers import Captioned

    write(Captioned(job, manifests), out)


def write(results: Captioned, out: Path, more: Sequence[Table] = ()) -> None:
    """Write the files of a table of captions; ``more``: tables of its own that its page shows before the comparisons."""
    from mdc.report import words
    from mdc.report.judged import judged
    from mdc.report.tables import comparisons
    from mdc.report.tables.caption_sets import SETS, models, set_lines, variety

    job, manifests = results.job, results.manifests
    parts, heading = results.parts_of, words.heading(job)
    choices = [judged(job, manifests, contest) for contest in job.more["contests"]]
    votes = [vote for choice in choices for vote in _votes(results, choice)]
    every = [*results.numbers, *votes]
    contests = {vote.label: vote.label for vote in votes}
    known = results.columns
    available = {part: {k: label for k, label in own.items() if k in known} for part, own in parts.items()}
    others = job.more.get("without_numbers", ())
    main = _table(results, every, heading, parts["paper"] | contests, _main_notes(results), others)
    numbers, truth = results.numbers, available["truth"]
    by_kind = {key: label for key, label in truth.items() if key.startswith(("precision_", "recall_"))}
    of_all = {key: label for key, label in truth.items() if key not in by_kind}
    shown = [
        main,
        _table(results, numbers, "More metrics", available["more"], _more_notes(results)),
        *([_table(results, numbers, "True statements", of_all, _TRUTH_NOTES)] if of_all else []),
        *([_table(results, numbers, "True statements by kind", by_kind, ())] if by_kind else []),
        _table(results, numbers, "Length and description", available["words"], _WORD_NOTES, marked=False),
        *_objects(job, manifests, results),
        *([_contests(results, choices)] if choices else []),
        variety(results),
        models(results),
        *more,
        *comparisons.tables(results, [key for key in (*available["paper"], "precision", "recall") if key in known]),
    ]
    columns = {key: label for key, label in results.all_columns.items() if key in parts["paper"] or key in known}
    everything = _table(results, every, heading, columns | contests, (), others)
    comparisons.write(results, shown, out, everything, every, **_more([number.system for number in every]))
    head = ["scale", "artefact", "system", "dataset", "method", "seed", *SETS, "record"]
    write_csv(out / f"{job.artefact}_sets.csv", list(set_lines(results)), head)


def _more(systems: Sequence[System]) -> dict[str, list[str]]:
    """The further columns of the csv file of levels: ``length`` is a number of tokens, any other rule a part of ``decoding``."""
    cells = [(system.more["length"], system.more["decoding"]) for system in systems]
    rules = [length if length not in decoding and not length.isdecimal() else "" for length, decoding in cells]
    return {
        "length": [length if length.isdecimal() else "" for length, _ in cells],
        "decoding": [
            ", ".join(p for p in (decoding, rule) if p not in ("", "–"))
            for (_, decoding), rule in zip(cells, rules, strict=True)
        ],
        "tuned": [system.more["tuned"] for system in systems],
        "weights": [system.weights for system in systems],
        "is_control": [system.role == "control" for system in systems],
    }


def _table(
    results: Captioned,
    numbers: Sequence[Number],
    heading: str,
    columns: Mapping[str, str],
    notes: Sequence[str],
    others: Sequence[str] = (),
    marked: bool = True,
) -> Table:
    """One row for each system, and ``columns`` for each dataset; a column that is not available is empty, with a note.

    ``others``: rows without numbers. ``marked``: whether the best numbers are marked.
    """
    from mdc.report.tables.caption_sets import label_of

    cells = {(number.system.key, number.label): number_cell(number) for number in numbers}
    contests = {contest["label"] for contest in results.job.more["contests"]}
    lines = []
    systems: dict[str, System] = {}  # each on the first dataset that it captions; baselines last
    for system in sorted(results.job.systems, key=lambda system: system.role in REFERENCE):
        systems.setdefault(system.method.key, system)
    for name, first in systems.items():
        # not every system captions every dataset
        own = [cells.get((f"{key}/{name}", label), Cell(None)) for key in results.corpora for label in columns.values()]
        block = "baselines" if first.role in REFERENCE else "captioners"
        labels = label_of(first), first.more["length"], first.more["decoding"]
        lines.append(Row(labels, tuple(own), block, first.role in REFERENCE, first.role == "ranked"))
    nothing = (Cell(None),) * (len(results.corpora) * len(columns))
    lines += [Row((label, "–", "–"), nothing, "others", reference=True) for label in others]
    heads = [
        Column(
            label,
            dataset,
            "not available" if key in results.missing else "chosen" if key in contests else "",
            f"{dataset} {label}",
        )
        for dataset in results.corpora.values()
        for key, label in columns.items()
    ]
    return Table(
        title=f"{heading}, {results.scale_text}",
        caption=(results.level_words,),
        labels=("Method", "Length", "Decoding"),
        columns=tuple(heads),
        rows=tuple(mark_rows(lines) if marked else lines),
        footnotes=tuple(notes),
    )


_CHAIR = {"CHAIRi": "CHAIRi", "CHAIRs": "CHAIRs", "objects": "objects named"}
_CHAIR_NOTE = (
    "CHAIRi: of the objects that captions name, the per cent that their images do not have; CHAIRs: per cent of captions "
    "that name such an object; less is better. Objects are MSCOCO's 80 categories; an image has those of its instances "
    "file and those that its references name (Rohrbach et al., 2018; the synonyms are ours)."
)


def _objects(job: ArtefactJob, manifests: Manifests, results: Captioned) -> list[Table]:
    """CHAIR on datasets with known objects; empty if there is none."""
    from mdc.report.caption_numbers import Captioned

    known = [key for key, note in _chair_notes(results).items() if not note]
    if not known:
        return []
    columns = [ShownColumn(key=key, label=label, more={"part": "words"}) for key, label in _CHAIR.items()]
    systems = [s.model_copy(update={"control": None}) for s in job.systems if s.corpus and s.corpus.key in known]
    alone: dict[str, Any] = {"contrasts": [], "primary": [], "primary_metric": "CHAIRi", "more": {"contests": []}}
    part = Captioned(job.but(**alone, systems=systems, columns=columns), manifests)
    title = "Objects that are not there (CHAIR)"
    return [_table(part, part.numbers, title, _CHAIR, (_CHAIR_NOTE,), marked=False)]


def _chair_notes(results: Captioned) -> dict[str, str]:
    """For each dataset with CHAIR: why it is not measured; "" if it is."""
    first = {s.corpus.key: results.records[s.records[0]] for s in results.job.systems if s.corpus is not None}
    entries = {key: record.get("objects") for key, record in first.items()}
    return {key: str(entry["note"]) for key, entry in entries.items() if entry is not None}


def _votes(results: Captioned, choice: Judged) -> Iterator[Number]:
    """How often each system was chosen in a contest, as levels."""
    from mdc.report import published

    for name, share in choice.share.items():
        beside = results.number(f"{choice.contest['dataset']}/{name}", results.measures[-1])
        system = beside.system
        labels = beside.dataset, system.backbone.label, system.method.label, choice.contest["label"]
        yield replace(
            beside,
            column=choice.contest["name"],
            label=choice.contest["label"],
            metric="chosen",
            unit="per cent",
            estimate=share,
            chance=100 / len(choice.share),
            published=published.lookup(results.job.artefact, *labels) if results.job.scale == "paper" else None,
            gain=None,
            control=None,
        )


def _contests(results: Captioned, choices: Sequence[Judged]) -> Table:
    """The judge's answers by status, and how often each letter was chosen."""
    from mdc.report import words

    lines = []
    letters = max((list(choice.letters) for choice in choices), key=len)
    for choice in choices:
        answered = max(sum(choice.letters.values()), 1)
        cells = tuple(
            Cell(100 * choice.letters[letter] / answered if letter in choice.letters else None) for letter in letters
        )
        ended = ", ".join(f"{count} {status}" for status, count in sorted(choice.answers.items()))
        labels = (
            results.corpora[choice.contest["dataset"]],
            choice.contest["label"],
            ended,
            words.p_value(choice.letter_p),
        )
        lines.append(Row(labels, cells))
    return Table(
        title=f"The judge's answers, {results.scale_text}",
        caption=(
            f"Judge: {results.job.more['judge']}. Letters are drawn anew for each image and training seed, so each should be "
            "chosen as often as every other; p is of a test that they are, with one observation an image.",
        ),
        labels=("Dataset", "Contest", "Answers", "p of the letters"),
        columns=tuple(Column(letter, "Letter chosen", "per cent") for letter in letters),
        rows=tuple(lines),
    )


def _main_notes(results: Captioned) -> list[str]:
    job, paper = results.job, results.parts_of["paper"]
    references = {f"{results.records[system.records[0]]['references']:.3g}" for system in job.systems}
    return [
        "Best in bold, second best underlined (after rounding). † (grey): shown but not ranked.",
        f"All × 100, as the COCO caption challenge computes them. References per image: {' or '.join(sorted(references))}. B@4, "
        "METEOR and their intervals are of the whole set of captions, not means over captions.",
        *(_LENGTH if job.artefact == "table3" else _LENGTH[:1]),
        *([_OTHERS_NOTE] if job.more.get("without_numbers") else []),
        *_choice_notes(results),
        *dict.fromkeys(
            f"{contest['label']}: per cent of images whose caption the judge ({job.more['judge']}) chooses among those of the "
            "systems that have a number; identical captions share the vote."
            for contest in job.more["contests"]
        ),
        *dict.fromkeys(system.note for system in job.systems if system.note),
        *(f"{paper[key]} is {note}." for key, note in results.missing.items() if key in paper),
    ]


def _choice_notes(results: Captioned) -> list[str]:
    """The mean over seeds of the primary metric on the images for model selection."""
    from mdc.report.tables.caption_sets import label_of

    choose, column = results.job.more.get("choose"), results.job.primary_metric
    if choose is None or column in results.missing:
        return []
    labels = {system.method.key: label_of(system) for system in results.job.systems}
    means = []
    for name, records in choose["systems"].items():
        items = [results.of(record, name).items(column) for record in records]
        values = [100 * item.value for item in items if item is not None]
        means.append(f"{labels.get(name, name)} {fmean(values):.1f}" if values else f"{labels.get(name, name)} –")
    return [f"{results.columns[column]} on {choose['label']}, by which the best is chosen: {', '.join(means)}."]


def _more_notes(results: Captioned) -> list[str]:
    chair = [f"{results.corpora[key]}: CHAIR is {note}." for key, note in _chair_notes(results).items() if note]
    if not results.job.more["clip"]:
        return ["CLIPScore is not measured: the scale names no model for it (clip_score).", *chair]
    return [
        f"{results.all_columns['CLIPScore']}, {results.all_columns['RefCLIPScore']}: CLIPScore and RefCLIPScore (Hessel et al., "
        f"2021) × 100 by {results.job.more['clip']}.",
        *(f"{count} {text}." for key, text in CLIP_COUNTS.items() if (count := _unread(results, key))),
        *chair,
    ]


def _unread(results: Captioned, key: str) -> int:
    """How many captions CLIPScore's model could not read; the references of all records of a dataset are the same."""
    counts: dict[str, int] = {}
    for name, record in results.records.items():
        place = record["config"]["corpus"] if key == "long_references" else name
        counts[place] = int((record.get("clip") or {}).get(key, 0))
    return sum(counts.values())


_TRUTH_NOTES = (
    "Captions of the built-in world are read by its grammar and compared with their scene. Precision: per cent of stated "
    "facts that hold; the rest is hallucination. Recall: per cent of the scene's facts that are stated. Words true: "
    "of all words of a kind, the per cent that hold of the scene, whatever stands around them.",
)
_WORD_NOTES = (
    "Content words: distinct words of a caption that are of no closed class. Content recall: per cent of a reference's content "
    "words that the caption has, averaged over references. Repeats training: per cent of captions that equal a training "
    "caption. Unreadable: words that mean nothing in the built-in world's language. Model calls: of the "
    "decoder, for one caption; one of beam search reads a token for each beam, one of the others the whole caption.",
)
