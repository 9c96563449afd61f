"""Labelled images in folders (:mod:`mdc.data.formats.class_layout`). Classes are numbered in the order of the folders' names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mdc.data.formats.class_layout import class_layout, is_image_name
from mdc.data.formats.reading import Reader, with_images
from mdc.data.formats.samples import RawSample, Skipped, image_file
from mdc.data.sources.source import Source


class ClassFolder(Source[RawSample]):
    """Images of one split, class by class, in the order of the files' names; keys number the files of the split. What is not
    named as an image is left out and counted."""

    labelled_by_people = True

    def __init__(self, source: Mapping[str, Any], data_dir: Path, splits: Mapping[str, str] | None = None) -> None:
        """``splits`` names the splits' folders in the source's place."""
        super().__init__(source)
        self._layout = class_layout(data_dir / source["path"], source.get("splits") if splits is None else splits)
        self.classes = self.folder_names = self._layout.classes
        if self._layout.said:
            self.facts = {"layout": self._layout.said}

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        return labelled(partial(self._files, split), skipped, self.image_size)

    def _files(self, split: str, skipped: Skipped) -> Iterator[Labelled]:
        number = 0
        for label, name in enumerate(self.folder_names):
            for path in self._layout.files(split, name):
                key, place = f"{number:08d}", path.relative_to(self._layout.root).as_posix()
                number += 1
                if not is_image_name(path):
                    skipped.add("not named as an image", key, place)
                else:
                    yield Labelled(key, place, partial(image_file, path), {"label": label})


class Labelled(NamedTuple):
    """An image with its ``target``: label or labels."""

    key: str
    file: str
    read: Reader
    target: dict[str, Any]


def labelled(
    files: Callable[[Skipped], Iterator[Labelled]], skipped: Skipped, image_size: int | None
) -> Iterator[RawSample]:
    """The samples of those ``files`` whose image is good."""
    for one, image, extension in with_images(files, skipped, image_size):
        yield RawSample(one.key, image, extension, **one.target)


def open_source(source: Mapping[str, Any], data_dir: Path) -> ClassFolder:
    """See mdc.data.sources.source."""
    return ClassFolder(source, data_dir)
