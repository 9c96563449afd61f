"""ARO's caption order (:mod:`mdc.data.sources.choices.caption_order`) of MSCOCO's annotations and a parquet file of images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.gzipped import read_json_object
from mdc.data.formats.samples import ChoiceSample, Skipped
from mdc.data.sources.choices.orders import Orders
from mdc.data.sources.choices.parquet_images import parquet_images
from mdc.plan.records import UserError


class OrderParquet(Orders):
    """One sample a caption whose image is in the parquet file, in the order of the captions' ids, which are the samples'."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._images, path = data_dir / source["images"], data_dir / source["path"]
        listed = read_json_object(path).get("annotations")
        if not isinstance(listed, list) or not all(map(_is_annotation, listed)):
            raise UserError(f"{path}: not COCO's captions file; its 'annotations' need id, image_id and caption each")
        self._captions = sorted((one["id"], str(one["image_id"]), one["caption"]) for one in listed)

    def found(self, skipped: Skipped) -> Iterator[ChoiceSample]:
        source = self.config
        images = parquet_images(self._images, source["image_column"], source["id_column"], skipped)
        counts: Counter[str] = Counter()
        chosen = []
        for one in self._captions:
            counts[one[1]] += 1
            if one[1] in images and counts[one[1]] <= (source["per_image"] or len(self._captions)):
                chosen.append(one)
        if not chosen:
            raise UserError(f"{source['path']}: none of its images is in {source['images']}")
        for number, (caption_id, image, caption) in enumerate(chosen):
            yield self.ordered(number, images[image], caption, str(caption_id), f"coco:{int(image)}")


open_source = OrderParquet  # see mdc.data.sources.source


def _is_annotation(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and type(entry.get("id")) is int
        and type(entry.get("image_id")) is int
        and isinstance(entry.get("caption"), str)
    )
