"""ARO's Visual Genome Relation and Visual Genome Attribution (Yuksekgonul et al., 2023) from their published JSON.

Format: a list of items with ``image_path`` (under images/), ``bbox_x``, ``bbox_y``, ``bbox_w``, ``bbox_h``,
``true_caption``, ``false_caption``; Relation has ``relation_name``, Attribution ``attributes`` (two of them). The image
is cropped to the box before it is scored. The published score averages over groups: relations, or pairs of attributes
("first_second") with 25 items or more. The evaluation decides which groups count; all items are here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictStr

from mdc.data.formats.annotations import Number, read_published
from mdc.data.formats.folders import dataset_folder, named_images, needed
from mdc.data.formats.samples import ChoiceSample, Skipped, counted
from mdc.data.sources.cleaned import Choices


@dataclass(slots=True)
class _Item:
    image_path: StrictStr
    bbox_x: Number
    bbox_y: Number
    bbox_w: Number
    bbox_h: Number
    true_caption: StrictStr
    false_caption: StrictStr

    @property
    def box(self) -> tuple[float, float, float, float]:
        return self.bbox_x, self.bbox_y, self.bbox_w, self.bbox_h


@dataclass(slots=True)
class _Relation(_Item):
    relation_name: StrictStr

    @property
    def group(self) -> str:
        return self.relation_name


@dataclass(slots=True)
class _Attribution(_Item):
    attributes: Annotated[list[StrictStr], Field(min_length=2, max_length=2)]

    @property
    def group(self) -> str:
        return "_".join(self.attributes)


_TASKS: dict[str, type[_Relation] | type[_Attribution]] = {"relation": _Relation, "attribution": _Attribution}


class Aro(Choices):
    """The items of ``task`` in the order of the file; ``id`` is an item's number in it, from 0."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        task = source["task"]
        root, dataset = dataset_folder(source, data_dir), source["dataset"]
        path, item = root / f"visual_genome_{task}.json", _TASKS[task]
        form: Any = Annotated[list[item], Field(min_length=1)]  # type: ignore[valid-type]
        self._items: Sequence[_Relation | _Attribution] = read_published(
            path, dataset, form, {field.name for field in fields(item)}
        )
        self._images = needed(root / "images", dataset=dataset)

    def raw_samples(self, skipped: Skipped) -> Iterator[ChoiceSample]:
        read = named_images(self._images)
        for number, item in enumerate(self._items):
            key, name, box = f"{number:08d}", item.image_path, item.box
            if box[2] <= 0 or box[3] <= 0:
                skipped.add("box is empty", key, name, str(box))
            elif (image := counted(partial(read, name), skipped, key, name)) is not None:
                options = (item.true_caption, item.false_caption)
                # JSON may have lone surrogates, which cannot be encoded
                group = item.group.encode("utf-8", "replace").decode("utf-8")
                yield ChoiceSample(
                    key, *image, options=options, group=group, id=str(number), box=box, image_name=f"vg:{name}"
                )


open_source = Aro  # see mdc.data.sources.source
