"""ARO's COCO-Order and Flickr30k-Order: every caption of Karpathy's test split (see :mod:`mdc.data.sources.choices.orders`)."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import coco_image, named_images
from mdc.data.formats.samples import ChoiceSample, Skipped, counted
from mdc.data.sources.choices.orders import Orders
from mdc.data.sources.corpora import karpathy
from mdc.plan.records import UserError


class CaptionOrder(Orders):
    """``id`` is Karpathy's number of the sentence. UserError also if the split has no captions."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        split = source["split"]
        self._folder = karpathy.image_folder(source, data_dir)
        self._chosen = [image for image in karpathy.listed(source, data_dir) if image.split == split]
        if not self._chosen:
            raise UserError(f"{source['path']}: no image of Karpathy's file is in split {split!r}; allowed: val, test")

    def raw_samples(self, skipped: Skipped) -> Iterator[ChoiceSample]:
        read_image, dataset = named_images(self._folder), self.config["dataset"]
        listed = (
            (image.name, *pair)
            for image in self._chosen
            for pair in zip(image.captions, image.caption_ids, strict=True)
        )
        for number, (name, caption, caption_id) in enumerate(listed):
            read = counted(partial(read_image, name), skipped, f"{number:08d}", name)
            if read is not None:
                shown = coco_image(name) if dataset == "mscoco" else f"{dataset}:{name}"
                yield self.ordered(number, read, caption, caption_id, shown)


open_source = CaptionOrder  # see mdc.data.sources.source
