"""What tables and figures of captions show: rows of systems by dataset, with their captions' metrics and the judge's choices."""

from collections.abc import Iterable
from typing import Any

from mdc.plan.artefacts import read_shown
from mdc.plan.config.captions import MOST_FREQUENT, OfCaptions, RunClip
from mdc.plan.config.judge import ByEndpoint
from mdc.plan.config.systems import CaptionSystem, mismatched_key
from mdc.plan.jobs import caption_jobs
from mdc.plan.jobs.caption_jobs import captions_of
from mdc.plan.jobs.context import Context, compared
from mdc.plan.jobs.shown import Labelled, ShownColumn, System

#: part of Table 3 → its metrics and their labels: the paper's in its order; for the built-in world the precision of the
#: stated facts, and their recall
_KINDS = ("objects", "attributes", "counts", "relations")
_OF_STATEMENTS = ("precision", "recall")
_COLUMNS: dict[str, dict[str, str]] = {
    "paper": {"BLEU-4": "B@4", "METEOR": "METEOR", "CIDEr": "CIDEr", "SPICE": "SPICE", "ROUGE-L": "ROUGE-L"},
    "more": {
        "BLEU-1": "B@1",
        "BLEU-2": "B@2",
        "BLEU-3": "B@3",
        "CLIPScore": "CLIPScore",
        "RefCLIPScore": "RefCLIPScore",
    },
    "truth": {
        **{what: what for what in _OF_STATEMENTS},
        **{f"{what}_{kind}": f"{kind} {what}" for what in _OF_STATEMENTS for kind in _KINDS},
        **{f"word_{kind}": f"{kind} words true" for kind in ("colour", "shape", "count")},
    },
    "words": read_shown("evaluation/metrics/each.py") or {},
}

#: labels where the CLIP is a run of the scale, whose training images may be of the same kind as those that are captioned
_OF_OUR_CLIP = {"CLIPScore": "similarity by our CLIP", "RefCLIPScore": "similarity by our CLIP (with references)"}

_MOST_FREQUENT_NOTE = (
    "Most frequent training caption: the same for every image, so it is the score without looking at the image."
)
_MISMATCHED_NOTE = (
    "Mismatched image: the same captioner on another image of the set; the score of a caption that does not fit."
)


_OF_OTHERS = (
    "an external model (open_clip), trained on other data; it is shown for reference. {num_beams} plain beams write captions of "
    "five to {max_tokens} tokens with start and end, as open_clip 4 searches (3.3: three groups of beams)."
)


class Measured:
    """The captions of a dataset, and their metrics, by system and seed."""

    def __init__(self, plan: Context, dataset: str, seeds: list[int]) -> None:
        self.plan, self.by_seed = plan, [caption_jobs.of_seed(plan, dataset, seed) for seed in seeds]

    def records(self, system: str, jobs: dict[str, Any]) -> list[str]:
        """The names of a system's jobs of metrics, one per seed, added to ``jobs``; a baseline has one for all seeds."""
        made = [caption_jobs.metrics(self.plan, requests[system]) for requests in self.by_seed]
        jobs |= {job.job: job for job in made}
        return [job.job for job in made]

    def runs(self, system: str) -> list[str]:
        """The names of its runs."""
        return [run.id for requests in self.by_seed if (run := requests[system].run) is not None]


def table_values(
    plan: Context,
    block: OfCaptions,
    datasets: Iterable[str],
    seeds: list[int],
    metric: str = "CIDEr",
    contrasts: list[list[str]] | None = None,
    primary: list[list[str]] | None = None,
) -> dict[str, Any]:
    """The values of a job with a row for each system of ``block`` on each of ``datasets``, and the jobs that it is made from
    (``jobs``). ``contrasts`` and ``primary``: pairs of dataset/system, the latter claimed by ``metric``."""
    section, datasets = captions_of(plan), [name for name in captions_of(plan).datasets if name in datasets]
    jobs: dict[str, Any] = {}
    rows: list[System] = []
    lengths = lengths_of(plan, block, datasets)
    for dataset in datasets:
        measured = Measured(plan, dataset, seeds)
        baselines = {MOST_FREQUENT: ("most frequent training caption", MOST_FREQUENT, _MOST_FREQUENT_NOTE)}
        for key, coca in block.external_on(section, dataset).items():
            baselines[key] = (coca.label, f"coca/{key}", f"{coca.label}: {_OF_OTHERS.format_map(vars(coca))}")
        for key, (label, place, note) in baselines.items():
            rows.append(
                System(
                    **_common(plan, dataset, key, label),
                    runs=[f"captions/{place}/{dataset}"] * len(seeds),
                    records=measured.records(key, jobs),
                    role="control" if key == MOST_FREQUENT else "reference",
                    note=note,
                    more={"length": "–", "decoding": "–", "tuned": ""},
                )
            )
        here = block.rows_on(section, dataset)
        for key, system in here.items():
            # the same captioner on mismatched images, if the table shows it
            control = f"{dataset}/{mismatched_key(key)}" if mismatched_key(key) in here else None
            row = row_of(plan, dataset, key, lengths, measured.runs(key), measured.records(key, jobs))
            rows.append(row.but(control=control, note=_note(plan, system)))
    contests, judged = [], dict[str, list[str]]()
    for dataset in datasets:
        asked = section.contests_of(block.rows_on(section, dataset), block.external_on(section, dataset))
        choices = {job.job: job for job in (caption_jobs.judge(plan, dataset, seed) for seed in seeds if asked)}
        jobs |= choices
        for name, contest in asked.items():
            named = {"name": name, "label": contest.label, "dataset": dataset}
            contests.append({**named, "systems": contest.systems, "records": list(choices)})
            for key in contest.systems:
                judged.setdefault(f"{dataset}/{key}", []).extend(choices)
    rows = [row.but(more={**row.more, "judged": judged[row.key]}) if row.key in judged else row for row in rows]
    ours = _OF_OUR_CLIP if isinstance(section.clip_score, RunClip) else {}
    return {
        "jobs": jobs,
        "systems": rows,
        "columns": [
            ShownColumn(key=key, label=ours.get(key, label), more={"part": part})
            for part, columns in _COLUMNS.items()
            for key, label in columns.items()
        ],
        **compared(contrasts or [], primary or []),
        "primary_metric": metric,
        "seeds": seeds,
        "statistics": plan.statistics(block),
        "clip": _clip(plan),
        "judge": _judge(plan) if contests else "",
        "contests": contests,
    }


def lengths_of(plan: Context, block: OfCaptions, datasets: Iterable[str]) -> set[str]:
    """The lengths of all systems that are shown; labels name the length only if there are several."""
    section = captions_of(plan)
    return {system.decode.shown_length for name in datasets for system in block.rows_on(section, name).values()}


def label_of(system: CaptionSystem, lengths: set[str]) -> str:
    """A system's label, with its length unless all ``lengths`` are the same."""
    length = system.decode.shown_length
    return system.label if lengths == {length} or length == "–" else f"{system.label} · {length}"


def row_of(plan: Context, dataset: str, key: str, lengths: set[str], runs: list[str], records: list[str]) -> System:
    """The row of a system, without its control."""
    section = captions_of(plan)
    system = section.systems[key]
    return System(
        **_common(plan, dataset, key, label_of(system, lengths)),
        runs=runs,
        records=records,
        role="control" if system.images == "other" else "ranked" if system.ranked else "grey",
        weights=system.weights,
        more={
            "length": system.decode.shown_length,
            "decoding": system.decode.shown_as,
            "tuned": section.datasets[dataset].tuned_as(system) or "",
        },
    )


def _note(plan: Context, system: CaptionSystem) -> str:
    if system.decode.is_guided:
        guide = captions_of(plan).guide
        assert guide is not None
        return f"Guided: a CLIP, {own_clip(plan, guide)}, scores the candidates for every token."
    return _MISMATCHED_NOTE if system.images == "other" else ""


def _common(plan: Context, dataset: str, key: str, label: str) -> dict[str, Any]:
    section = captions_of(plan)
    return {
        "key": f"{dataset}/{key}",
        "method": Labelled(key=key, label=label),
        "corpus": Labelled(key=dataset, label=section.datasets[dataset].label),
        "backbone": plan.backbone(section.backbone_of(dataset, key)),
        "estimator": "captions",
    }


def _clip(plan: Context) -> str:
    scored_by = captions_of(plan).clip_score
    if scored_by is None:
        return ""
    if isinstance(scored_by, RunClip):
        return f"{own_clip(plan, scored_by)}, which was trained on data of the scale, so numbers of other scales do not compare"
    return scored_by.label


def own_clip(plan: Context, clip: RunClip) -> str:
    """The description of a CLIP run of the scale."""
    backbone = f" on {plan.scale.training.backbones[clip.backbone].label}" if clip.backbone is not None else ""
    return (
        f"the scale's own {plan.params.methods[clip.method].label}{backbone}, seed {clip.of(plan.scale.training.seeds)}"
    )


def _judge(plan: Context) -> str:
    judge = captions_of(plan).judge
    assert judge is not None
    return judge.by.model if isinstance(judge.by, ByEndpoint) else "a CLIP, which is no language model"
