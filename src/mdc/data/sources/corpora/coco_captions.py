"""MSCOCO's official captions: annotations/captions_{train,val}YYYY.json and the folders {train,val}YYYY of images.

Format (cocodataset.org, caption annotations): ``{"images": [{"id", "file_name", …}], "annotations": [{"image_id",
"caption", …}], …}``. The test images have no published captions, so there is no test split here (Karpathy's has one).
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Annotated

from pydantic import Field, StrictInt, StrictStr

from mdc.data.formats.annotations import read_published
from mdc.data.sources.cleaned import Published
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


class CocoCaptions(Published):
    """The images of "train" or "val" in the order of that split's file."""

    def images(self, split: str) -> str:
        return f"{split}{self.config['year']}"

    def listed(self, split: str) -> Iterator[tuple[str, list[str]]]:
        if split not in ("train", "val"):
            return
        path = self.root / "annotations" / f"captions_{self.images(split)}.json"
        content = read_published(path, self.dataset, _File, _KEPT)
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
        for number, name in names.items():
            yield name, captions[number]


open_source = CocoCaptions  # see mdc.data.sources.source
