"""ARO's Visual Genome Relation and Visual Genome Attribution (Yuksekgonul et al., 2023) from their published JSON.

Format: a list of items with ``image_path`` (under images/), ``bbox_x``, ``bbox_y``, ``bbox_w``, ``bbox_h``,
``true_caption``, ``false_caption``; Relation has ``relation_name``, Attribution ``attributes`` (two of them). The image
is cropped to the box before it is scored. The published score averages over groups: relations, or pairs of attributes
("first_second") with 25 items or more. Which groups count is for the evaluation to decide; all items are here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.formats.annotations import field, objects, published_json
from mdc.formats.folders import NamedImages, dataset_folder, existing_folder
from mdc.formats.samples import ChoiceSample, Skipped
from mdc.records import UserError

Source = Mapping[str, Any]
TASKS = ("relation", "attribution")
_BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")
_KEPT = frozenset({"image_path", "true_caption", "false_caption", "relation_name", "attributes", *_BOX})


def samples(source: Source, data_dir: Path, skipped: Skipped) -> Iterator[ChoiceSample]:
    """The items of ``task`` in the order of the file; ``id`` is an item's place in it, counted from 0."""
    task = source["task"]
    if task not in TASKS:
        raise UserError(f"task {task!r} is none of ARO's here; allowed: {', '.join(TASKS)}")
    root, dataset = dataset_folder(source, data_dir), source["dataset"]
    path = root / f"visual_genome_{task}.json"
    images = NamedImages(existing_folder(root / "images", dataset), skipped)
    for number, item in enumerate(objects(published_json(path, dataset, _KEPT), path, "items")):
        name = field(item, "image_path", str, path, number)
        options = tuple(field(item, key, str, path, number) for key in ("true_caption", "false_caption"))
        group = _group(item, task, path, number)
        box = _box(item, path, number)
        key = f"{number:08d}"
        if box[2] <= 0 or box[3] <= 0:
            skipped.add("box is empty", key, name, str(box))
        elif (found := images.read(key, name)) is not None:
            yield ChoiceSample(key, *found, options=options, group=group, id=str(number), box=box)


def _group(item: dict[str, Any], task: str, path: Path, number: int) -> str:
    if task == "relation":
        return _text(field(item, "relation_name", str, path, number))
    attributes = field(item, "attributes", list, path, number)
    if len(attributes) != 2 or not all(isinstance(each, str) for each in attributes):
        raise UserError(f"{path}, item {number}: attributes are {attributes!r:.60}; needed: two texts")
    return _text("_".join(attributes))


def _text(text: str) -> str:
    """``text`` without the lone surrogates that JSON can hold and no file can."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _box(item: dict[str, Any], path: Path, number: int) -> tuple[float, float, float, float]:
    left, top, width, height = (_number(item.get(key), key, path, number) for key in _BOX)
    return left, top, width, height


def _number(value: Any, name: str, path: Path, number: int) -> float:
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:  # NaN, infinity, integers beyond both
        raise UserError(f"{path}, item {number}: {name} is {value!r:.60}; needed: a number")
    return value
