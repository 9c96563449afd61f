"""CIFAR-10, CIFAR-100 and STL-10: labelled images that are published as arrays, made into lossless PNG.

Formats: CIFAR's "python version" (Krizhevsky, 2009), pickled dictionaries with ``data`` (N, 3·32·32) uint8 in planes and
``labels`` or ``fine_labels``; STL-10's binary version (Coates et al., 2011), images as (3, width, height) uint8 and
labels from 1. A pickle can run any code when it is loaded, so CIFAR's go through :mod:`mdc.formats.plain_pickle`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mdc.formats.annotations import published_lines
from mdc.formats.folders import existing_file, existing_folder
from mdc.formats.plain_pickle import load_plain
from mdc.formats.samples import RawSample
from mdc.records import UserError

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
# folder, files of each split, key of the labels, file and key of the class names
_CIFAR: dict[str, tuple[str, dict[str, list[str]], str, str, str]] = {
    "cifar10": (
        "cifar-10-batches-py",
        {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]},
        "labels",
        "batches.meta",
        "label_names",
    ),
    "cifar100": ("cifar-100-python", {"train": ["train"], "test": ["test"]}, "fine_labels", "meta", "fine_label_names"),
}
_STL_FOLDER, _STL_SIDE = "stl10_binary", 96


def samples(name: str, root: Path, split: str) -> Iterator[RawSample]:
    """The images of one split of "cifar10", "cifar100" or "stl10" in the order of the files; keys number them.

    UserError for a file that is missing or not of the format. CIFAR is read file by file, STL-10 image by image.
    """
    found = _stl(root, split) if name == "stl10" else _cifar(name, root, split)
    count = len(classes(name, root))
    for number, (pixels, label, path) in enumerate(found):
        if not 0 <= label < count:
            raise UserError(f"{path}: label {label} is outside the {count} classes; get the file again")
        yield RawSample(f"{number:08d}", png(pixels), "png", label=label)


def classes(name: str, root: Path) -> list[str]:
    """The class names in label order, from the set's own list (CLIP-benchmark takes them from there too)."""
    if name == "stl10":
        path = existing_folder(root / _STL_FOLDER, name) / "class_names.txt"
        names: Any = [line.strip() for _, line in published_lines(path, name)]
    else:
        folder, _, _, file, key = _CIFAR[name]
        path = existing_folder(root / folder, name) / file
        content = load_plain(existing_file(path, name))
        names = content.get(key) if isinstance(content, dict) else None
    if not isinstance(names, list) or len(names) < 2 or not all(isinstance(each, str) for each in names):
        raise UserError(f"{path}: holds no list of class names; get the file again")
    return names


def png(pixels: Pixels) -> bytes:
    """(height, width, 3) uint8 as the bytes of a PNG."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()


def _cifar(name: str, root: Path, split: str) -> Iterator[tuple[Pixels, int, Path]]:
    folder, files, label_key, _, _ = _CIFAR[name]
    for file in files[split]:
        path = existing_file(existing_folder(root / folder, name) / file, name)
        content = load_plain(path)
        data, labels = (content.get(key) if isinstance(content, dict) else None for key in ("data", label_key))
        if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != 3 * 32 * 32:
            raise UserError(f"{path}: holds no array of rows with 3,072 bytes under 'data'; get the file again")
        if not isinstance(labels, list) or len(labels) != len(data) or not all(type(each) is int for each in labels):
            raise UserError(f"{path}: holds no whole number for each image under {label_key!r}; get the file again")
        for row, label in zip(data, labels, strict=True):
            yield np.ascontiguousarray(row.reshape(3, 32, 32).transpose(1, 2, 0)), label, path


def _stl(root: Path, split: str) -> Iterator[tuple[Pixels, int, Path]]:
    folder = existing_folder(root / _STL_FOLDER, "stl10")
    path = existing_file(folder / f"{split}_X.bin", "stl10")
    labels = np.fromfile(existing_file(folder / f"{split}_y.bin", "stl10"), dtype=np.uint8)
    size = 3 * _STL_SIDE * _STL_SIDE
    if not len(labels) or path.stat().st_size != len(labels) * size:
        raise UserError(
            f"{path}: has {path.stat().st_size} bytes, {len(labels)} labels need {len(labels) * size}; get it again"
        )
    with path.open("rb") as file:
        for label in labels.tolist():
            planes = np.frombuffer(file.read(size), dtype=np.uint8).reshape(3, _STL_SIDE, _STL_SIDE)
            # the file goes down the columns
            yield np.ascontiguousarray(planes.transpose(2, 1, 0)), label - 1, path
