"""Scores of some items of a choice set: each option with its own image, mismatched images and one of the mean colour.

Equal options of an item are scored once. Mismatched images are the same for all options, estimators and methods: they
depend only on the set, the item and the seed.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from mdc.data.formats.images import decode_named
from mdc.data.shards.index import ShardReader
from mdc.evaluation.predictors.caption_scores import Draws, Pair
from mdc.evaluation.predictors.mismatched import log_mean_probability, mean_score
from mdc.evaluation.predictors.score import RunScorer, TooLong
from mdc.evaluation.row_files import Columns, Row
from mdc.models.normalise import OPENAI_MEAN
from mdc.models.text import clip_pieces
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.records import UserError

SPLIT = "test"
#: columns of ``scores.parquet``, a row for each option under each estimator. ``same_as``: the first option with the same tokens;
#: ``pieces``: its BPE tokens; ``unseen``: those that are in no training caption; ``score``, ``constant``, ``others``: with the
#: item's image, the one of the mean colour, each mismatched image; ``mismatched…``: of the controls (docs/scoring.md)
COLUMNS: Columns = {
    **{"set": "word", "item": "string", "image": "string", "group": "word", "option": "int16", "same_as": "int16"},
    **{"pieces": "int16", "unseen": "int16", "estimator": "word", "score": "float64", "error": "float64"},
    **{"constant": "float64", "constant_error": "float64", "others": ["float64"], "others_error": ["float64"]},
    **dict.fromkeys(("mismatched_error", "mismatched_covariance", "mismatched_mean_error"), "float64"),
}


@dataclass(frozen=True)
class Questions:
    """A choice set for a scorer. ``trained``: the CLIP tokens of the model's training captions, None: all.

    ``pairs``: the item of each sample, in a set of items with two images, as Winoground's.
    """

    name: str
    reader: ShardReader
    images: Sequence[str]
    trained: frozenset[int] | None
    seed: int
    others: int
    samples: int
    context_length: int
    pairs: Sequence[str] | None = None

    @classmethod
    def open(cls, name: str, path: Path, **values: Any) -> "Questions":
        """The set whose index is ``path``."""
        reader = ShardReader(path, SPLIT)
        records = [reader.read(number)[2] for number in range(len(reader))]
        pairs = [record["group"] for record in records] if reader.index.get("paired") else None
        return cls(name, reader, [record["image"] for record in records], **values, pairs=pairs)

    def of_pair(self, number: int) -> list[int]:
        """The samples that share masks and mismatched images with sample ``number``: both of a pair, else itself alone."""
        if self.pairs is None:
            return [number]
        return [n for n in range(max(number - 1, 0), number + 2) if self.pairs[n : n + 1] == [self.pairs[number]]]

    def other_items(self, number: int) -> list[int]:
        """Items with the mismatched images of item ``number``: distinct, and none its own."""
        pair = self.of_pair(number)
        own_images = {self.images[place] for place in pair}
        digest = hashlib.blake2b(f"{self.seed} others {self.name} {pair[0]}".encode(), digest_size=16).digest()
        rng = np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))
        items: dict[str, int] = {}
        for place in rng.permutation(len(self.images)).tolist():
            if self.images[place] not in own_images:
                items.setdefault(self.images[place], place)
            if len(items) == self.others:
                return list(items.values())
        raise UserError(
            f"choice set {self.name}: has {len(items)} images besides that of item {number}; "
            f"score.mismatched needs {self.others}; choose fewer"
        )

    def draws(self, number: int) -> Draws:
        """The masks of an item."""
        return Draws(f"{self.name}/{self.of_pair(number)[0]}", self.seed, self.samples, self.context_length)


def score_items(scorer: RunScorer, questions: Questions, numbers: Sequence[int]) -> tuple[list[Row], list[str]]:
    """The rows of all options of the items ``numbers`` under all of the scorer's estimators, and the items left out as too
    long."""
    pictures = _Pictures(scorer, questions)
    pairs: list[Pair] = []
    entries: list[tuple[str, dict[str, Any], list[list[int]], list[int]]] = []
    too_long: list[str] = []
    draws: list[Draws] = []
    for number in numbers:
        key, _, record = questions.reader.read(number)
        try:
            options = [scorer.tokens(text) for text in record["options"]]
        except TooLong:
            too_long.append(key)
            continue
        except UserError as error:
            raise UserError(f"choice set {questions.name}, item {key}: {error}") from None
        shown, *of_others = (pictures.place(n) for n in (number, *questions.other_items(number)))
        images = [shown, pictures.mean_colour, *of_others]
        for tokens in _distinct(options):
            pairs += [Pair(image, tokens, len(draws)) for image in images]
        entries.append((key, record, options, images))
        draws.append(questions.draws(number))
    if not entries:
        return [], too_long
    seen_images = scorer.look(torch.stack(pictures.pictures))
    rows: list[Row] = []
    for estimator in scorer.estimators:
        scores = iter(scorer.score(estimator, seen_images, pairs, draws))
        control = log_mean_probability if ESTIMATORS[estimator].nats else mean_score
        for key, record, options, images in entries:
            by_tokens = {tokens: list(islice(scores, len(images))) for tokens in _distinct(options)}
            for number, ids in enumerate(options):
                own, constant, *others = by_tokens[tuple(ids)]
                pieces, mismatched = clip_pieces(record["options"][number]), control(own, others)
                rows.append(
                    {
                        "set": questions.name,
                        "item": key,
                        "image": record["image"],
                        "group": record["group"],
                        "option": number,
                        "same_as": options.index(ids),
                        "pieces": len(pieces),
                        "unseen": 0
                        if (seen := questions.trained) is None
                        else sum(piece not in seen for piece in pieces),
                        "estimator": estimator,
                        "score": own.value,
                        "error": own.error,
                        "constant": constant.value,
                        "constant_error": constant.error,
                        "others": [score.value for score in others],
                        "others_error": [score.error for score in others],
                        "mismatched_error": mismatched.error,
                        "mismatched_covariance": mismatched.covariance,
                        "mismatched_mean_error": mean_score(own, others).error,
                    }
                )
    return rows, too_long


def _distinct(options: Sequence[list[int]]) -> list[tuple[int, ...]]:
    return list(dict.fromkeys(tuple(tokens) for tokens in options))


class _Pictures:
    """The distinct pictures of some items."""

    mean_colour = 0  # its place

    def __init__(self, scorer: RunScorer, questions: Questions) -> None:
        self.scorer, self.questions = scorer, questions
        colour = tuple(round(255 * share) for share in OPENAI_MEAN)
        self.pictures = [scorer.picture(Image.new("RGB", (64, 64), colour))]
        self.places: dict[tuple[bytes, tuple[float, ...]], int] = {}

    def place(self, number: int) -> int:
        """The place among ``pictures`` of the item's image; the same bytes and box are the same picture."""
        _, data, record = self.questions.reader.read(number)
        same = hashlib.blake2b(data, digest_size=16).digest(), tuple(record.get("box") or ())
        if same not in self.places:
            self.places[same] = len(self.pictures)
            self.pictures.append(picture(self.scorer, self.questions, number))
        return self.places[same]


def picture(scorer: RunScorer, questions: Questions, number: int) -> torch.Tensor:
    """The item's image, cropped to its box if it has one."""
    key, data, record = questions.reader.read(number)
    image = decode_named(data, f"choice set {questions.name}, item {key}: its image")
    return scorer.picture(boxed(image, record.get("box")))


def boxed(image: Image.Image, box: Sequence[float] | None) -> Image.Image:
    """The image within ``box`` (left, top, width, height), as ARO crops it; all of it without a box."""
    if box is None:
        return image
    left, top, width, height = box
    return image.crop((left, top, left + width, top + height))
