"""Base classes of image sources: with captions, which are cleaned (:mod:`mdc.data.formats.captions`), or with labels."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.captions import clean_caption, clean_captions
from mdc.data.formats.folders import dataset_folder, needed, read_named
from mdc.data.formats.reading import SourceItem, with_images
from mdc.data.formats.samples import ChoiceSample, LeftOut, RawSample, Skipped, safe_key
from mdc.data.sources.source import Source
from mdc.models.text import has_piece
from mdc.plan.records import sha256_file


class CaptionedImages(Source[RawSample]):
    """A corpus; samples without a caption are left out and counted. ``threads`` read its images, None: one per core."""

    threads: int | None = None

    @abstractmethod
    def items(self, split: str) -> Iterable[SourceItem]:
        """The images of one split in a fixed order, also those that are left out."""

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        return (sample for _, sample in self._read(self.items(split), skipped))

    def _read(self, items: Iterable[SourceItem], skipped: Skipped) -> Iterator[tuple[str, RawSample]]:
        """(split, sample) of the items with a good image and a caption."""
        for item, image, extension in with_images(items, skipped, self.image_size, self.threads):
            captions = clean_captions(item.captions, self.config["caption_mode"], self.config["max_pieces"], skipped)
            if captions:
                name = item.file if self.named else ""
                yield item.split, RawSample(item.key, image, extension, captions, place=item.place, name=name)
            else:
                skipped.add("no caption", item.key, item.file, repr(item.captions[0]) if item.captions else "")


class Published(CaptionedImages):
    """A corpus in its publisher's layout: lists name images in a folder of the data set; keys are the names without it."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self.root, self.dataset = dataset_folder(source, data_dir), source["dataset"]

    @abstractmethod
    def images(self, split: str) -> str:
        """The folder of a split's image names."""

    @abstractmethod
    def listed(self, split: str) -> Iterable[tuple[str, list[str] | None]]:
        """(name, captions) of the images of one split in a fixed order; None: their file is missing."""

    def items(self, split: str) -> Iterator[SourceItem]:
        for number, (name, captions) in enumerate(self.listed(split)):
            if not number:
                folder = needed(self.root / self.images(split), dataset=self.dataset).resolve()
            read = LeftOut("caption file is missing") if captions is None else partial(read_named, folder, name)
            yield SourceItem(safe_key(Path(name).stem), name, read, captions or [])


class InParts(CaptionedImages):
    """A corpus in files that can be read independently: its parts, numbered from 0.

    Jobs and processes share the parts; each part becomes one shard of each split.
    """

    @property
    @abstractmethod
    def parts(self) -> int:
        """How many parts there are."""

    @abstractmethod
    def seal(self, part: int) -> Any:
        """A JSON value that changes with the part's files: names, sizes, modification times."""

    def tar(self, part: int) -> Path | None:
        """The tar with a part's images, whose samples then have a ``place``; None if there is none."""
        return None

    def tar_sha256(self, part: int) -> str:
        """The sha256 of that tar."""
        tar = self.tar(part)
        assert tar is not None
        return sha256_file(tar)

    def is_partial(self, part: int) -> bool:
        """Whether this corpus takes only the beginning of the part."""
        return False

    @abstractmethod
    def items_in(self, part: int, splits: Collection[str]) -> Iterable[SourceItem]:
        """The images of one part that are in ``splits``, in a fixed order, each with its ``split``."""

    def items(self, split: str) -> Iterator[SourceItem]:
        for part in range(self.parts):
            yield from self.items_in(part, {split})

    def samples_in(self, part: int, splits: Collection[str], skipped: Skipped) -> Iterator[tuple[str, RawSample]]:
        """The samples of one part, each with its split."""
        return self._read(self.items_in(part, splits), skipped)


class LabelledImages(Source[RawSample]):
    """A labelled set: each image with its label, or with a zero or one per class."""

    @abstractmethod
    def items(self, split: str) -> Iterable[SourceItem]:
        """The images of one split in a fixed order, also those that are left out."""

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        for item, image, extension in with_images(self.items(split), skipped, self.image_size):
            target = {"labels" if self.task == "multi" else "label": item.label}
            yield RawSample(item.key, image, extension, name=item.file if self.named else "", **target)


class Choices(Source[ChoiceSample]):
    """A choice set; samples with an option without a token are left out and counted."""

    @abstractmethod
    def raw_samples(self, skipped: Skipped) -> Iterator[ChoiceSample]:
        """The samples in the order of the published file, before their options are cleaned."""

    def samples(self, split: str, skipped: Skipped) -> Iterator[ChoiceSample]:
        for sample in self.raw_samples(skipped):
            options = tuple(map(clean_caption, sample.options))
            if all(map(has_piece, options)):
                yield replace(sample, options=options)
            else:
                skipped.add("no caption", sample.key, sample.id, repr(sample.options)[:200])
