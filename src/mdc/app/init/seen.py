"""Whether a probe's test images are also captioned: what is trained on the captions has then seen them."""

import os
from collections.abc import Container, Sequence
from pathlib import Path

import numpy as np

from mdc.app.init.survey import Survey
from mdc.data.formats.reading import SourceItem, with_images
from mdc.data.formats.samples import Skipped, hash64, held_out
from mdc.data.shards.image_hashes import WORDS, Hashes, difference_hash, find
from mdc.data.sources.probes.class_folder import ClassFolder

_AS_PHOTOS = 1000, 300  # captioned and test images that are compared so; all files are by their bytes


def captioned_test_images(contents: Survey, images: Path, root: Path, probe: str, val_fraction: float | None) -> str:
    """How many test images of the classes in ``root``/``probe`` are also captioned, and how many of them in the training split,
    where that is known; "" without any. ``images``: the folder of the captions' files."""

    def split(item: SourceItem) -> str:
        if val_fraction is None or not contents.names:
            return item.split
        return "val" if held_out(item.file, val_fraction) else "train"

    captioned = sorted(contents.samples, key=lambda item: split(item) != "train")  # of equal ones the first counts
    tested = list(ClassFolder({"kind": "class_folder", "path": probe}, root).items("test"))
    sides = [
        [(item, folder / item.file) for item in items if callable(item.read)]
        for items, folder in ((captioned, images), (tested, root / probe))
    ]
    sizes = [{_size(file) for _, file in side} for side in sides]
    hashed = [_hashed(side, sizes[0] & sizes[1] - {0}, most) for side, most in zip(sides, _AS_PHOTOS, strict=True)]
    training, test = ([item.read for item, _ in side if callable(item.read)] for side in sides)
    matches = find(hashed[0], hashed[1], lambda number: training[number](None)[0], lambda number: test[number](None)[0])
    splits = [split(captioned[number]) for number, _ in matches.values()]
    trained = f", {splits.count('train')} of them in the training split" if all(splits) else ""
    return (
        f"at least {len(matches)} of {len(test)} test images of {probe} are also captioned{trained}" if matches else ""
    )


def _hashed(side: Sequence[tuple[SourceItem, Path]], sizes: Container[int], most: int) -> tuple[Hashes, Hashes]:
    """Hashes of images, as :func:`find` takes them: of the bytes of files of these ``sizes``, and both of ``most`` images."""
    # a file of a size of its own is equal to no other, and nor is its name
    names = [
        hash64(file.read_bytes() if _size(file) in sizes else str(file).encode("utf-8", "replace")) for _, file in side
    ]
    images, looks = np.array(names, np.uint64), np.zeros((len(side), WORDS), np.uint64)
    places = np.unique(np.linspace(0, len(side) - 1, min(most, len(side))).round().astype(int)).tolist()
    for item, image, _ in with_images((side[n][0]._replace(key=str(n)) for n in places), Skipped(), None):
        images[int(item.key)], looks[int(item.key)] = hash64(image), np.frombuffer(difference_hash(image), np.uint64)
    return images, looks


def _size(file: Path) -> int:
    """Of a file that can be read; else 0."""
    return file.stat().st_size if file.is_file() and os.access(file, os.R_OK) else 0
