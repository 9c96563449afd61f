"""MSCOCO's official captions: annotations/captions_{train,val}YYYY.json and the folders {train,val}YYYY of images.

Format (cocodataset.org, caption annotations): ``{"images": [{"id", "file_name", …}], "annotations": [{"image_id",
"caption", …}], …}``. The test images have no published captions, so there is no test split here (Karpathy's has one).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.formats.annotations import field, objects, published_json
from mdc.formats.folders import NamedImages, dataset_folder, existing_folder
from mdc.formats.samples import Skipped, safe_key
from mdc.records import UserError

Source = Mapping[str, Any]
_KEPT = frozenset({"images", "annotations", "id", "file_name", "image_id", "caption"})


def samples(
    source: Source, split: str, data_dir: Path, skipped: Skipped
) -> Iterator[tuple[str, str, bytes, str, list[str]]]:
    """(key, image name, encoded bytes, extension, captions) of "train" or "val", in the order of the file's images."""
    if split not in ("train", "val"):
        return
    root, dataset = dataset_folder(source, data_dir), source["dataset"]
    year = source.get("year", 2017)
    path = root / "annotations" / f"captions_{split}{year}.json"
    content = published_json(path, dataset, _KEPT)
    content = content if isinstance(content, dict) else {}
    names: dict[int, str] = {}
    for number, item in enumerate(objects(content.get("images"), path, "images")):
        image = field(item, "id", int, path, number)
        if image in names:
            raise UserError(
                f"{path}, item {number}: image {image} stands twice, so captions could be another's; get it again"
            )
        names[image] = field(item, "file_name", str, path, number)
    captions: dict[int, list[str]] = {image: [] for image in names}
    for number, item in enumerate(objects(content.get("annotations"), path, "annotations")):
        image = field(item, "image_id", int, path, number)
        if image not in captions:
            raise UserError(f"{path}, item {number}: image_id {image} is none of the file's images; get the file again")
        captions[image].append(field(item, "caption", str, path, number))
    images = NamedImages(existing_folder(root / f"{split}{year}", dataset), skipped)
    for image, name in names.items():
        key = safe_key(Path(name).stem)
        if (found := images.read(key, name)) is not None:
            yield key, name, *found, captions[image]
