"""Captioned images by Karpathy's split files: dataset_coco.json, dataset_flickr30k.json, dataset_flickr8k.json.

Format (Karpathy and Li, 2015): ``{"dataset": …, "images": [{"filename", "split", "sentences": [{"raw", "sentid", …}],
COCO alone: "filepath" (train2014 or val2014), "cocoid"}, …]}``; splits are train, val, test and, for COCO, restval.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr

from mdc.data.formats.annotations import read_published
from mdc.data.formats.folders import dataset_folder, needed
from mdc.data.sources.cleaned import Published
from mdc.plan.records import UserError

#: annotation file and image folder of each set, in the layout of its archives
PLACES = {
    "mscoco": ("dataset_coco.json", "."),
    "flickr30k": ("dataset_flickr30k.json", "flickr30k-images"),
    "flickr8k": ("dataset_flickr8k.json", "Flicker8k_Dataset"),
}


@dataclass(slots=True)
class _Sentence:
    raw: StrictStr
    sentid: StrictInt | None = None


@dataclass(slots=True)
class KarpathyImage:
    """An image of the file: ``number`` is its position there, ``name`` its path under the image folder."""

    filename: StrictStr
    split: StrictStr
    sentences: list[_Sentence]
    filepath: StrictStr = ""
    number: int = 0

    @property
    def name(self) -> str:
        return f"{self.filepath}/{self.filename}" if self.filepath else self.filename

    @property
    def captions(self) -> list[str]:
        return [sentence.raw for sentence in self.sentences]

    @property
    def caption_ids(self) -> list[str]:
        return [f"{self.number}-{i}" if s.sentid is None else str(s.sentid) for i, s in enumerate(self.sentences)]


@dataclass(slots=True)
class _File:
    images: Annotated[list[KarpathyImage], Field(min_length=1)]


_KEPT = frozenset(field.name for kind in (_File, KarpathyImage, _Sentence) for field in fields(kind)) - {"number"}


class Karpathy(Published):
    """The images of one of our splits in the order of the file."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source, data_dir)
        self._folder, self._images = str(image_folder(source, data_dir)), listed(source, data_dir)

    def images(self, split: str) -> str:
        return self._folder

    def listed(self, split: str) -> Iterator[tuple[str, list[str]]]:
        published = self.config["splits"].get(split)
        wanted = {published, "restval"} if published == "train" and self.config["restval"] else {published}
        return ((image.name, image.captions) for image in self._images if image.split in wanted)


open_source = Karpathy  # see mdc.data.sources.source


def image_folder(source: Mapping[str, Any], data_dir: Path) -> Path:
    """The folder of the images: ``images`` (relative to ``path``, or absolute), or the set's default."""
    folder = dataset_folder(source, data_dir)
    named = source["images"] or PLACES[source["dataset"]][1]
    return needed(folder / named, dataset=source["dataset"])


def listed(source: Mapping[str, Any], data_dir: Path) -> list[KarpathyImage]:
    """All images of the annotation file. UserError if it is not of the format, or names an image twice."""
    path = dataset_folder(source, data_dir) / (source["annotations"] or PLACES[source["dataset"]][0])
    images, seen = read_published(path, source["dataset"], _File, _KEPT).images, set[str]()
    for number, image in enumerate(images):
        if image.name in seen:
            raise UserError(
                f"{path}: images[{number}]: duplicate image {image.name}, so splits could share it; download the file again"
            )
        seen.add(image.name)
        image.number = number
    return images
