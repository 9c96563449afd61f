"""What sources of images share: those that hold captions, cleaned on their way in one manner (see
:mod:`mdc.data.formats.captions`), and those that hold labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.captions import clean_caption, clean_captions
from mdc.data.formats.folders import dataset_folder, existing_folder, read_named
from mdc.data.formats.reading import Found, with_images
from mdc.data.formats.samples import ChoiceSample, LeftOut, RawSample, Skipped, safe_key
from mdc.data.sources.source import Source
from mdc.models.text import has_piece
from mdc.plan.records import sha256_file


class CaptionedImages(Source[RawSample]):
    """A corpus: a sample without a caption that has a word is left out and counted. So many ``threads`` read its images, None:
    one for each core."""

    threads: int | None = None

    @abstractmethod
    def found(self, split: str) -> Iterable[Found]:
        """The images of one split in a fixed order, also those that are left out."""

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        return (sample for _, sample in self._read(self.found(split), skipped))

    def _read(self, found: Iterable[Found], skipped: Skipped) -> Iterator[tuple[str, RawSample]]:
        """(split, sample) of those found whose image is good and of whose captions one has a word."""
        for one, image, extension in with_images(found, skipped, self.image_size, self.threads):
            captions = clean_captions(one.captions, self.config["caption_mode"], self.config["max_pieces"])
            if captions:
                yield one.split, RawSample(one.key, image, extension, captions, place=one.place)
            else:
                skipped.add("no caption", one.key, one.file, repr(one.captions[0]) if one.captions else "")


class Published(CaptionedImages):
    """A corpus in its publisher's own layout: lists name images in a folder of the data set; keys are the names without it."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self.root, self.dataset = dataset_folder(source, data_dir), source["dataset"]

    @abstractmethod
    def images(self, split: str) -> str:
        """The folder where the names of a split start."""

    @abstractmethod
    def listed(self, split: str) -> Iterable[tuple[str, list[str] | None]]:
        """(name, captions) of the images of one split in a fixed order; None: their file is missing."""

    def found(self, split: str) -> Iterator[Found]:
        for number, (name, captions) in enumerate(self.listed(split)):
            if not number:
                folder = existing_folder(self.root / self.images(split), self.dataset).resolve()
            read = LeftOut("caption file is missing") if captions is None else partial(read_named, folder, name)
            yield Found(safe_key(Path(name).stem), name, read, captions or [])


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

    def tar(self, part: int) -> Path | None:
        """The tar in which the images of a part lie, whose samples then tell their ``place``; None if they lie in none."""
        return None

    def tar_sha256(self, part: int) -> str:
        """The sha256 of that tar."""
        tar = self.tar(part)
        assert tar is not None
        return sha256_file(tar)

    def is_partial(self, part: int) -> bool:
        """Whether this corpus takes the beginning of the part alone."""
        return False

    @abstractmethod
    def found_in(self, part: int, splits: Collection[str]) -> Iterable[Found]:
        """The images of one part in a fixed order, each with its ``split``, of ``splits`` alone."""

    def found(self, split: str) -> Iterator[Found]:
        for part in range(self.parts):
            yield from self.found_in(part, {split})

    def samples_in(self, part: int, splits: Collection[str], skipped: Skipped) -> Iterator[tuple[str, RawSample]]:
        """The samples of one part, each with its split."""
        return self._read(self.found_in(part, splits), skipped)


class LabelledImages(Source[RawSample]):
    """A labelled set: each image with its label, or a tuple of zeros and ones."""

    @abstractmethod
    def found(self, split: str) -> Iterable[Found]:
        """The images of one split in a fixed order, also those that are left out."""

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        for one, image, extension in with_images(self.found(split), skipped, self.image_size):
            target = {"labels" if self.task == "multi" else "label": one.label}
            yield RawSample(one.key, image, extension, **target)


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
