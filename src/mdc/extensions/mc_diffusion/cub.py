"""CUB-200-2011 with ten captions per image: the birds (Wah et al., 2011) and their texts (Reed et al., 2016).

Layout: CUB_200_2011/images.txt (``number class/name.jpg``), CUB_200_2011/train_test_split.txt (``number 1`` for
training), CUB_200_2011/images/class/name.jpg, and text_c10/class/name.txt with one caption per line. Beside text_c10, from the
same archive, trainvalclasses.txt and testclasses.txt, with one class per line.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.annotations import published_lines
from mdc.data.formats.folders import inside, needed
from mdc.data.formats.samples import drawn_split
from mdc.data.sources.cleaned import Published
from mdc.plan.records import UserError


class Cub(Published):
    """The images of one split in the order of images.txt.

    "test" is the published one; "val" is the share ``val_fraction`` of the training images, by a hash of their names. With
    ``split`` classes the 50 test classes of the captions' archive are "test", so none of these species is trained on.
    """

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source, data_dir)
        self._birds = self.root / "CUB_200_2011"
        self._names = _table(self._birds / "images.txt", self.dataset)
        self._training = self._by_class() if source["split"] == "classes" else self._by_image()
        self._texts = needed(self.root / "text_c10", dataset=self.dataset).resolve()

    def images(self, split: str) -> str:
        return "CUB_200_2011/images"

    def _by_image(self) -> dict[str, bool]:
        """{image number: whether it is a training image}, as published with the images."""
        path = self._birds / "train_test_split.txt"
        flags = _table(path, self.dataset)
        if missing := [number for number in self._names if flags.get(number) not in ("0", "1")]:
            raise UserError(f"{path}: image {missing[0]} has no 0 or 1; download the file again")
        return {number: flags[number] == "1" for number in self._names}

    def _by_class(self) -> dict[str, bool]:
        """The same by the class of each image, as published with the captions."""
        train, test = (
            {line.strip() for _, line in published_lines(self.root / f"{name}classes.txt", self.dataset)}
            for name in ("trainval", "test")
        )
        if both := sorted(train & test):
            raise UserError(
                f"{self.root}: {both[0]} is in both trainvalclasses.txt and testclasses.txt; download the files again"
            )
        training = {}
        for number, name in self._names.items():
            kind = name.partition("/")[0]
            if kind not in train and kind not in test:
                raise UserError(
                    f"{self.root}: the class {kind} is neither in trainvalclasses.txt nor in testclasses.txt; "
                    "download the files again"
                )
            training[number] = kind in train
        return training

    def listed(self, split: str) -> Iterator[tuple[str, list[str] | None]]:
        for number, name in self._names.items():
            held = drawn_split(name, self.config["val_fraction"])
            if split == (held if self._training[number] else "test"):
                text = inside(self._texts, f"{name.rpartition('.')[0]}.txt")
                exists = text is not None and text.is_file()
                yield name, [line for _, line in published_lines(text, self.dataset)] if text and exists else None


open_source = Cub  # see mdc.data.sources.source


def _table(path: Path, dataset: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line_number, line in published_lines(path, dataset):
        number, _, value = line.strip().partition(" ")
        if not number.isdigit() or not value.strip() or number in values:
            raise UserError(f"{path}, line {line_number}: {line[:60]!r} is not a new number and its value")
        values[number] = value.strip()
    return values
