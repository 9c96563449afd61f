"""Flickr8k in the layout of its two archives: Flicker8k_Dataset/, Flickr8k.token.txt and Flickr_8k.{train,dev,test}Images.txt.

Format (Hodosh, Young and Hockenmaier, 2013): a line of the token file is ``name.jpg#number<TAB>caption``, five per image; a
split's file has one image name per line. The token file also has captions of a missing image ("….jpg.1") and of images in no
split: only the splits' images are taken.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.annotations import published_lines
from mdc.data.sources.cleaned import Published
from mdc.plan.records import UserError

_SPLITS = {"train": "train", "val": "dev", "test": "test"}


class Flickr8k(Published):
    """The images of one split in the order of the split's file."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source, data_dir)
        self._captions = _captions(self.root / "Flickr8k.token.txt", self.dataset)

    def images(self, split: str) -> str:
        return "Flicker8k_Dataset"

    def listed(self, split: str) -> Iterator[tuple[str, list[str]]]:
        for _, line in published_lines(self.root / f"Flickr_8k.{_SPLITS[split]}Images.txt", self.dataset):
            yield line.strip(), self._captions.get(line.strip(), [])


open_source = Flickr8k  # see mdc.data.sources.source


def _captions(path: Path, dataset: str) -> dict[str, list[str]]:
    """The captions of each image in the order of their numbers."""
    numbered: dict[str, dict[int, str]] = {}
    for line_number, line in published_lines(path, dataset):
        place, tab, caption = line.partition("\t")
        name, mark, number = place.strip().rpartition("#")
        if not tab or not mark or not name or not (number.isascii() and number.isdigit()):
            raise UserError(f"{path}, line {line_number}: {line[:60]!r} is not `image.jpg#number<TAB>caption`")
        of_image = numbered.setdefault(name, {})
        if int(number) in of_image:
            raise UserError(
                f"{path}, line {line_number}: caption {place.strip()!r} is a duplicate; download the file again"
            )
        of_image[int(number)] = caption
    return {name: [texts[number] for number in sorted(texts)] for name, texts in numbered.items()}
