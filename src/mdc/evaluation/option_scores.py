"""Scores of a few items of a choice set: each option against its own image, other images and one of the mean colour.

An item's equal options are scored once. The other images are the same for all options, estimators and methods: they
depend on the set, the item and the seed alone.
"""

from __future__ import annotations

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
from mdc.evaluation.predictors.blind import Blind, log_mean_probability, mean_score
from mdc.evaluation.predictors.caption_scores import Pair, Scored
from mdc.evaluation.predictors.draws import Draws
from mdc.evaluation.predictors.score import Scorer, TooLong
from mdc.evaluation.row_files import Columns, Row
from mdc.models.normalise import OPENAI_MEAN
from mdc.models.text import clip_pieces
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.records import UserError

SPLIT = "test"


@dataclass(frozen=True)
class Option:
    """One option of an item under one estimator. ``same_as`` is the first option that is the same caption to the model.

    ``own``, ``constant``, ``others``: its scores against the item's image, the one of the mean colour, and each other image;
    ``mismatched``, ``mismatched_mean``: what the table takes of the last (docs/scoring.md). ``pieces``: its BPE tokens;
    ``unseen``: those of them that no training caption had.
    """

    item: str
    image: str
    group: str
    option: int
    same_as: int
    pieces: int
    unseen: int
    estimator: str
    own: Scored
    constant: Scored
    others: tuple[Scored, ...]

    @property
    def mismatched(self) -> Blind:
        nats = ESTIMATORS[self.estimator].nats
        return (log_mean_probability if nats else mean_score)(self.own, self.others)

    @property
    def mismatched_mean(self) -> Blind:
        return mean_score(self.own, self.others)


@dataclass(frozen=True)
class Questions:
    """A choice set as a scorer meets it. ``trained``: the CLIP pieces that the model's training captions had, None: all.

    ``pairs``: of a set of items with two images (:mod:`mdc.data.sources.choices.two_images`) each sample's item.
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
    def open(cls, name: str, path: Path, **values: Any) -> Questions:
        """The set whose index is ``path``."""
        reader = ShardReader(path, SPLIT)
        records = [reader.read(number)[2] for number in range(len(reader))]
        pairs = [record["group"] for record in records] if reader.index.get("paired") else None
        return cls(name, reader, [record["image"] for record in records], **values, pairs=pairs)

    def of_pair(self, number: int) -> list[int]:
        """The items that share masks and other images with item ``number``: of a paired set its two images, else itself alone."""
        if self.pairs is None:
            return [number]
        return [n for n in range(max(number - 1, 0), number + 2) if self.pairs[n : n + 1] == [self.pairs[number]]]

    def other_items(self, number: int) -> list[int]:
        """Items whose images stand in for that of item ``number``: of other images than its own, no image twice."""
        shown = self.of_pair(number)
        own = {self.images[place] for place in shown}
        digest = hashlib.blake2b(f"{self.seed} others {self.name} {shown[0]}".encode(), digest_size=16).digest()
        rng = np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))
        found: dict[str, int] = {}
        for place in rng.permutation(len(self.images)).tolist():
            if self.images[place] not in own:
                found.setdefault(self.images[place], place)
            if len(found) == self.others:
                return list(found.values())
        raise UserError(
            f"choice set {self.name}: has {len(found)} images besides that of item {number}, and {self.others} are asked for "
            "(score.mismatched); ask for fewer"
        )

    def draws(self, number: int) -> Draws:
        """The masks of an item."""
        return Draws(f"{self.name}/{self.of_pair(number)[0]}", self.seed, self.samples, self.context_length)


def score_items(scorer: Scorer, questions: Questions, numbers: Sequence[int]) -> tuple[list[Option], list[str]]:
    """All options of the items ``numbers`` under all of the scorer's estimators, and the items left out for their length."""
    pictures = _Pictures(scorer, questions)
    pairs: list[Pair] = []
    asked: list[tuple[str, dict[str, Any], list[list[int]], list[int]]] = []
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
        shown, *blind = (pictures.place(one) for one in (number, *questions.other_items(number)))
        images = [shown, pictures.mean_colour, *blind]
        for tokens in _distinct(options):
            pairs += [Pair(image, tokens, len(draws)) for image in images]
        asked.append((key, record, options, images))
        draws.append(questions.draws(number))
    if not asked:
        return [], too_long
    seen_images = scorer.look(torch.stack(pictures.pictures))
    found: list[Option] = []
    for estimator in scorer.estimators:
        scores = iter(scorer.score(estimator, seen_images, pairs, draws))
        for key, record, options, images in asked:
            by_tokens = {tokens: list(islice(scores, len(images))) for tokens in _distinct(options)}
            for number, ids in enumerate(options):
                own, constant, *others = by_tokens[tuple(ids)]
                pieces = clip_pieces(record["options"][number])
                found.append(
                    Option(
                        key,
                        record["image"],
                        record["group"],
                        number,
                        options.index(ids),
                        len(pieces),
                        0 if questions.trained is None else sum(piece not in questions.trained for piece in pieces),
                        estimator,
                        own,
                        constant,
                        tuple(others),
                    )
                )
    return found, too_long


def _distinct(options: Sequence[list[int]]) -> list[tuple[int, ...]]:
    return list(dict.fromkeys(tuple(tokens) for tokens in options))


class _Pictures:
    """The pictures that some items are scored with, each once however many items show it."""

    mean_colour = 0  # its place

    def __init__(self, scorer: Scorer, questions: Questions) -> None:
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


def picture(scorer: Scorer, questions: Questions, number: int) -> torch.Tensor:
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


#: columns that an Option has as they are
_OF_OPTION = {
    **{"item": "string", "image": "string", "group": "word", "option": "int16", "same_as": "int16", "pieces": "int16"},
    **{"unseen": "int16", "estimator": "word"},
}
#: columns of ``scores.parquet``
COLUMNS: Columns = {
    **{"set": "word", **_OF_OPTION, "score": "float64", "error": "float64"},
    **{"constant": "float64", "constant_error": "float64", "others": ["float64"], "others_error": ["float64"]},
    **dict.fromkeys(("mismatched_error", "mismatched_covariance", "mismatched_mean_error"), "float64"),
}


def table_rows(name: str, options: Sequence[Option]) -> list[Row]:
    """The options of a set as rows of ``scores.parquet``."""
    return [
        {
            "set": name,
            **{key: getattr(one, key) for key in _OF_OPTION},
            "score": one.own.value,
            "error": one.own.error,
            "constant": one.constant.value,
            "constant_error": one.constant.error,
            "others": [other.value for other in one.others],
            "others_error": [other.error for other in one.others],
            "mismatched_error": blind.error,
            "mismatched_covariance": blind.covariance,
            "mismatched_mean_error": one.mismatched_mean.error,
        }
        for one in options
        for blind in [one.mismatched]
    ]
