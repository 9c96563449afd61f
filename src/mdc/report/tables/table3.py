"""Table 3, captioning, and MC-Diffusion's tables: captions against references, against their images, and against the truth where
it is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mdc.plan.estimators import CLIP_COUNTS
from mdc.plan.jobs.shown_captions import CaptionColumn, CaptionedSystem, CaptionTableJob
from mdc.report import published, words
from mdc.report.caption_numbers import Captioned
from mdc.report.csv_file import write_csv
from mdc.report.frame import Number
from mdc.report.given import Given
from mdc.report.judged import Judged, judged
from mdc.report.over_datasets import OverDatasets
from mdc.report.tables import comparisons
from mdc.report.tables.caption_sets import SETS, label_of, models, set_lines, variety
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
        "mcd_table1": {"title": "MC-Diffusion, table 1: without guidance"},
        "mcd_table3": {"title": "MC-Diffusion, table 3: classifier-free guidance"},
        "mcd_table4": {"title": "MC-Diffusion, table 4: masked-condition guidance"},
        "mcd_grid": {"title": "MC-Diffusion: orientation and mask draw"},
        "table_ratio": {
            "title": "Mask ratios and captions",
            "what": "Captions by models of one mask ratio each, and by MDC",
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
        "table_decoding": {
            "title": "Ways of decoding",
            "what": "Captions that one MDC run writes in several ways, from all words at once to one word at a time",
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
_SEARCHED = "Length: number of tokens that a caption must have; free: the model predicts its end; –: beam search."
_DIFFUSED = (
    "Length: –: a caption ends at the first end-of-text token that the diffusion writes; best of several: MDC writes one of each "
    "length, and keeps the one with the highest length-normalised log probability."
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
    parts, heading = found.parts_of, words.heading(job)
    choices = [judged(job, given, contest) for contest in job.contests]
    votes = [vote for one in choices for vote in _votes(found, one)]
    every = [*found.numbers, *votes]
    contests = {vote.label: vote.label for vote in votes}
    there = {part: {key: label for key, label in of.items() if key in found.columns} for part, of in parts.items()}
    others = _OTHERS.get(job.artefact, ())
    main = _table(found, every, heading, parts["paper"] | contests, _main_notes(found, choices), others)
    truth = [_table(found, found.numbers, "What of it is true", there["truth"], _TRUTH_NOTES)] if there["truth"] else []
    over = OverDatasets(job, given, found, job.over) if job.over is not None else None
    shown = [
        main,
        _table(found, found.numbers, "More metrics", there["more"], _more_notes(found)),
        *truth,
        _table(found, found.numbers, "Length and description", there["words"], _WORD_NOTES, marked=False),
        *_objects(job, given, found),
        *([_contests(found, choices)] if choices else []),
        variety(found),
        models(found),
        *(over.tables(list(there["paper"])) if over is not None else []),
        *comparisons.tables(found, [key for key in (*there["paper"], "true", "told") if key in found.columns]),
    ]
    columns = {key: label for key, label in found.all_columns.items() if key in parts["paper"] or key in found.columns}
    everything = _table(found, every, heading, columns | contests, (), others)
    more = {key: [getattr(number.system, key) for number in every] for key in _MORE}
    comparisons.write(found, shown, out, everything, every, **more)
    if over is not None:
        over.write(out / f"{job.artefact}_over.csv")
    head = ["scale", "dataset", "method", "seed", *SETS, "records"]
    write_csv(out / f"{job.artefact}_sets.csv", list(set_lines(found)), head)


#: of a system, in the csv file of levels
_MORE = ("length", "decoding", "tuned", "weights", "blind")


def _table(
    found: Captioned,
    numbers: Sequence[Number],
    heading: str,
    columns: Mapping[str, str],
    notes: Sequence[str],
    others: Sequence[str] = (),
    marked: bool = True,
) -> Table:
    """A row a system, and for each dataset the ``columns``; one that is not available is an empty column with a note.

    ``others``: rows without numbers. ``marked``: the highest numbers are the best.
    """
    cells = {(number.system.key, number.label): number_cell(number) for number in numbers}
    contests = {contest.label for contest in found.job.contests}
    rows = []
    systems: dict[str, CaptionedSystem] = {}  # each on the first dataset that it captions; the floors last
    for system in sorted(found.job.systems, key=lambda one: one.reference):
        systems.setdefault(system.system, system)
    for name, first in systems.items():
        # not every system captions every dataset
        own = [cells.get((f"{key}/{name}", label), Cell(None)) for key in found.corpora for label in columns.values()]
        block = "floor" if first.reference else "captioners"
        labels = label_of(first), first.length, first.decoding
        rows.append(Row(labels, tuple(own), block, first.reference, first.ranked))
    nothing = (Cell(None),) * (len(found.corpora) * len(columns))
    rows += [Row((label, "–", "–"), nothing, "others", reference=True) for label in others]
    heads = [
        Column(
            label,
            dataset,
            "not available" if key in found.missing else "chosen" if key in contests else "",
            f"{dataset} {label}",
        )
        for dataset in found.corpora.values()
        for key, label in columns.items()
    ]
    measured = [key for key in columns if key in found.columns]
    shown = [found.levels[s.key, key] for s in found.job.systems for key in measured]
    images = {s.corpus.label: found.count(s, next(iter(found.columns))) for s in found.job.systems if s.corpus}
    counts = ", ".join(f"{label} {count}" for label, count in images.items())
    return Table(
        title=f"{heading}, {found.scale_text}",
        caption=(f"{words.intervals(shown, found.job.seeds)} Images: {counts}.",),
        labels=("Method", "Length", "Decoding"),
        columns=tuple(heads),
        rows=tuple(mark_rows(rows) if marked else rows),
        footnotes=(*notes, *([_STEADY] if any(level.low is None for level in shown) else [])),
    )


_STEADY = "A number without an interval is the same on every resample of these images, so resampling cannot say how sure it is."
_CHAIR = {"CHAIRi": "CHAIRi", "CHAIRs": "CHAIRs", "objects": "objects named"}
_CHAIR_NOTE = (
    "CHAIRi: of the objects that captions name, the per cent that their images do not have; CHAIRs: per cent of captions "
    "that name such an object; less is better. Objects are MSCOCO's 80 categories; an image has those of its instances "
    "file and those that its references name (Rohrbach et al., 2018; the synonyms are ours)."
)


def _objects(job: CaptionTableJob, given: Given, found: Captioned) -> list[Table]:
    """CHAIR of the datasets whose images' objects are known; none if there is no such dataset."""
    known = [key for key, note in _chair_notes(found).items() if not note]
    if not known:
        return []
    columns = [CaptionColumn(key=key, label=label, part="words") for key, label in _CHAIR.items()]
    systems = [s.model_copy(update={"control": None}) for s in job.systems if s.corpus and s.corpus.key in known]
    alone = {"contrasts": [], "primary": [], "primary_column": "CHAIRi", "contests": []}
    part = Captioned(job.model_copy(update={**alone, "systems": systems, "columns": columns}), given)
    title = "Objects that are not there (CHAIR)"
    return [_table(part, part.numbers, title, _CHAIR, (_CHAIR_NOTE,), marked=False)]


def _chair_notes(found: Captioned) -> dict[str, str]:
    """Of each dataset that asks for CHAIR, why it is not measured; "" if it is."""
    told = {s.corpus.key: found.records[s.records[0]].get("objects") for s in found.job.systems if s.corpus is not None}
    return {key: str(one["note"]) for key, one in told.items() if one is not None}


def _votes(found: Captioned, one: Judged) -> Iterator[Number]:
    """How often each system was chosen in a contest, as lines beside those of its metrics."""
    for name, share in one.share.items():
        beside = found.number(f"{one.contest.dataset}/{name}", found.measures[-1])
        system = beside.system
        labels = beside.dataset, system.backbone.label, system.method.label, one.contest.label
        yield replace(
            beside,
            system=system.model_copy(update={"records": [*system.records, *one.contest.records]}),
            column=one.contest.name,
            label=one.contest.label,
            metric="chosen",
            unit="per cent",
            found=share,
            chance=100 / len(one.share),
            published=published.lookup(found.job.artefact, *labels) if found.job.scale == "paper" else None,
            gain=None,
            control=None,
        )


def _contests(found: Captioned, choices: Sequence[Judged]) -> Table:
    """How the answers of the judge ended, and how often each letter was chosen."""
    rows = []
    letters = max((list(one.letters) for one in choices), key=len)
    for one in choices:
        answered = max(sum(one.letters.values()), 1)
        cells = tuple(
            Cell(100 * one.letters[letter] / answered if letter in one.letters else None) for letter in letters
        )
        ended = ", ".join(f"{count} {status}" for status, count in sorted(one.answers.items()))
        labels = found.corpora[one.contest.dataset], one.contest.label, ended, words.p_value(one.letter_p)
        rows.append(Row(labels, cells))
    return Table(
        title=f"The judge's answers, {found.scale_text}",
        caption=(
            f"Judge: {found.job.judge}. Letters are drawn anew for each image and training seed, so each should be chosen "
            "as often as every other; p is of a test that they are, with one observation an image.",
        ),
        labels=("Dataset", "Contest", "Answers", "p of the letters"),
        columns=tuple(Column(letter, "Letter chosen", "per cent") for letter in letters),
        rows=tuple(rows),
    )


def _main_notes(found: Captioned, choices: Sequence[Judged]) -> list[str]:
    records = [found.records[system.records[0]] for system in found.job.systems]
    references = dict.fromkeys(f"{record['references']:.3g}" for record in records)
    blind = dict.fromkeys(system.note for system in found.job.systems if system.note)
    missing = [
        f"{found.all_columns[key]} is {note}." for key, note in found.missing.items() if key in found.parts_of["paper"]
    ]
    timed = any(system.length not in ("–", "free") for system in found.job.systems)
    grey = dict.fromkeys(label_of(s) for s in found.job.systems if not s.ranked and not s.reference)
    return [
        "Best in bold, second best underlined (after rounding).",
        *([f"† (grey): shown but not ranked: {', '.join(grey)}."] if grey else []),
        f"All × 100, as the COCO caption challenge computes them, over {' or '.join(references)} reference(s) per image; B@4, "
        "METEOR and their intervals are of the whole set of captions, not means over captions.",
        _DIFFUSED if found.job.artefact.startswith("mcd_") else _SEARCHED,
        *([_LENGTH] if found.job.artefact == "table3" and timed else []),
        *([_OTHERS_NOTE] if found.job.artefact in _OTHERS else []),
        *_choice_notes(found),
        *_contest_notes(found, choices),
        *blind,
        *missing,
        *(["No claim is decided, since its metric is not available."] if found.claims_lost else []),
    ]


def _choice_notes(found: Captioned) -> list[str]:
    """Which system is the best on other images, by the mean over seeds of the metric that is claimed."""
    choose, column = found.job.choose, found.job.primary_column
    if choose is None or column in found.missing:
        return []
    means = {}
    for system, records in choose.systems.items():
        items = [found.of(record, system).items(column) for record in records]
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


def _contest_notes(found: Captioned, choices: Sequence[Judged]) -> Iterator[str]:
    """A line a contest; where its systems are not the same on every dataset, a line each, with the datasets' names."""
    names = {system.system: system.method.label for system in found.job.systems}
    among: dict[str, dict[str, list[str]]] = {}
    for one in (one.contest for one in choices):
        systems = ", ".join(names[system] for system in one.systems)
        among.setdefault(one.label, {}).setdefault(systems, []).append(found.corpora[one.dataset])
    for label, by_systems in among.items():
        for systems, datasets in by_systems.items():
            where = f" ({', '.join(datasets)})"
            yield (
                f"{label}{where * (len(by_systems) > 1)}: per cent of images whose caption the judge "
                f"({found.job.judge}) chooses among {systems}; identical captions share the vote."
            )


def _more_notes(found: Captioned) -> list[str]:
    chair = [f"{found.corpora[key]}: CHAIR is {note}." for key, note in _chair_notes(found).items() if note]
    if not found.job.clip:
        return ["CLIPScore is not measured: the scale names no model for it (clip_score).", *chair]
    measured = [record.get("clip") or {} for record in found.records.values()]
    counts = {said: sum(int(one.get(key, 0)) for one in measured) for key, said in CLIP_COUNTS.items()}
    return [
        f"CLIPScore and RefCLIPScore (Hessel et al., 2021) × 100, by {found.job.clip}.",
        *(f"{count} {said}." for said, count in counts.items() if count),
        *chair,
    ]


_TRUTH_NOTES = (
    "Captions of the built-in world are read by its grammar and held against their scene. True: per cent of stated facts "
    "that hold (precision; the rest is hallucination). Told: per cent of the scene's facts that are stated (recall). Words true: "
    "of all words of a kind, the per cent that hold of the scene, whatever stands around them.",
)
_WORD_NOTES = (
    "Content words: distinct words of a caption that are of no closed class. Content recall: per cent of a reference's content "
    "words that the caption has, averaged over references. Repeats training: per cent of captions that equal a training "
    "caption. Unreadable: words that mean nothing in the built-in world's language. Model calls: of the "
    "decoder, for one caption; one of beam search reads a token for each beam, one of the others the whole caption.",
)
