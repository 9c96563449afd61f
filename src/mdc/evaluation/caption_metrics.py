"""The job ``mdc measure-captions``: captions against references, images and the truth.

Writes ``metrics.parquet``, a row per system and image, and last ``metrics.json`` with metrics of whole sets of captions, and
why a metric is missing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mdc.data.scenes.oracle import COUNTS, KINDS, judge, true_words
from mdc.data.scenes.world import Scene
from mdc.data.shards.index import ShardReader
from mdc.evaluation.captioned import Captioned
from mdc.evaluation.clip_score import ClipScore
from mdc.evaluation.job_models import clip_scorer, open_clip_scorer, trained_run
from mdc.evaluation.metrics.each import EACH, MeasuredCaption
from mdc.evaluation.metrics.java import java
from mdc.evaluation.metrics.metrics import METRICS, Measured, Tokenized, measure_all, tokens
from mdc.evaluation.metrics.words import distinct, self_bleu
from mdc.evaluation.objects import Objects, objects
from mdc.evaluation.row_files import Columns, Row, write_results
from mdc.evaluation.system_captions import read_systems
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import CaptionMetricsJob
from mdc.training.device import choose_device

#: system → image → caption
Captions = Mapping[str, Mapping[str, str]]


def main(call: Call) -> None:
    """``call.job``: a :class:`mdc.plan.jobs.model.CaptionMetricsJob`."""
    job: CaptionMetricsJob = call.job
    torch.set_num_threads(job.captioning.threads)
    images = Captioned.open(call.input(f"data/corpora/{job.corpus}"), job.split, job.images)
    systems = read_systems(call, {job.captions: job.captions_config_sha256}, images)
    captions: Captions = {name: captioned.captions for name, captioned in systems.items()}
    program = java()
    split = tokens(program, captions, dict(zip(images.keys, images.references, strict=True)))
    measured = measure_all(split, program, job.skip_metrics)
    clip = _clip(call, job, images)
    # without Java there is no tokeniser of the challenge; words are counted in lower case
    words = split or _in_lower_case(captions, images)
    present = objects(job.instances, images, words.references)
    repeated = _training_captions(call, job)
    rows: list[Row] = []
    by_system: dict[str, Any] = {}
    for name, some in captions.items():
        scores: Sequence[tuple[float | None, float | None]] = [(None, None)] * len(some)
        if clip is not None:
            scores = clip.of(list(some.values()), list(systems[name].clip_ids.values()))
        rows += _rows(name, some, systems[name].calls, images, measured[name], words, scores, repeated, present)
        by_system[name] = _of_all(measured[name], split, name) | systems[name].metadata
    metadata = {
        "systems": by_system,
        "images": len(images),
        "references": sum(map(len, images.references)) / len(images),
    }
    metadata |= {"clip": clip.metadata if clip is not None else None, "truth": images.truths[0] is not None}
    metadata |= {"objects": present.metadata}
    write_results(call, "metrics", {"metrics.parquet": (rows, _columns())}, metadata)


def _clip(call: Call, job: CaptionMetricsJob, images: Captioned) -> ClipScore | None:
    device = choose_device(job.captioning.device, 0)
    if job.clip is not None:
        run = trained_run(call, job.clip.run, job.clip.config_sha256, "last")
        scorer = clip_scorer(run.model, job.captioning, device)
        return ClipScore(scorer, images, "", {"model": job.clip.run, "weights": run.weights})
    if job.open_clip is not None:
        model = job.open_clip
        scorer, weights = open_clip_scorer(model.model, model.weights, job.captioning.precision, device)
        return ClipScore(scorer, images, model.prefix, {"model": model.label, "weights": weights})
    return None


def _training_captions(call: Call, job: CaptionMetricsJob) -> frozenset[str]:
    reader = ShardReader(call.input(f"data/corpora/{job.training}"), "train")
    captions = (caption for number in range(len(reader)) for caption in reader.read(number)[2]["captions"])
    return frozenset(map(_plain, captions))


def _in_lower_case(captions: Captions, images: Captioned) -> Tokenized:
    systems = {name: {image: [caption.lower()] for image, caption in texts.items()} for name, texts in captions.items()}
    references = zip(images.keys, images.references, strict=True)
    return Tokenized(systems, {image: [caption.lower() for caption in texts] for image, texts in references})


def _plain(caption: str) -> str:
    """Letters and digits in lower case, by which captions are compared."""
    return "".join(letter for letter in caption.lower() if letter.isalnum())


def _rows(
    system: str,
    captions: Mapping[str, str],
    calls: Mapping[str, int | None],
    images: Captioned,
    measured: Mapping[str, Measured],
    words: Tokenized,
    scores: Sequence[tuple[float | None, float | None]],
    repeated: frozenset[str],
    present: Objects,
) -> list[Row]:
    rows = []
    for place, (image, caption) in enumerate(captions.items()):
        (ours,), theirs = words.systems[system][image], words.references[image]
        measurable = MeasuredCaption(caption, ours, theirs, _plain(caption) in repeated, calls[image])
        row: Row = {"system": system, "image": image, "CLIPScore": scores[place][0], "RefCLIPScore": scores[place][1]}
        row |= {name: _at(measured[name].images, place) for name in METRICS}
        row |= {
            "bleu_counts": _at(measured["BLEU-4"].counts, place),
            "meteor_counts": _at(measured["METEOR"].counts, place),
            **{name: metric(measurable) for name, metric in EACH.items()},
            "objects": present.of(place, ours),
        }
        rows.append(row | _truth(images.truths[place], caption))
    return rows


def _at(values: Any, place: int) -> Any:
    return None if values is None else values[place].tolist()


def _truth(truth: Mapping[str, Any] | None, caption: str) -> Row:
    if truth is None:
        return {"truth": None, "unreadable": None, "true_words": None}
    scene = Scene.from_json(dict(truth))
    verdict = judge(scene, caption)
    return {
        "true_words": true_words(scene, caption),
        "truth": [getattr(verdict.kinds[kind], count) for kind in KINDS for count in COUNTS],
        "unreadable": verdict.unreadable,
    }


def _of_all(measured: Mapping[str, Measured], split: Tokenized | None, system: str) -> dict[str, Any]:
    """Metrics of a whole set of captions."""
    values = {name: measure.value for name, measure in measured.items()}
    notes = {name: measure.note for name, measure in measured.items() if measure.note}
    metadata: dict[str, Any] = {"values": values, "notes": notes}
    if split is not None:
        ours = [text for (text,) in split.systems[system].values()]
        metadata |= {"distinct_1": distinct(ours, 1), "distinct_2": distinct(ours, 2), "self_bleu": self_bleu(ours)}
        metadata |= {"vocabulary": len({word for text in ours for word in text.split()})}
    return metadata


def _columns() -> Columns:
    kinds = {int: "int32", int | None: "int32", float: "float64", bool: "bool"}
    return {
        **{"system": "word", "image": "string"},
        **dict.fromkeys((*METRICS, "CLIPScore", "RefCLIPScore"), "float64"),
        **{"bleu_counts": ["float64"], "meteor_counts": ["float64"]},
        **{name: kinds[metric.__annotations__["return"]] for name, metric in EACH.items()},
        **{"objects": ["int32"], "truth": ["int32"], "unreadable": "int32", "true_words": ["int32"]},
    }
