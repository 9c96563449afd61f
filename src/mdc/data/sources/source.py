"""Sources of samples: a source is opened once, and then gives the samples of its splits, the same in every run.

A source is described by a mapping with a ``kind``; :mod:`mdc.plan.config.kinds.known` has a class for each, which checks and
completes its keys, and names its module. That module's ``open_source(source, data_dir)`` takes the
complete mapping, and reads at once what all splits need (tables, lists, class names). A bad sample is left out and counted by
its reason; a bad file is a UserError.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from mdc.data.formats.samples import ChoiceSample, RawSample, Shortcut, Skipped
from mdc.plan.config.kinds.kind import Kind
from mdc.plan.config.kinds.known import CHOICES, CORPORA, PROBES
from mdc.plan.config.kinds.sources import CaptionList
from mdc.plan.data_folder import Links

Sample = TypeVar("Sample", covariant=True)
#: newer keys, which are left out of an index while they are unset
_LATER = frozenset({"image_size", "delimiter", "val_fraction", "image_column"})


class Source(ABC, Generic[Sample]):
    """An open source. ``config`` is the mapping that describes it, as in a set's index.

    Of labelled sets, ``classes`` are the class names in the order of the labels; ``task`` is "multi" if an image can have
    several of them, otherwise "single"; with ``labelled_by_people``, a class that is missing from one split is an error.
    ``facts``: further entries of the index, on which the samples depend besides the source and its files. ``links``: what was met
    of links among a person's own files. ``image_size``: images with a longer shorter side are resized. With ``named``,
    images are a person's own files, whose names a set keeps.
    """

    classes: list[str]
    task: Literal["single", "multi"] = "single"
    labelled_by_people: bool = False
    named: bool = False
    facts: Mapping[str, Any] = {}

    def __init__(self, config: Mapping[str, Any], data_dir: Path = Path()) -> None:
        self.config = {key: value for key, value in config.items() if value is not None or key not in _LATER}
        self.data_dir = data_dir
        self.links = Links()
        self.image_size: int | None = self.config.get("image_size")
        self.classes = []

    def shortcuts(self) -> list[Shortcut]:
        """The accuracy of answers that do not need what the set tests, the best of each kind; empty if unknown."""
        return []

    @abstractmethod
    def samples(self, split: str, skipped: Skipped) -> Iterator[Sample]:
        """The samples of one split in a fixed order; ``skipped`` counts those that are left out."""


def open_corpus(source: Mapping[str, Any], data_dir: str | Path) -> Source[RawSample]:
    """Captioned images. UserError for files that are missing or cannot be read."""
    return _opened(CORPORA, source, data_dir)


def open_probe(source: Mapping[str, Any], data_dir: str | Path) -> Source[RawSample]:
    """Labelled images; errors as ``open_corpus``."""
    return _opened(PROBES, source, data_dir)


def open_choices(source: Mapping[str, Any], data_dir: str | Path) -> Source[ChoiceSample]:
    """Images with a right caption and wrong ones; they have one split. Errors as ``open_corpus``."""
    return _opened(CHOICES, source, data_dir)


def open_texts(source: Mapping[str, Any], data_dir: str | Path) -> Source[list[str]]:
    """Captions without images: the unchanged captions of each row. Errors as ``open_corpus``."""
    return _opened({"caption_list": CaptionList}, source, data_dir)


def _opened(kinds: Mapping[str, type[Kind]], source: Mapping[str, Any], data_dir: str | Path) -> Any:
    opened = kinds[source["kind"]].load().open_source(source, Path(data_dir))
    opened.links.say(f"{source['kind']} {source.get('path')}")
    for name, links in (("broken_links", opened.links.broken), ("repeated_links", opened.links.again)):
        if paths := sorted(os.path.relpath(link, data_dir) for link in links):
            opened.facts = {**opened.facts, name: {"count": len(paths), "first": paths[0]}}
    return opened
