"""SugarCrepe (Hsieh et al., 2023): a caption of a COCO val2017 image against a fluent, false one.

Format: one JSON object per task, ``{"0": {"filename", "caption", "negative_caption"}, …}``; numbers may be missing. The
images are files of a folder, or rows of a parquet file (``sugarcrepe_parquet``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import StrictStr

from mdc.data.formats.annotations import read_published
from mdc.data.formats.folders import coco_image, needed, read_named
from mdc.data.formats.samples import ChoiceSample, Skipped, counted
from mdc.data.sources.choices.parquet_images import parquet_images
from mdc.data.sources.cleaned import Choices


@dataclass(slots=True)
class Item:
    filename: StrictStr
    caption: StrictStr
    negative_caption: StrictStr


class SugarCrepe(Choices):
    """The items of ``task`` in the order of the file; an item whose image is missing is left out and counted."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source, data_dir)
        folder = needed(data_dir / source["path"], dataset="sugarcrepe")
        self._items = read_published(folder / f"{source['task']}.json", "sugarcrepe", dict[str, Item])
        images = data_dir / source["images"]
        self._read = (
            parquet_images(images, source["image_column"], source["name_column"]).read
            if source["kind"] == "sugarcrepe_parquet"
            else partial(read_named, needed(images, dataset="mscoco").resolve())
        )

    def raw_samples(self, skipped: Skipped) -> Iterator[ChoiceSample]:
        group = self.config["task"]
        for number, (name, item) in enumerate(self._items.items()):
            key = f"{number:08d}"
            image = counted(partial(self._read, item.filename), skipped, key, item.filename)
            if image is not None:
                options = (item.caption, item.negative_caption)
                shown = coco_image(item.filename)
                yield ChoiceSample(key, *image, options=options, group=group, id=name, image_name=shown)


open_source = SugarCrepe  # see mdc.data.sources.source
