"""Whether a probe's test images are also captioned: what is trained on the captions has then seen them."""

from array import array
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from mdc.data.formats.rank import hash64
from mdc.data.formats.reading import SourceItem, with_images
from mdc.data.formats.samples import Skipped
from mdc.data.shards.image_hashes import WORDS, Hashes, difference_hash, find
from mdc.data.sources.probes.class_folder import ClassFolder

_CAPTIONED, _TESTED = 1000, 300  # images that are looked at


def captioned_test_images(captioned: Sequence[SourceItem], root: Path, probe: str) -> tuple[int, int]:
    """(how many test images of the classes in ``root``/``probe`` are also among the ``captioned`` ones, of how many that were
    looked at); of many images of either kind some are looked at."""
    tested = list(ClassFolder({"kind": "class_folder", "path": probe}, root).items("test"))
    (training, training_items), (test, test_items) = _hashed(captioned, _CAPTIONED), _hashed(tested, _TESTED)
    return len(find(training, test, partial(_image, training_items), partial(_image, test_items))), len(test_items)


def _hashed(items: Sequence[SourceItem], most: int) -> tuple[tuple[Hashes, Hashes], list[SourceItem]]:
    """The hashes of ``most`` of the items, spread evenly, and those items; without those that cannot be read."""
    read, images, looks = list[SourceItem](), array("Q"), array("Q")
    places = np.unique(np.linspace(0, max(0, len(items) - 1), min(most, len(items))).round().astype(int))
    for item, image, _ in with_images([items[place] for place in places], Skipped(), None):
        read.append(item)
        images.append(hash64(image))
        looks.frombytes(difference_hash(image))
    return (np.array(images, dtype=np.uint64), np.array(looks, dtype=np.uint64).reshape(-1, WORDS)), read


def _image(items: Sequence[SourceItem], number: int) -> bytes:
    read = items[number].read
    assert callable(read)
    return read(None)[0]
