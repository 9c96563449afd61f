"""Winoground (Thrush et al., 2022) from its repository on the Hugging Face hub: parquet files, one row per item.

Columns: ``id``, ``image_0``, ``image_1`` (structs with bytes), ``caption_0``, ``caption_1``, and tags, which are not read. An
item with a missing or unreadable image is left out and counted.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import dataset_folder, files_below
from mdc.data.formats.parquet_file import open_parquet, parquet_rows
from mdc.data.formats.samples import ChoiceSample, Skipped, counted, read_image
from mdc.data.sources.cleaned import Choices
from mdc.extensions.neighbours.winoground.two_images import FACTS, two_samples
from mdc.plan.records import UserError

_IMAGES, _CAPTIONS = ("image_0", "image_1"), ("caption_0", "caption_1")
_COLUMNS = ["id", *_IMAGES, *_CAPTIONS]
_FILES = "test-*.parquet"


class Winoground(Choices):
    """The items of all files in their order, named by ``id``."""

    facts = FACTS

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        root = dataset_folder(source, data_dir)
        self._files = sorted(path for path in files_below(root) if path.match(_FILES))
        if not self._files:
            raise UserError(f"{root}: no file {_FILES} lies there or below; is it the published dataset?")

    def raw_samples(self, skipped: Skipped) -> Iterator[ChoiceSample]:
        number = 0
        for path in self._files:
            with open_parquet(path) as file:
                for row in parquet_rows(path, file, _COLUMNS):
                    yield from _samples(row, number, path.name, skipped)
                    number += 1


open_source = Winoground  # see mdc.data.sources.source


def _samples(row: Mapping[str, Any], number: int, file: str, skipped: Skipped) -> Iterator[ChoiceSample]:
    name, images = str(row["id"]), []
    for column in _IMAGES:
        read = partial(read_image, row[column])
        if (image := counted(read, skipped, f"{number:08d}", f"{file}, id {name}, {column}")) is None:
            return
        images.append(image)
    captions = str(row["caption_0"]), str(row["caption_1"])
    yield from two_samples(number, name, images, captions, f"winoground:{name}")
