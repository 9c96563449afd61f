"""Sources whose captions are cleaned on their way, all in the same manner (see :mod:`mdc.data.formats.captions`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from mdc.data.formats.captions import clean_caption, clean_captions
from mdc.data.formats.reading import Reader, with_images
from mdc.data.formats.samples import ChoiceSample, RawSample, Skipped
from mdc.data.sources.source import Source
from mdc.models.text import has_piece


class Found(NamedTuple):
    """An image of a corpus as it was found: ``file`` says where, ``read`` reads it, ``captions`` as they stand."""

    key: str
    file: str
    read: Reader
    captions: list[str]
    split: str = ""


class CaptionedImages(Source[RawSample]):
    """A corpus: a sample without a caption that has a word is left out and counted. So many ``threads`` read its images, None:
    one for each core."""

    threads: int | None = None

    @abstractmethod
    def found(self, split: str, skipped: Skipped) -> Iterator[Found]:
        """The images of one split in a fixed order."""

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        for _, sample in self._read(partial(self.found, split), skipped):
            yield sample

    def _read(self, found: Callable[[Skipped], Iterator[Found]], skipped: Skipped) -> Iterator[tuple[str, RawSample]]:
        """(split, sample) of those found whose image is good and of whose captions one has a word."""
        for one, image, extension in with_images(found, skipped, self.image_size, self.threads):
            captions = clean_captions(one.captions, self.config["caption_mode"], self.config["max_pieces"])
            if captions:
                yield one.split, RawSample(one.key, image, extension, captions)
            else:
                skipped.add("no caption", one.key, one.file, repr(one.captions[0]) if one.captions else "")


class InParts(CaptionedImages):
    """A corpus that lies in files of which each can be read alone: its parts, numbered from 0.

    Parts are what jobs and processes share among them; each becomes a shard of each split, whoever makes it.
    """

    @property
    @abstractmethod
    def parts(self) -> int:
        """How many parts there are."""

    @abstractmethod
    def seal(self, part: int) -> Any:
        """What changes when somebody changes the part's files, as JSON has it: names, sizes, times of change."""

    def is_cut(self, part: int) -> bool:
        """Whether this corpus takes the beginning of the part alone."""
        return False

    @abstractmethod
    def found_in(self, part: int, splits: Collection[str], skipped: Skipped) -> Iterator[Found]:
        """The images of one part in a fixed order, each with its ``split``, of ``splits`` alone.

        ``skipped.split`` is the split of whatever is left out.
        """

    def found(self, split: str, skipped: Skipped) -> Iterator[Found]:
        for part in range(self.parts):
            yield from self.found_in(part, {split}, skipped)

    def samples_in(self, part: int, splits: Collection[str], skipped: Skipped) -> Iterator[tuple[str, RawSample]]:
        """The samples of one part, each with its split."""
        return self._read(partial(self.found_in, part, splits), skipped)


class Choices(Source[ChoiceSample]):
    """A choice set: a sample with an option that has no word is left out and counted."""

    @abstractmethod
    def found(self, skipped: Skipped) -> Iterator[ChoiceSample]:
        """The samples in the order of the published file."""

    def samples(self, split: str, skipped: Skipped) -> Iterator[ChoiceSample]:
        for sample in self.found(skipped):
            options = tuple(map(clean_caption, sample.options))
            if all(map(has_piece, options)):
                yield replace(sample, options=options)
            else:
                skipped.add("no caption", sample.key, sample.id, repr(sample.options)[:200])
