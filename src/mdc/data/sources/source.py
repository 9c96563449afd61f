"""Where samples come from: a source is opened once, and then gives the samples of its splits, the same in every run.

A source is described by a mapping with a ``kind``; :mod:`mdc.plan.config.sources` has a class for each, which checks its keys
and completes them, and :mod:`mdc.plan.parts` names the module of each. That module's ``open_source(source, data_dir)`` takes a
mapping that is complete, and reads at once what all splits need (tables, lists, class names). One bad sample is counted
by its reason and left out; a bad file is a UserError.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from mdc.data.formats.samples import ChoiceSample, RawSample, Shortcut, Skipped
from mdc.plan import parts

Sample = TypeVar("Sample", covariant=True)
#: keys that came later: an index says nothing of those that are not given, as before
_LATER = frozenset({"image_size", "delimiter", "val_fraction", "image_column"})


class Source(ABC, Generic[Sample]):
    """An open source. ``config`` is the mapping that describes it, as the index of a set shows it.

    Of labelled sets, ``classes`` are the class names in the order of the labels; ``task`` is "multi" where an image can have
    several of them, otherwise "single"; ``labelled_by_people`` says that a split may lack a class by somebody's mistake,
    which is then looked for. ``facts``: what the making depends on besides the source and its files, for the index.
    ``image_size``: images with a longer shorter side are made smaller.
    """

    classes: list[str]
    task: Literal["single", "multi"] = "single"
    labelled_by_people: bool = False
    facts: Mapping[str, Any] = {}

    def __init__(self, config: Mapping[str, Any], data_dir: Path = Path()) -> None:
        self.config = {key: value for key, value in config.items() if value is not None or key not in _LATER}
        self.data_dir = data_dir
        self.image_size: int | None = self.config.get("image_size")
        self.classes = []

    def shortcuts(self) -> list[Shortcut]:
        """What is right without what the set asks, the best of each kind; none where nobody can know."""
        return []

    @abstractmethod
    def samples(self, split: str, skipped: Skipped) -> Iterator[Sample]:
        """The samples of one split in a fixed order; ``skipped`` takes account of those that are left out."""


def open_corpus(source: Mapping[str, Any], data_dir: str | Path) -> Source[RawSample]:
    """Captioned images. UserError for files that are missing or cannot be read."""
    return _opened(parts.CORPORA, source, data_dir)


def open_probe(source: Mapping[str, Any], data_dir: str | Path) -> Source[RawSample]:
    """Labelled images; errors as ``open_corpus``."""
    return _opened(parts.PROBES, source, data_dir)


def open_choices(source: Mapping[str, Any], data_dir: str | Path) -> Source[ChoiceSample]:
    """Images with a right caption and wrong ones; they have one split. Errors as ``open_corpus``."""
    return _opened(parts.CHOICES, source, data_dir)


def open_texts(source: Mapping[str, Any], data_dir: str | Path) -> Source[list[str]]:
    """Captions without images: the captions of each row, as the files hold them. Errors as ``open_corpus``."""
    return _opened(parts.TEXTS, source, data_dir)


def _opened(kinds: Mapping[str, str], source: Mapping[str, Any], data_dir: str | Path) -> Any:
    return parts.load(kinds, source["kind"]).open_source(source, Path(data_dir))
