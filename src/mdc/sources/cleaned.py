"""Sources whose captions are cleaned on their way, all in the same manner (see :mod:`mdc.formats.captions`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from mdc.formats.captions import clean_caption, clean_captions
from mdc.formats.samples import ChoiceSample, RawSample, Skipped
from mdc.sources.source import Source
from mdc.text import clip_pieces


class Found(NamedTuple):
    """An image of a corpus as it was found: ``file`` says where, ``image`` is encoded bytes, ``captions`` as they stand."""

    key: str
    file: str
    image: bytes
    extension: str
    captions: list[str]


class CaptionedImages(Source[RawSample]):
    """A corpus: a sample without a caption that has a word is left out and counted."""

    @abstractmethod
    def found(self, split: str, skipped: Skipped) -> Iterator[Found]:
        """The images of one split in a fixed order."""

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        mode, most = self.config["caption_mode"], self.config["max_pieces"]
        for key, file, image, extension, texts in self.found(split, skipped):
            captions = clean_captions(texts, mode, most)
            if captions:
                yield RawSample(key, image, extension, captions)
            else:
                skipped.add("no caption", key, file, repr(texts[0]) if texts else "")


class Choices(Source[ChoiceSample]):
    """A choice set: a sample with an option that has no word is left out and counted."""

    @abstractmethod
    def found(self, skipped: Skipped) -> Iterator[ChoiceSample]:
        """The samples in the order of the published file."""

    def samples(self, split: str, skipped: Skipped) -> Iterator[ChoiceSample]:
        for sample in self.found(skipped):
            options = tuple(map(clean_caption, sample.options))
            if all(map(clip_pieces, options)):
                yield replace(sample, options=options)
            else:
                skipped.add("no caption", sample.key, sample.id, repr(sample.options)[:200])
