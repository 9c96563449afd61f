"""ARO's caption order (:mod:`mdc.data.sources.choices.caption_order`) of MSCOCO's annotations and a parquet file of images."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.samples import ChoiceSample, Skipped, counted
from mdc.data.formats.table_rows import coco_annotations
from mdc.data.sources.choices.orders import Orders
from mdc.data.sources.choices.parquet_images import parquet_images
from mdc.plan.records import UserError


class OrderParquet(Orders):
    """One sample for each caption whose image is in the parquet file, by caption id, which is the sample's ``id``; the others are
    counted as captions left out, since the file may have some of the images."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._images, path = data_dir / source["images"], data_dir / source["path"]
        if not all(map(_is_annotation, listed := coco_annotations(path))):
            raise UserError(f"{path}: not COCO's captions file; its 'annotations' need id, image_id and caption each")
        self._captions = sorted((entry["id"], str(entry["image_id"]), entry["caption"]) for entry in listed)

    def raw_samples(self, skipped: Skipped) -> Iterator[ChoiceSample]:
        source = self.config
        images = parquet_images(self._images, source["image_column"], source["id_column"])
        counts: Counter[str] = Counter()
        chosen = []
        for caption_id, image, caption in self._captions:
            counts[image] += 1
            if image not in images:
                skipped.captions += 1
            elif counts[image] <= (source["per_image"] or len(self._captions)):
                chosen.append((caption_id, image, caption))
        if not chosen:
            raise UserError(f"{source['path']}: none of its images is in {source['images']}")
        for number, (caption_id, image, caption) in enumerate(chosen):
            read = counted(partial(images.read, image), skipped, f"{number:08d}", image)
            if read is not None:
                yield self.ordered(number, read, caption, str(caption_id), f"coco:{int(image)}")


open_source = OrderParquet  # see mdc.data.sources.source


def _is_annotation(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and type(entry.get("id")) is int
        and type(entry.get("image_id")) is int
        and isinstance(entry.get("caption"), str)
    )
