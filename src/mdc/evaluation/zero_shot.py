"""The job ``mdc score-classes``: zero-shot classification of labelled images, each scored with a caption of every class.

A class's caption is a template with its name. Cosines are averaged over templates as open_clip does it: a class is the
normalised mean of its captions' unit embeddings. Log probabilities are averaged as they are, so that every template counts
alike; a mean of probabilities would be dominated by the likeliest template, mostly the shortest.

A caption's *debiased* score is its score minus the log of its mean probability over ``PRIOR_IMAGES`` random training images of
the set. Writes ``items.parquet``, a row per image and estimator, and last ``zero_shot.json``.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mdc.data.formats.images import decode_named
from mdc.data.loader.shuffle import permuted
from mdc.data.scenes.language import class_phrases
from mdc.data.shards.index import ShardReader, read_index
from mdc.evaluation.job_models import scored_run
from mdc.evaluation.parts import device_of, identity_of, ranges, sharded
from mdc.evaluation.predictors.caption_scores import Draws, Pair
from mdc.evaluation.predictors.score import RunScorer
from mdc.evaluation.row_files import Columns, Row, write_results
from mdc.models.text import clip_pieces
from mdc.plan.config.data import ClassCaptions
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import ZeroShotJob
from mdc.plan.processes.group import global_rank, process_group
from mdc.plan.records import UserError
from mdc.report.statistics.metrics import per_item_top1

_COLUMNS: Columns = {
    **{"probe": "word", "estimator": "word", "item": "string", "label": "int32", "best": "int32"},
    **{"debiased_best": "int32", "value": "float64", "debiased": "float64"},
}
PRIOR_IMAGES = 64
_PAIRS, _IMAGES = 2048, 64  # pairs of an image and a caption that are scored at a time, of so many images at most
_PHOTO = "a photo of a {class}"


def main(call: Call) -> None:
    """Run the job, or one process's share of it. ``call.job``: a :class:`mdc.plan.jobs.model.ZeroShotJob`."""
    job: ZeroShotJob = call.job
    device = device_of(job.scoring)
    run = scored_run(call, device)
    identity = identity_of(job.fingerprint, run.weights, job.scoring, device)
    results: dict[str, Any] = {}
    rows: list[Row] = []
    with process_group(job.scoring.processes, device) as group:
        for name, class_captions in job.probes.items():
            path = call.input(f"data/probes/{name}")
            index = read_index(path, verify="auto", kind="probe")
            probe = ScoredProbe(
                name, run.scorer, Captions.of(name, index, class_captions, run.scorer), job.scoring.seed
            )
            readers = {split: ShardReader(path, split) for split in ("train", "test")}
            shards = [shard["sha256"] for split in readers for shard in index["splits"][split]["shards"]]
            metadata = {**identity, "set": name, "captions": probe.captions.texts, "shards": shards}
            prior_parts = [sampled(len(readers["train"]), PRIOR_IMAGES)]
            (prior,) = sharded(
                call, group, prior_parts, partial(probe.prior, readers["train"]), metadata, f"{name} train"
            )
            numbers = sampled(len(readers["test"]), job.images)
            parts = [[numbers[n] for n in part] for part in ranges(len(numbers), probe.at_once)]
            classified = partial(probe.classified, readers["test"], prior)
            part_rows = sharded(call, group, parts, classified, metadata, f"{name} test")
            of_probe = [row for part in part_rows for row in part]
            results[name] = {
                "templates": list(probe.captions.templates),
                "first": probe.captions.texts[0][0],
                "classes": len(index["classes"]),
                "skipped": index["skipped"],
                **summary(of_probe, len(index["classes"])),
            }
            rows += of_probe
    if global_rank():
        return
    metadata = {"estimators": job.estimators, "training": run.training, "weights_step": run.weights_step}
    metadata |= {"prior_images": PRIOR_IMAGES, "probes": results}
    # an estimator of no probabilities has no debiased score
    rows = [dict.fromkeys(_COLUMNS) | row for row in rows]
    write_results(call, "zero_shot", {"items.parquet": (rows, _COLUMNS)}, metadata)


def sampled(count: int, limit: int | None) -> list[int]:
    """``limit`` numbers below ``count``, ascending; all of them where there are no more.

    Random, but the same in every call: where classes alternate, every n-th image would miss some of them.
    """
    if limit is None or count <= limit:
        return list(range(count))
    rng = np.random.Generator(np.random.Philox(key=0))
    return sorted(permuted(np.arange(limit), count, rng).tolist())


# --- captions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Captions:
    """A caption for each class and each of the ``templates``: ``texts`` (K, P), and their ``tokens``, class by class."""

    templates: tuple[str, ...]
    texts: list[list[str]]
    tokens: list[list[int]]

    @classmethod
    def of(cls, name: str, index: Mapping[str, Any], class_captions: ClassCaptions, scorer: RunScorer) -> "Captions":
        """The captions of the probe ``name``. UserError for a multi-label probe, a class outside the model's vocabulary, and two
        classes with the same caption."""
        if index["task"] != "single":
            raise UserError(f"probe {name}: its images have several labels each; zero-shot classification needs one")
        labels = class_names(name, index, class_captions)
        templates, texts = class_texts(name, index["source"], labels, class_captions)
        tokens: list[list[int]] = []
        first: dict[tuple[int, ...], str] = {}
        for label, captions in zip(labels, texts, strict=True):
            for caption in captions:
                try:
                    tokens.append(scorer.tokens(caption))
                except UserError as error:
                    raise UserError(f"probe {name}, class {label!r}: {error}") from None
            pieces = tuple(clip_pieces(captions[0]))
            if pieces in first:
                raise UserError(
                    f"probe {name}: the classes {first[pieces]!r} and {label!r} have one caption, {captions[0]!r}; no score can "
                    f"tell them apart, so give one another name (data.probes.{name}.class_captions.names)"
                )
            first[pieces] = label
        return cls(templates, texts, tokens)


def class_names(name: str, index: Mapping[str, Any], class_captions: ClassCaptions) -> list[str]:
    """The class names of the probe ``name``: those of the set, replaced by those of the scale."""
    labels = list(index["classes"])
    for number, label in class_captions.names.items():
        if int(number) >= len(labels):
            raise UserError(
                f"data.probes.{name}.class_captions.names: there is no class {number}; they are numbered 0 to {len(labels) - 1}"
            )
        labels[int(number)] = label
    return labels


def class_texts(
    name: str, source: Mapping[str, Any], labels: Sequence[str], class_captions: ClassCaptions
) -> tuple[tuple[str, ...], list[list[str]]]:
    """The templates of a probe, and of each class its captions by them."""
    used: Sequence[str]
    if class_captions.templates is None and source["kind"] == "scenes":
        phrases = class_phrases(source["task"])
        if phrases is None:
            raise UserError(
                f"probe {name}: the built-in world has no words for its classes; give it templates "
                f"(data.probes.{name}.class_captions)"
            )
        return ("the grammar's own phrase",), [[phrase] for phrase in phrases]
    if isinstance(class_captions.templates, str):
        from open_clip import OPENAI_IMAGENET_TEMPLATES, SIMPLE_IMAGENET_TEMPLATES

        all_80 = class_captions.templates == "open_clip"
        used = [fill("{class}") for fill in (OPENAI_IMAGENET_TEMPLATES if all_80 else SIMPLE_IMAGENET_TEMPLATES)]
    else:
        used = class_captions.templates or [_PHOTO]
    return tuple(used), [[template.replace("{class}", _clean(label)) for template in used] for label in labels]


def _clean(label: str) -> str:
    """A class's name in a caption; underscores of folder names are spaces."""
    return " ".join(label.replace("_", " ").split())


# --- scores -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoredProbe:
    """A probe under one model. An image is encoded once for all captions, and captions of equal length are scored in batches."""

    name: str
    scorer: Any
    captions: Captions
    seed: int

    @property
    def at_once(self) -> int:
        """How many images are scored at a time, and lost at most by a kill."""
        return max(1, min(_IMAGES, _PAIRS // len(self.captions.tokens)))

    def prior(self, reader: ShardReader, numbers: Sequence[int]) -> dict[str, list[float]]:
        """For each estimator of log probabilities, the log of each caption's mean probability over these images."""
        parts = [self._score(reader, numbers[n : n + self.at_once])[1] for n in range(0, len(numbers), self.at_once)]
        scores = {name: torch.cat([part[name] for part in parts]) for name in parts[0] if ESTIMATORS[name].nats}
        return {name: log_mean_probability(part).tolist() for name, part in scores.items()}

    def classified(self, reader: ShardReader, prior: Mapping[str, list[float]], numbers: Sequence[int]) -> list[Row]:
        """A row of ``items.parquet`` for each of these images and each estimator: the class of the highest score, and whether
        it is right (1/k among k equal ones); the same by the debiased score, for probabilities."""
        samples, by = self._score(reader, numbers)
        labels = [label for _, label in samples]
        rows: list[Row] = []
        for name, scores in by.items():
            columns = _chosen(self.of_classes(scores), labels, "best", "value")
            if name in prior:
                corrected = scores - torch.tensor(prior[name], dtype=torch.float64)
                columns |= _chosen(self.of_classes(corrected), labels, "debiased_best", "debiased")
            for place, (key, label) in enumerate(samples):
                head = {"probe": self.name, "estimator": name, "item": key, "label": label}
                rows.append({**head, **{column: values[place] for column, values in columns.items()}})
        return rows

    def of_classes(self, scores: Tensor) -> Tensor:
        """Scores of captions (or of classes) → the means over their templates, (I, K)."""
        return scores.view(len(scores), len(self.captions.texts), -1).mean(dim=-1)

    def _score(self, reader: ShardReader, numbers: Sequence[int]) -> tuple[list[tuple[str, int]], dict[str, Tensor]]:
        """Keys and labels of images, and by estimator their scores with each caption (I, captions), of cosines with each class,
        (I, K). All captions of an image share its masks."""
        samples = [reader.read(number) for number in numbers]
        visual = self.scorer.look(torch.stack([self._picture(key, data) for key, data, _ in samples]))
        draws = [self._draws(f"{reader.split}/{number}") for number in numbers]
        scores = {name: self.scores(name, visual, len(samples), draws) for name in self.scorer.estimators}
        return [(key, record["label"]) for key, _, record in samples], scores

    def scores(self, estimator: str, visual: Any, count: int, draws: Sequence[Draws]) -> Tensor:
        """Of ``count`` images that the scorer has looked at, scores with each caption (I, captions) float64, of cosines with each
        class, (I, K); ``draws``: of each image's masks."""
        captions = self.captions
        if not ESTIMATORS[estimator].nats:
            classes = self.scorer.read(captions.tokens).view(len(captions.texts), len(captions.templates), -1)
            return torch.as_tensor(visual @ F.normalize(classes.mean(dim=1), dim=-1).T).double()
        pairs = [Pair(image, tokens, image) for image in range(count) for tokens in captions.tokens]
        scores = self.scorer.score(estimator, visual, pairs, draws)
        return torch.tensor([score.value for score in scores], dtype=torch.float64).view(count, -1)

    def _picture(self, key: str, data: bytes) -> Tensor:
        return torch.as_tensor(self.scorer.picture(decode_named(data, f"probe {self.name}, image {key}:")))

    def _draws(self, item: str) -> Draws:
        return Draws(f"{self.name}/{item}", self.seed, self.scorer.samples, self.scorer.context_length)


def log_mean_probability(scores: Tensor) -> Tensor:
    """Log probabilities (I, C) of captions with images → the log of each caption's mean probability, (C,)."""
    return scores.logsumexp(dim=0) - math.log(len(scores))


def _chosen(scores: Tensor, labels: list[int], best: str, value: str) -> dict[str, list[Any]]:
    return {best: scores.argmax(dim=1).tolist(), value: per_item_top1(scores.numpy(), labels).tolist()}


def summary(rows: list[Row], classes: int) -> dict[str, Any]:
    """Of a probe's rows: n; in per cent chance, the most frequent class, and by estimator top-1 of either score."""
    by: dict[str, list[Row]] = {}
    for row in rows:
        by.setdefault(row["estimator"], []).append(row)
    items = next(iter(by.values()))
    commonest = Counter(row["label"] for row in items).most_common(1)[0][1]

    def top1(group: list[Row], key: str) -> float | None:
        return 100 * sum(row[key] for row in group) / len(group) if key in group[0] else None

    return {
        "n": len(items),
        "chance": 100 / classes,
        "most_frequent": 100 * commonest / len(items),
        "top1": {name: {key: top1(group, key) for key in ("value", "debiased")} for name, group in by.items()},
    }
