"""MSCOCO's official captions: annotations/captions_{train,val}YYYY.json and the folders {train,val}YYYY of images.

Format (cocodataset.org, caption annotations): ``{"images": [{"id", "file_name", …}], "annotations": [{"image_id",
"caption", …}], …}``. The test images have no published captions, so there is no test split here (Karpathy's has one).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr

from mdc.data.formats.annotations import read_published
from mdc.data.formats.folders import dataset_folder, existing_folder, named_image
from mdc.data.formats.samples import Skipped, safe_key
from mdc.data.sources.cleaned import CaptionedImages, Found
from mdc.plan.records import UserError


@dataclass(slots=True)
class _Image:
    id: StrictInt
    file_name: StrictStr


@dataclass(slots=True)
class _Annotation:
    image_id: StrictInt
    caption: StrictStr


@dataclass(slots=True)
class _File:
    images: Annotated[list[_Image], Field(min_length=1)]
    annotations: Annotated[list[_Annotation], Field(min_length=1)]


_KEPT = frozenset(field.name for kind in (_File, _Image, _Annotation) for field in fields(kind))


class CocoCaptions(CaptionedImages):
    """The images of "train" or "val" in the order of that split's file."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._root = dataset_folder(source, data_dir)

    def found(self, split: str, skipped: Skipped) -> Iterator[Found]:
        if split not in ("train", "val"):
            return
        dataset, year = self.config["dataset"], self.config["year"]
        path = self._root / "annotations" / f"captions_{split}{year}.json"
        content = read_published(path, dataset, _File, _KEPT)
        names: dict[int, str] = {}
        for number, image in enumerate(content.images):
            if image.id in names:
                raise UserError(
                    f"{path}: images[{number}]: duplicate image id {image.id}, so captions could go to the wrong image; "
                    "download it again"
                )
            names[image.id] = image.file_name
        captions: dict[int, list[str]] = {image: [] for image in names}
        for number, note in enumerate(content.annotations):
            if note.image_id not in captions:
                raise UserError(
                    f"{path}: annotations[{number}]: image_id {note.image_id} is none of the file's images; get the "
                    "file again"
                )
            captions[note.image_id].append(note.caption)
        root = existing_folder(self._root / f"{split}{year}", dataset).resolve()
        for number, name in names.items():
            yield Found(safe_key(Path(name).stem), name, partial(named_image, root), captions[number])


def open_source(source: Mapping[str, Any], data_dir: Path) -> CocoCaptions:
    """See mdc.data.sources.source."""
    return CocoCaptions(source, data_dir)
