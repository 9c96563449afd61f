"""Scores of some items of a choice set: each option with its own image, mismatched images and one of the mean colour.

Equal options of an item are scored once. Mismatched images are the same for all options, estimators and methods: they
depend only on the set, the item and the seed.
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
    """One option of an item under one estimator. ``same_as`` is the first option with the same tokens.

    ``own``, ``constant``, ``others``: its scores with the item's image, the one of the mean colour, and each mismatched image;
    ``mismatched``, ``mismatched_mean``: the table's controls (docs/scoring.md). ``pieces``: count of its BPE tokens;
    ``unseen``: count of those that are in no training caption.
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
    """A choice set for a scorer. ``trained``: the CLIP tokens of the model's training captions, None: all.

    ``pairs``: the item of each sample, in a set of items with two images (:mod:`mdc.data.sources.choices.two_images`).
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


def score_items(scorer: Scorer, questions: Questions, numbers: Sequence[int]) -> tuple[list[Option], list[str]]:
    """All options of the items ``numbers`` under all of the scorer's estimators, and the items left out as too long."""
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
        shown, *blind = (pictures.place(n) for n in (number, *questions.other_items(number)))
        images = [shown, pictures.mean_colour, *blind]
        for tokens in _distinct(options):
            pairs += [Pair(image, tokens, len(draws)) for image in images]
        entries.append((key, record, options, images))
        draws.append(questions.draws(number))
    if not entries:
        return [], too_long
    seen_images = scorer.look(torch.stack(pictures.pictures))
    scored: list[Option] = []
    for estimator in scorer.estimators:
        scores = iter(scorer.score(estimator, seen_images, pairs, draws))
        for key, record, options, images in entries:
            by_tokens = {tokens: list(islice(scores, len(images))) for tokens in _distinct(options)}
            for number, ids in enumerate(options):
                own, constant, *others = by_tokens[tuple(ids)]
                pieces = clip_pieces(record["options"][number])
                scored.append(
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
    return scored, too_long


def _distinct(options: Sequence[list[int]]) -> list[tuple[int, ...]]:
    return list(dict.fromkeys(tuple(tokens) for tokens in options))


class _Pictures:
    """The distinct pictures of some items."""

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
            **{key: getattr(option, key) for key in _OF_OPTION},
            "score": option.own.value,
            "error": option.own.error,
            "constant": option.constant.value,
            "constant_error": option.constant.error,
            "others": [score.value for score in option.others],
            "others_error": [score.error for score in option.others],
            "mismatched_error": blind.error,
            "mismatched_covariance": blind.covariance,
            "mismatched_mean_error": option.mismatched_mean.error,
        }
        for option in options
        for blind in [option.mismatched]
    ]
