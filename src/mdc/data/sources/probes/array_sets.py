"""CIFAR-10, CIFAR-100 and STL-10: labelled images published as arrays, converted to lossless PNG.

Formats: CIFAR's "python version" (Krizhevsky, 2009), which torchvision reads; STL-10's binary version (Coates et al.,
2011), images as (3, width, height) uint8 and labels from 1. STL-10 is read here, because torchvision's reader needs the
2.6 GB of unlabelled images too, and reads everything at once.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.annotations import published_lines
from mdc.data.formats.folders import dataset_folder, existing_file, existing_folder
from mdc.data.formats.images import png
from mdc.data.formats.samples import RawSample, Skipped
from mdc.data.sources.source import Source
from mdc.plan.records import UserError

_STL_FOLDER, _STL_SIDE = "stl10_binary", 96


class Cifar(Source[RawSample]):
    """The images of one split of "cifar10" or "cifar100" in the order of the files; keys number them.

    UserError for a file that is missing or not the published one, by its MD5: torchvision unpickles these files, and a
    pickle can run any code when it is loaded.
    """

    labelled_by_people = True

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._root = dataset_folder(source, data_dir)
        self.classes = list(self._read("test").classes)

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        read = self._read(split)
        for number, (pixels, label) in enumerate(zip(read.data, read.targets, strict=True)):
            yield RawSample(f"{number:08d}", png(pixels), "png", label=label)

    def _read(self, split: str) -> Any:
        """torchvision's data set, after the MD5 of every file that it unpickles was checked."""
        from torchvision.datasets import cifar

        name = self.config["dataset"]
        kind = {"cifar10": cifar.CIFAR10, "cifar100": cifar.CIFAR100}[name]
        folder = existing_folder(self._root / kind.base_folder, name)
        for file, md5 in [*kind.train_list, *kind.test_list, (kind.meta["filename"], kind.meta["md5"])]:
            path = existing_file(folder / file, name)
            if not cifar.check_integrity(str(path), md5):
                raise UserError(f"{path}: checksum mismatch, expected MD5 {md5}; download it again")
        return kind(str(self._root), train=split == "train", download=False)


class Stl10(Source[RawSample]):
    """The labelled images of one split in the order of the files, read one by one; keys number them.

    UserError for a file that is missing or not of the format.
    """

    labelled_by_people = True

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._folder = existing_folder(dataset_folder(source, data_dir) / _STL_FOLDER, "stl10")
        path = self._folder / "class_names.txt"
        self.classes = [line.strip() for _, line in published_lines(path, "stl10")]
        if len(self.classes) < 2:
            raise UserError(f"{path}: contains no list of class names; download the file again")

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        path = existing_file(self._folder / f"{split}_X.bin", "stl10")
        labels = np.fromfile(existing_file(self._folder / f"{split}_y.bin", "stl10"), dtype=np.uint8)
        size = 3 * _STL_SIDE * _STL_SIDE
        if not len(labels) or path.stat().st_size != len(labels) * size:
            raise UserError(
                f"{path}: has {path.stat().st_size} bytes, {len(labels)} labels need {len(labels) * size}; download it again"
            )
        with path.open("rb") as file:
            for number, label in enumerate((labels.astype(int) - 1).tolist()):
                if not 0 <= label < len(self.classes):
                    raise UserError(
                        f"{path}: label {label} is outside the {len(self.classes)} classes; download the file again"
                    )
                planes = np.frombuffer(file.read(size), dtype=np.uint8).reshape(3, _STL_SIDE, _STL_SIDE)
                # the file is in column-major order
                pixels = np.ascontiguousarray(planes.transpose(2, 1, 0))
                yield RawSample(f"{number:08d}", png(pixels), "png", label=label)
