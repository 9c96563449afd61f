"""The job ``mdc score-classes``: images of labelled sets, each scored with a caption of every class (zero-shot classification).

A class's caption is a template with its name. Cosines are averaged over templates as open_clip does it: a class is the mean of
its captions' unit embeddings, made a unit again. Log probabilities are averaged as they are, so that every template counts
alike; of a mean of probabilities the likeliest template, mostly the shortest, would decide alone.

A caption's *debiased* score is its score less the log of its mean probability over ``PRIOR_IMAGES`` training images of the set,
drawn at random: what the caption's words alone say is taken off. Writes ``items.parquet``, a row an image and estimator, and last
``zero_shot.json``.
"""

from __future__ import annotations

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
from mdc.evaluation.asked_models import scored_run
from mdc.evaluation.parts import device_of, identity_of, ranges, sharded
from mdc.evaluation.predictors.caption_scores import Pair
from mdc.evaluation.predictors.draws import Draws
from mdc.evaluation.predictors.score import Scorer
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
        for name, how in job.probes.items():
            path = call.input(f"data/probes/{name}")
            index = read_index(path, verify="auto", kind="probe")
            asked = Asked(name, run.scorer, Captions.of(name, index, how, run.scorer), job.scoring.seed)
            readers = {split: ShardReader(path, split) for split in ("train", "test")}
            shards = [shard["sha256"] for split in readers for shard in index["splits"][split]["shards"]]
            told = {**identity, "set": name, "captions": asked.captions.texts, "shards": shards}
            before = [drawn(len(readers["train"]), PRIOR_IMAGES)]
            (prior,) = sharded(call, group, before, partial(asked.prior, readers["train"]), told, f"{name} train")
            numbers = drawn(len(readers["test"]), job.images)
            parts = [[numbers[n] for n in part] for part in ranges(len(numbers), asked.at_once)]
            classified = partial(asked.classified, readers["test"], prior)
            found = sharded(call, group, parts, classified, told, f"{name} test")
            of_probe = [row for part in found for row in part]
            results[name] = {
                "templates": list(asked.captions.templates),
                "first": asked.captions.texts[0][0],
                "classes": len(index["classes"]),
                "skipped": index["skipped"],
                **summary(of_probe, len(index["classes"])),
            }
            rows += of_probe
    if global_rank():
        return
    told = {"estimators": job.estimators, "training": run.training, "weights_step": run.weights_step}
    told |= {"prior_images": PRIOR_IMAGES, "probes": results}
    # an estimator of no probabilities has no debiased score
    rows = [dict.fromkeys(_COLUMNS) | row for row in rows]
    write_results(call, "zero_shot", {"items.parquet": (rows, _COLUMNS)}, told)


def drawn(count: int, most: int | None) -> list[int]:
    """``most`` numbers below ``count``, ascending; all of them where there are no more.

    Drawn at random, and the same ones in every call: of a set whose classes take turns, every n-th image would miss some of them.
    """
    if most is None or count <= most:
        return list(range(count))
    rng = np.random.Generator(np.random.Philox(key=0))
    return sorted(permuted(np.arange(most), count, rng).tolist())


# --- captions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Captions:
    """Of each class a caption for each of the ``templates``: ``texts`` (K, P), and their ``tokens``, class by class."""

    templates: tuple[str, ...]
    texts: list[list[str]]
    tokens: list[list[int]]

    @classmethod
    def of(cls, name: str, index: Mapping[str, Any], how: ClassCaptions, scorer: Scorer) -> Captions:
        """Those of the probe ``name``. UserError for a probe of several labels an image, a class without words or outside the
        model's vocabulary, and two classes that are one caption."""
        if index["task"] != "single":
            raise UserError(f"probe {name}: its images have several labels each; zero-shot classification needs one")
        labels = class_names(name, index, how)
        said, texts = class_texts(name, index["source"], labels, how)
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
        return cls(said, texts, tokens)


def class_names(name: str, index: Mapping[str, Any], how: ClassCaptions) -> list[str]:
    """What the classes of the probe ``name`` are called: as in the set, or as the scale says."""
    labels = list(index["classes"])
    for number, label in how.names.items():
        if int(number) >= len(labels):
            raise UserError(
                f"data.probes.{name}.class_captions.names: there is no class {number}; they are numbered 0 to {len(labels) - 1}"
            )
        labels[int(number)] = label
    return labels


def class_texts(
    name: str, source: Mapping[str, Any], labels: Sequence[str], how: ClassCaptions
) -> tuple[tuple[str, ...], list[list[str]]]:
    """The templates of a probe, and of each class its captions by them."""
    used: Sequence[str]
    if how.templates is None and source["kind"] == "scenes":
        phrases = class_phrases(source["task"])
        if phrases is None:
            raise UserError(
                f"probe {name}: the built-in world has no words for its classes; give it templates "
                f"(data.probes.{name}.class_captions)"
            )
        return ("the grammar's own phrase",), [[phrase] for phrase in phrases]
    if how.templates == "open_clip":
        from open_clip import OPENAI_IMAGENET_TEMPLATES

        used = [fill("{class}") for fill in OPENAI_IMAGENET_TEMPLATES]
    else:
        used = how.templates or [_PHOTO]
    return tuple(used), [[one.replace("{class}", _clean(label)) for one in used] for label in labels]


def _clean(label: str) -> str:
    """A class's name as a caption has it; in names of folders lines stand for spaces."""
    return " ".join(label.replace("_", " ").split())


# --- scores -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A probe under one model. An image is read once for all captions, and all captions of a length are scored in batches."""

    name: str
    scorer: Any
    captions: Captions
    seed: int

    @property
    def at_once(self) -> int:
        """How many images are scored at a time, and lost at most by a kill."""
        return max(1, min(_IMAGES, _PAIRS // len(self.captions.tokens)))

    def prior(self, reader: ShardReader, numbers: Sequence[int]) -> dict[str, list[float]]:
        """By estimator of log probabilities, of each caption the log of its mean probability over these images."""
        parts = [self._score(reader, numbers[n : n + self.at_once])[1] for n in range(0, len(numbers), self.at_once)]
        scores = {name: torch.cat([one[name] for one in parts]) for name in parts[0] if ESTIMATORS[name].nats}
        return {name: log_mean_probability(one).tolist() for name, one in scores.items()}

    def classified(self, reader: ShardReader, prior: Mapping[str, list[float]], numbers: Sequence[int]) -> list[Row]:
        """A row of ``items.parquet`` for each of these images and each estimator: the class of the highest score, and whether
        it is right (of k equal ones 1/k); the same by the debiased score, where there is a probability."""
        samples, by = self._score(reader, numbers)
        labels = [label for _, label in samples]
        found: list[Row] = []
        for name, scores in by.items():
            told = _chosen(self.of_classes(scores), labels, "best", "value")
            if name in prior:
                less = scores - torch.tensor(prior[name], dtype=torch.float64)
                told |= _chosen(self.of_classes(less), labels, "debiased_best", "debiased")
            for place, (key, label) in enumerate(samples):
                head = {"probe": self.name, "estimator": name, "item": key, "label": label}
                found.append({**head, **{column: values[place] for column, values in told.items()}})
        return found

    def of_classes(self, scores: Tensor) -> Tensor:
        """Scores of captions (or of classes) → the means over their templates, (I, K)."""
        return scores.view(len(scores), len(self.captions.texts), -1).mean(dim=-1)

    def _score(self, reader: ShardReader, numbers: Sequence[int]) -> tuple[list[tuple[str, int]], dict[str, Tensor]]:
        """Keys and labels of images, and by estimator their scores with each caption (I, captions), of cosines with each class,
        (I, K). All captions of an image share its masks."""
        samples = [reader.read(number) for number in numbers]
        seen = self.scorer.look(torch.stack([self._picture(key, data) for key, data, _ in samples]))
        draws = [self._draws(f"{reader.split}/{number}") for number in numbers]
        scores = {name: self.scores(name, seen, len(samples), draws) for name in self.scorer.estimators}
        return [(key, record["label"]) for key, _, record in samples], scores

    def scores(self, estimator: str, seen: Any, count: int, draws: Sequence[Draws]) -> Tensor:
        """Of ``count`` images that the scorer has looked at, scores with each caption (I, captions) float64, of cosines with each
        class, (I, K); ``draws``: of each image's masks."""
        captions = self.captions
        if not ESTIMATORS[estimator].nats:
            classes = self.scorer.read(captions.tokens).view(len(captions.texts), len(captions.templates), -1)
            return torch.as_tensor(seen @ F.normalize(classes.mean(dim=1), dim=-1).T).double()
        pairs = [Pair(image, tokens, image) for image in range(count) for tokens in captions.tokens]
        scores = self.scorer.score(estimator, seen, pairs, draws)
        return torch.tensor([one.value for one in scores], dtype=torch.float64).view(count, -1)

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
    """Of a probe's rows: n; in per cent what guessing and the most frequent class get, and by estimator top-1 of either score."""
    by: dict[str, list[Row]] = {}
    for row in rows:
        by.setdefault(row["estimator"], []).append(row)
    one = next(iter(by.values()))
    commonest = Counter(row["label"] for row in one).most_common(1)[0][1]

    def top1(own: list[Row], key: str) -> float | None:
        return 100 * sum(row[key] for row in own) / len(own) if key in own[0] else None

    return {
        "n": len(one),
        "chance": 100 / classes,
        "most_frequent": 100 * commonest / len(one),
        "top1": {name: {key: top1(own, key) for key in ("value", "debiased")} for name, own in by.items()},
    }
