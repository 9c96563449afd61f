"""CUB-200-2011 with ten captions an image: the birds (Wah et al., 2011) and their texts (Reed et al., 2016).

Layout: CUB_200_2011/images.txt (``number class/name.jpg``), CUB_200_2011/train_test_split.txt (``number 1`` for
training), CUB_200_2011/images/class/name.jpg, and text_c10/class/name.txt with one caption a line. Beside text_c10, from the same
archive, trainvalclasses.txt and testclasses.txt, with a class a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.annotations import published_lines
from mdc.data.formats.folders import dataset_folder, existing_folder, inside, named_image
from mdc.data.formats.samples import Skipped, held_out, safe_key
from mdc.data.sources.cleaned import CaptionedImages, Found
from mdc.plan.records import UserError


class Cub(CaptionedImages):
    """The images of one split in the order of images.txt.

    "test" is the published one; "val" is the share ``val_share`` of the training images, by a hash of their names. With
    ``split`` classes the 50 test classes of the captions' archive are "test", so no bird of these kinds is trained on.
    """

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        root, dataset = dataset_folder(source, data_dir), source["dataset"]
        birds = root / "CUB_200_2011"
        self._names = _table(birds / "images.txt", dataset)
        self._training = self._by_class(root) if source["split"] == "classes" else self._by_image(birds)
        self._texts = existing_folder(root / "text_c10", dataset).resolve()
        self._images = existing_folder(birds / "images", dataset).resolve()

    def _by_image(self, birds: Path) -> dict[str, bool]:
        """Whether each image is one to train on, as published with the images."""
        path = birds / "train_test_split.txt"
        told = _table(path, self.config["dataset"])
        if missing := [number for number in self._names if told.get(number) not in ("0", "1")]:
            raise UserError(f"{path}: image {missing[0]} has no 0 or 1; download the file again")
        return {number: told[number] == "1" for number in self._names}

    def _by_class(self, root: Path) -> dict[str, bool]:
        """The same by the class of each image, as published with the captions."""
        train, test = (
            {line.strip() for _, line in published_lines(root / f"{name}classes.txt", self.config["dataset"])}
            for name in ("trainval", "test")
        )
        if both := sorted(train & test):
            raise UserError(
                f"{root}: {both[0]} is in both trainvalclasses.txt and testclasses.txt; download the files again"
            )
        found = {}
        for number, name in self._names.items():
            kind = name.partition("/")[0]
            if kind not in train and kind not in test:
                raise UserError(
                    f"{root}: the class {kind} is neither in trainvalclasses.txt nor in testclasses.txt; download the files again"
                )
            found[number] = kind in train
        return found

    def found(self, split: str, skipped: Skipped) -> Iterator[Found]:
        share = self.config["val_share"]
        for number, name in self._names.items():
            held = "val" if held_out(name, share) else "train"
            if split != (held if self._training[number] else "test"):
                continue
            key = safe_key(Path(name).stem)
            text = inside(self._texts, f"{name.rpartition('.')[0]}.txt")
            if text is None or not text.is_file():
                skipped.add("caption file is missing", key, name)
            else:
                captions = [line for _, line in published_lines(text, self.config["dataset"])]
                yield Found(key, name, partial(named_image, self._images), captions)


def open_source(source: Mapping[str, Any], data_dir: Path) -> Cub:
    """See mdc.data.sources.source."""
    return Cub(source, data_dir)


def _table(path: Path, dataset: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line_number, line in published_lines(path, dataset):
        number, _, value = line.strip().partition(" ")
        if not number.isdigit() or not value.strip() or number in found:
            raise UserError(f"{path}, line {line_number}: {line[:60]!r} is not a new number and its value")
        found[number] = value.strip()
    return found
