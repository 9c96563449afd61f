"""Table 3, captioning, and MC-Diffusion's tables: captions against references, against their images, and against the truth where
it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mdc.plan.estimators import CLIP_COUNTS
from mdc.plan.jobs.shown_captions import CaptionColumn, CaptionedSystem, CaptionTableJob
from mdc.report import published, words
from mdc.report.caption_numbers import Captioned
from mdc.report.frame import Number, write_contrasts, write_levels
from mdc.report.frame import write_csv as write_rows
from mdc.report.given import Given
from mdc.report.judged import Judged, judged
from mdc.report.over_datasets import OverDatasets
from mdc.report.tables import comparisons
from mdc.report.tables.caption_sets import SETS, label_of, models, set_lines, variety
from mdc.report.tables.render import write_csv, write_html, write_latex, write_markdown
from mdc.report.tables.table import Cell, Column, Row, Table, mark_rows, number_cell

SHOWN = {
    "kind": "captions",
    "artefacts": {
        "table3": {
            "kind": "",
            "title": "Table 3: captioning",
            "caption": "Captions at scale {scale} held against references, by the metrics of the COCO caption challenge and by "
            "CLIPScore; what of them is true where that is known; their length, variety and content words; beside the most "
            "frequent training caption and the same captioner on other images.",
            "config": "caption_table.CaptionTable",
            "plan": "caption_plans.captions",
        },
        "mcd_table1": {
            "title": "MC-Diffusion, table 1: without guidance",
            "what": "Captions by mask-and-replace diffusion (MC-Diffusion), and by the same models on other images,",
        },
        "mcd_table3": {
            "title": "MC-Diffusion, table 3: classifier-free guidance",
            "what": "Captions by mask-and-replace diffusion (MC-Diffusion), and by the same models on other images,",
        },
        "mcd_table4": {
            "title": "MC-Diffusion, table 4: masked-condition guidance",
            "what": "Captions by mask-and-replace diffusion (MC-Diffusion), and by the same models on other images,",
        },
        "mcd_grid": {
            "title": "MC-Diffusion: orientation and mask draw",
            "what": "Captions by mask-and-replace diffusion (MC-Diffusion), and by the same models on other images,",
        },
        "table_ratio": {
            "title": "Mask ratios and captions",
            "what": "Captions by models that were trained at one mask ratio each, and by MDC",
        },
        "table_conditioning": {
            "title": "Regions or the whole image",
            "what": "Captions by models whose decoder reads every patch of an image, the means of regions, or one vector",
        },
        "table_baselines": {
            "title": "A CNN with an LSTM",
            "what": "Captions by an LSTM that attends to a convolutional encoder, and by transformers on that encoder and on a "
            "ViT",
        },
        "table_guidance": {
            "title": "Guidance by CLIP",
            "what": "Captions by MDC in each piece of which a CLIP has a say, by its weight",
        },
        "table_few": {
            "title": "Few examples",
            "what": "Captions by pretrained captioners that saw a few examples of another domain, or none",
        },
        "table_splits": {
            "kind": "captions_over_splits",
            "title": "Several splits",
            "what": "Captions by runs on several random splits of the same images",
            "files": ".csv _long.csv _contrasts.csv _sets.csv _over.csv .html .md .tex",
        },
    },
    "files": ".csv _long.csv _contrasts.csv _sets.csv .html .md .tex",
    "what": "Captions",
    "caption": "{what} at scale {scale}, held against references, by the metrics of the COCO caption challenge and by CLIPScore; "
    "what of the captions is true, where it is known.",
    "config": "caption_table.CaptionView",
    "plan": "caption_plans.caption_view",
    "job": "shown_captions.CaptionTableJob",
}

#: rows of the paper's Table 1 that are not run here
_OTHERS = {"mcd_table1": ("Source Pre-trained", "DCC", "ATCIC", "Bit Diffusion")}
_OTHERS_NOTE = (
    "Rows without numbers stand in the paper's table; theirs are not in its public text, and are of other images."
)
_SEARCHED = "Length: the word pieces that a caption is to have; free: the model ends it itself; –: it is searched for."
_DIFFUSED = (
    "Length: –: a caption ends where the diffusion writes its first end of text; best of several: MDC writes one of each length, "
    "and keeps the one that it finds likeliest for its length."
)
_LENGTH = (
    "ARC is not told how long its caption is to be, and an MDC row with a number is, so metrics that reward the right length "
    "are not comparable between them (the paper's footnote); rows of ARC that are forced to a length are."
)


def make(job: CaptionTableJob, given: Given, out: Path) -> None:
    """Write the table's files into ``out``.

    UserError names the record that is missing, stale, of another scale, or does not match its captions.
    """
    found = Captioned(job, given)
    numbers = found.numbers()
    parts = found.parts_of
    choices = judged(job, given)
    votes = _votes(found, numbers, choices)
    chosen = _chosen(votes)
    notes = _main_notes(found, choices)
    heading = words.heading(job)
    others = _OTHERS.get(job.artefact, ())
    main = _table(found, numbers, heading, parts["paper"], notes, chosen=chosen, others=others)
    objects = _objects(job, given, found)
    truth = [key for key in parts["truth"] if key in found.columns]
    over = OverDatasets(job, given, found, job.over) if job.over is not None else None
    shown = [
        main,
        _table(found, numbers, "More metrics", parts["more"], [*_clip_notes(found), *_no_chair(found)]),
        *([_table(found, numbers, "What of it is true", parts["truth"], _TRUTH_NOTES)] if truth else []),
        _table(found, numbers, "Length and description", parts["words"], _WORD_NOTES, marked=False),
        *([objects] if objects is not None else []),
        *([_contests(found, choices)] if choices else []),
        variety(found),
        models(found),
        *(over.tables([key for key in parts["paper"] if key in found.columns]) if over is not None else []),
        *comparisons.tables(found, [key for key in (*parts["paper"], "true", "told") if key in found.columns]),
    ]
    name = job.artefact
    everything = _table(found, numbers, heading, found.all_columns, (), marked=False, chosen=chosen, others=others)
    write_csv(everything, out / f"{name}.csv", {"scale": words.scale_column(job)})
    every = [*numbers, *votes]
    more = {
        head: [getattr(number.system, head) for number in every]
        for head in ("length", "decoding", "tuned", "weights", "blind")
    }
    write_levels(out / f"{name}_long.csv", every, **more)
    write_contrasts(out / f"{name}_contrasts.csv", found.contrasts())
    if over is not None:
        over.write(out / f"{name}_over.csv")
    write_rows(
        out / f"{name}_sets.csv", list(set_lines(found)), ["scale", "dataset", "method", "seed", *SETS, "records"]
    )
    write_html(shown, out / f"{name}.html")
    write_markdown(shown, out / f"{name}.md")
    write_latex(main, out / f"{name}.tex")


def _table(
    found: Captioned,
    numbers: Sequence[Number],
    heading: str,
    columns: Mapping[str, str],
    notes: Sequence[str],
    marked: bool = True,
    chosen: Mapping[str, Mapping[str, Cell]] | None = None,
    others: Sequence[str] = (),
) -> Table:
    """A row a system, and for each dataset the ``columns``; one that is not available is an empty column with a note.

    ``marked``: the highest numbers are the best. ``chosen``: columns of a judge, {label: {system's key: cell}}. ``others``:
    rows without numbers.
    """
    more = chosen or {}
    by = {(number.system.key, number.label): number for number in numbers}
    datasets = found.corpora
    named = [key for key in columns if key in found.columns or key in found.parts_of["paper"]]
    rows = []
    systems = _systems(found)
    for name, each in systems:
        cells = []
        for dataset in datasets:
            for key in named:
                here = each.get(dataset)  # not every system captions every dataset
                number = by.get((here.key, columns[key])) if here and key in found.columns else None
                if number is None:
                    cells.append(Cell(None))
                    continue
                cells.append(number_cell(number))
            cells += [by_system.get(f"{dataset}/{name}", Cell(None)) for by_system in more.values()]
        first = next(iter(each.values()))
        block = "floor" if first.reference else "captioners"
        rows.append(
            Row((label_of(first), first.length, first.decoding), tuple(cells), block, reference=first.reference)
        )
    width = len(datasets) * (len(named) + len(more))
    rows += [Row((label, "–", "–"), (Cell(None),) * width, "others", reference=True) for label in others]
    ranked = [next(iter(each.values())).ranked for _, each in systems] + [False] * len(others)
    heads: list[Column] = []
    for label in datasets.values():
        heads += [
            Column(columns[key], label, "" if key in found.columns else "not available", f"{label} {columns[key]}")
            for key in named
        ]
        heads += [Column(name, label, "chosen", f"{label} {name}") for name in more]
    levels = [
        found.levels[s.key, key] for _, each in systems for s in each.values() for key in named if key in found.columns
    ]
    return Table(
        title=f"{heading}, {found.scale_text}",
        caption=(
            f"{words.intervals(levels, found.job.seeds)} Images: "
            f"{', '.join(f'{label} {_count(found, key)}' for key, label in datasets.items())}.",
        ),
        labels=("Method", "Length", "Decoding"),
        columns=tuple(heads),
        rows=tuple(mark_rows(rows, ranked) if marked else rows),
        footnotes=(*notes, *([_STEADY] if any(level.low is None for level in levels) else [])),
    )


_STEADY = (
    "A number without an interval is the same whatever images are drawn, so resampling cannot say how sure it is; on "
    "other images it may be another."
)
_CHAIR = {"CHAIRi": "CHAIRi", "CHAIRs": "CHAIRs", "objects": "objects named"}


def _objects(job: CaptionTableJob, given: Given, found: Captioned) -> Table | None:
    """CHAIR of the datasets whose images' objects are known; None if there is no such dataset."""
    there = [key for key, note in _chair_notes(found).items() if not note]
    if not there:
        return None
    columns = [CaptionColumn(key=key, label=label, part="words") for key, label in _CHAIR.items()]
    nothing: dict[str, Any] = {"contrasts": [], "primary": [], "primary_column": "CHAIRi", "contests": []}
    systems = [
        s.model_copy(update={"control": None}) for s in job.systems if s.corpus is not None and s.corpus.key in there
    ]
    narrow = job.model_copy(update={**nothing, "systems": systems, "columns": columns})
    part = Captioned(narrow, given)
    return _table(
        part,
        part.numbers(),
        "Objects that are not there (CHAIR)",
        _CHAIR,
        (
            "CHAIRi: of the objects that captions name, the per cent that their images do not have; CHAIRs: per cent of captions "
            "that name such an object; less is better. Objects are MSCOCO's 80 categories; an image has those of its instances "
            "file and those that its references name (Rohrbach et al., 2018; the synonyms are ours).",
        ),
        marked=False,
    )


def _chair_notes(found: Captioned) -> dict[str, str]:
    """Of each dataset that asks for CHAIR, why it is not measured; "" if it is."""
    told = {s.corpus.key: found.records[s.records[0]].get("objects") for s in found.job.systems if s.corpus is not None}
    return {key: str(one["note"]) for key, one in told.items() if one is not None}


def _systems(found: Captioned) -> list[tuple[str, dict[str, CaptionedSystem]]]:
    """By name, each system on every dataset; the floors last."""
    by_name: dict[str, dict[str, CaptionedSystem]] = {}
    for system in found.job.systems:
        assert system.corpus is not None
        by_name.setdefault(system.system, {})[system.corpus.key] = system
    return sorted(by_name.items(), key=lambda entry: next(iter(entry[1].values())).reference)


def _count(found: Captioned, dataset: str) -> int:
    return next(
        found.count(s, next(iter(found.columns))) for s in found.job.systems if s.corpus and s.corpus.key == dataset
    )


def _votes(found: Captioned, numbers: Sequence[Number], choices: Sequence[Judged]) -> list[Number]:
    """How often each system was chosen in each contest, as lines beside those of its metrics."""
    own = {_place(number): number for number in numbers}
    votes = []
    for one in choices:
        for system, share in one.share.items():
            beside = own[f"{one.contest.dataset}/{system}"]
            system_of = beside.system
            labels = (
                beside.artefact,
                beside.dataset,
                system_of.backbone.label,
                system_of.method.label,
                one.contest.label,
            )
            vote = replace(
                beside,
                system=system_of.model_copy(update={"records": [*system_of.records, *one.contest.records]}),
                column=one.contest.name,
                label=one.contest.label,
                metric="chosen",
                unit="per cent",
                found=share,
                chance=100 / len(one.share),
                published=published.lookup(*labels) if found.printed and found.job.scale == "paper" else None,
                gain=None,
                control=None,
            )
            votes.append(vote)
    return votes


def _place(number: Number) -> str:
    assert isinstance(number.system, CaptionedSystem) and number.system.corpus is not None
    return f"{number.system.corpus.key}/{number.system.system}"


def _chosen(votes: Sequence[Number]) -> dict[str, dict[str, Cell]]:
    """How often each system was chosen, by the label of its contest."""
    found: dict[str, dict[str, Cell]] = {}
    for vote in votes:
        found.setdefault(vote.label, {})[_place(vote)] = number_cell(vote)
    return found


def _contests(found: Captioned, choices: Sequence[Judged]) -> Table:
    """How the answers of the judge ended, and how often each letter was chosen."""
    rows = []
    widest = max(len(one.contest.systems) for one in choices)
    for one in choices:
        answered = sum(one.letters.values())
        letters = [chr(ord("A") + place) for place in range(len(one.contest.systems))]
        cells = [Cell(100 * one.letters[letter] / max(answered, 1)) for letter in letters]
        cells += [Cell(None)] * (widest - len(cells))
        ended = ", ".join(f"{count} {status}" for status, count in sorted(one.answers.items()))
        labels = (found.corpora[one.contest.dataset], one.contest.label, ended, words.p_value(one.letter_p))
        rows.append(Row(labels, tuple(cells)))
    return Table(
        title=f"The judge's answers, {found.scale_text}",
        caption=(
            f"Judge: {found.job.judge}. Letters are drawn anew for each image and training seed, so each should be chosen "
            "as often as every other; p is of a test that they are, with one observation an image.",
        ),
        labels=("Dataset", "Contest", "Answers", "p of the letters"),
        columns=tuple(Column(chr(ord("A") + place), "Letter chosen", "per cent") for place in range(widest)),
        rows=tuple(rows),
    )


def _main_notes(found: Captioned, choices: Sequence[Judged]) -> list[str]:
    records = [found.records[system.records[0]] for system in found.job.systems]
    references = dict.fromkeys(f"{record['references']:.3g}" for record in records)
    blind = dict.fromkeys(system.note for system in found.job.systems if system.note)
    missing = [
        f"{found.all_columns[key]} is {note}." for key, note in found.missing.items() if key in found.parts_of["paper"]
    ]
    grey = dict.fromkeys(label_of(s) for s in found.job.systems if not s.ranked and not s.reference)
    return [
        "Best in bold, second best underlined, compared as printed.",
        *([f"† (grey): shown but not ranked: {', '.join(grey)}."] if grey else []),
        f"All × 100, as the COCO caption challenge computes them, over {' or '.join(references)} reference(s) an image; B@4, "
        "METEOR and their intervals are of the whole set of captions, not means over captions.",
        _DIFFUSED if found.job.artefact.startswith("mcd_") else _SEARCHED,
        *([_LENGTH] if found.job.artefact == "table3" and _has_lengths(found) else []),
        *([_OTHERS_NOTE] if found.job.artefact in _OTHERS else []),
        *_choice_notes(found),
        *_contest_notes(found, choices),
        *blind,
        *missing,
        *(["No claim is decided, since its metric is not available."] if found.claims_lost else []),
    ]


def _has_lengths(found: Captioned) -> bool:
    return any(system.length not in ("–", "free") for system in found.job.systems)


def _choice_notes(found: Captioned) -> list[str]:
    """Which system is the best on other images, by the mean over seeds of the metric that is claimed."""
    choose, column = found.job.choose, found.job.primary_column
    if choose is None or column in found.missing:
        return []
    means = {}
    for system in choose.systems:
        items = [found.of(record, system).items(column) for record in choose.records]
        if any(one is None for one in items):
            return []
        means[system] = 100 * float(np.mean([one.value for one in items if one is not None]))
    runs = {system.system: tuple(system.runs) for system in found.job.systems}
    labels = {system.system: label_of(system) for system in found.job.systems}
    best: dict[tuple[str, ...], str] = {}  # of each training: a mask rate is trained for, and its scale is chosen
    for name, mean in means.items():
        of = runs.get(name, (name,))
        if of not in best or mean > means[best[of]]:
            best[of] = name
    named = ", ".join(f"{labels.get(name, name)} ({means[name]:.1f})" for name in best.values())
    each = " of each training" if len(best) > 1 else ""
    return [f"The best{each} on {choose.label} by {found.columns[column]}: {named}."]


def _contest_notes(found: Captioned, choices: Sequence[Judged]) -> list[str]:
    """A line a contest; where its systems are not the same on every dataset, a line each, with the dataset's name."""
    names = {system.system: system.method.label for system in found.job.systems}
    among = [(one.contest, ", ".join(names[system] for system in one.contest.systems)) for one in choices]
    several = {
        one.label
        for one, systems in among
        if any(one.label == two.label and systems != others for two, others in among)
    }
    return list(
        dict.fromkeys(
            f"{one.label}{f' ({found.corpora[one.dataset]})' if one.label in several else ''}: per cent of images whose caption "
            f"the judge ({found.job.judge}) chooses among {systems}; identical captions share the vote."
            for one, systems in among
        )
    )


def _clip_notes(found: Captioned) -> list[str]:
    if not found.job.clip:
        return ["CLIPScore is not measured: the scale names no model for it (clip_score)."]
    measured = [record.get("clip") or {} for record in found.records.values()]
    counts = {said: sum(int(one.get(key, 0)) for one in measured) for key, said in CLIP_COUNTS.items()}
    return [
        f"CLIPScore and RefCLIPScore (Hessel et al., 2021) × 100, by {found.job.clip}.",
        *(f"{count} {said}." for said, count in counts.items() if count),
    ]


def _no_chair(found: Captioned) -> list[str]:
    return [f"{found.corpora[key]}: CHAIR is {note}." for key, note in _chair_notes(found).items() if note]


_TRUTH_NOTES = (
    "Captions of the embedded world are read by its grammar and held against their scene. True: per cent of what they state that "
    "is so (100 less this is hallucination). Told: per cent of what there is to say that they say. Words true: of all words of a "
    "kind, the per cent that are so of the scene, whatever stands around them.",
)
_WORD_NOTES = (
    "Content words: distinct words of a caption that are of no closed class. Content recall: per cent of a reference's content "
    "words that the caption has, in the mean over references. Repeats training: per cent of captions that stand, letter for "
    "letter, in the training set. Unreadable: words that mean nothing in the embedded world's language.",
)
