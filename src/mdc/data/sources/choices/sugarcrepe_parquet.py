"""SugarCrepe's official files with the images of a parquet file: the items whose image is at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.annotations import read_published
from mdc.data.formats.folders import coco_image, existing_folder
from mdc.data.formats.samples import ChoiceSample, Skipped
from mdc.data.sources.choices.parquet_images import parquet_images
from mdc.data.sources.choices.sugarcrepe import Item
from mdc.data.sources.cleaned import Choices


class SugarCrepeParquet(Choices):
    """The items of ``task`` in the order of the file; an item whose image is not in the parquet file is left out and counted."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._task, self._images = source["task"], data_dir / source["images"]
        folder = existing_folder(data_dir / source["path"], "sugarcrepe")
        self._items = read_published(folder / f"{self._task}.json", "sugarcrepe", dict[str, Item])

    def found(self, skipped: Skipped) -> Iterator[ChoiceSample]:
        images = parquet_images(self._images, self.config["image_column"], self.config["name_column"], skipped)
        for number, (name, item) in enumerate(self._items.items()):
            key = f"{number:08d}"
            if item.filename not in images:
                skipped.add("image is missing", key, item.filename)
                continue
            options = (item.caption, item.negative_caption)
            shown = coco_image(item.filename)
            yield ChoiceSample(
                key, *images[item.filename], options=options, group=self._task, id=name, image_name=shown
            )


def open_source(source: Mapping[str, Any], data_dir: Path) -> SugarCrepeParquet:
    """See mdc.data.sources.source."""
    return SugarCrepeParquet(source, data_dir)
