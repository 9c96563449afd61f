"""What finds a set's pictures again: 64 bits of the hash of each image's bytes and, of photos, a difference hash of 256 bits.

``images.safetensors`` beside a set's index has for each split the arrays ``<split>.images`` (n,) and, unless all its images are
rendered, ``<split>.looks`` (n, 4), both uint64, in the order of the samples. A photo of another size or JPEG quality has
other bytes, and differs in a few bits of its difference hash. What this does not see: crops, mirrored copies, and other photos
of the same thing.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mdc.data.formats.images import ImageError, smaller
from mdc.data.shards.index import INDEX
from mdc.data.shards.offsets import file_entry
from mdc.plan.outputs import checked
from mdc.plan.records import atomic_path

FILE = "images.safetensors"
WORDS = 4  # of 64 bits
NEAR = 20  # bits that differ at most between two versions of a photo
#: the mean absolute difference of two versions, as a share of the picture's mean absolute deviation from its mean colour
ALIKE = 0.2
_SIDE = 16
_STEP = 3  # grey levels: less is noise of the encoder, which would decide the bits of skies and walls
_SMALL = 32  # pixels of a side, at which two pictures are compared
_LEAST = 64  # pixels of the shorter side; smaller drawings, as digits, are alike without being the same
_BANDS = 11  # one of them differs in one bit at most where the whole differs in less than 22
_BLOCK = 1 << 14  # training images that are searched at once
_TRIED = 8  # nearest training images that are compared with a test image

Hashes = np.ndarray[Any, np.dtype[np.uint64]]
NONE = bytes(8 * WORDS)  # the hash of a picture that is found by its bytes alone


def difference_hash(image: bytes) -> bytes:
    """32 bytes: of each of 16 × 16 cells whether it is brighter than the one before it in its row. ``NONE`` for a picture without
    such steps, a small one, or bytes that are no picture."""
    try:
        decoded = smaller(image, _SMALL)
    except ImageError:
        return NONE
    if min(decoded.size) < _LEAST:
        return NONE
    grey = decoded.image.convert("L").convert("F")
    cells = np.asarray(grey.resize((_SIDE + 1, _SIDE), Image.Resampling.BILINEAR))
    return np.packbits(cells[:, 1:] > cells[:, :-1] + _STEP).tobytes()


def write_hashes(folder: Path, images: Mapping[str, np.ndarray], looks: Mapping[str, "array[int]"]) -> dict[str, Any]:
    """Write the file of a set from each split's hashes of bytes (n,) and difference hashes (4 n numbers); returns its entry of an
    index."""
    from safetensors.numpy import save_file

    arrays = {f"{split}.images": of_split for split, of_split in images.items()}
    for split, of_split in looks.items():
        hashes = np.array(of_split, dtype=np.uint64).reshape(-1, WORDS)
        if hashes.any():
            arrays[f"{split}.looks"] = hashes
    with atomic_path(folder / FILE) as temporary:
        save_file(arrays, temporary)
    return file_entry(folder / FILE)


def read_hashes(folder: Path, index: Mapping[str, Any], split: str) -> tuple[Hashes, Hashes]:
    """(hashes of bytes (n,), difference hashes (n, 4), zero where there is none) of a split. UserError if the file is not the one
    that the set's ``index`` names."""
    from safetensors import safe_open

    path = checked(folder / FILE, index.get("image_hashes", {}).get("sha256"), folder / INDEX)
    with safe_open(path, framework="np") as file:
        images: Hashes = file.get_tensor(f"{split}.images")
        name = f"{split}.looks"
        looks = file.get_tensor(name) if name in file.keys() else np.zeros((len(images), WORDS), np.uint64)  # noqa: SIM118
    return images, looks


def find(
    training: tuple[Hashes, Hashes],
    test: tuple[Hashes, Hashes],
    training_image: Callable[[int], bytes],
    test_image: Callable[[int], bytes],
) -> dict[int, tuple[int, int | None]]:
    """{test image: (a training image that is the same picture, the bits in which their difference hashes differ; None if their
    bytes are the same)}.

    ``training``, ``test``: as from :func:`read_hashes`; the last two give an image's bytes by its number.
    """
    common = np.flatnonzero(np.isin(training[0], test[0]))[::-1]
    first = dict(zip(training[0][common].tolist(), common.tolist(), strict=True))
    matches: dict[int, tuple[int, int | None]]
    matches = {number: (first[image], None) for number, image in enumerate(test[0].tolist()) if image in first}
    for number, near in _nearest(training[1], test[1]):
        if number not in matches:
            small = _pixels(test_image(number))
            same = ((number, match) for match in near if _alike(small, _pixels(training_image(match[0]))))
            matches.update(islice(same, 1))
    return dict(sorted(matches.items()))


def _pixels(image: bytes) -> np.ndarray:
    return np.asarray(smaller(image, _SMALL).image.resize((_SMALL, _SMALL), Image.Resampling.BICUBIC), np.float32)


def _alike(first: np.ndarray, second: np.ndarray) -> bool:
    deviation = np.abs(first - first.mean((0, 1))).mean()
    return bool(np.abs(first - second).mean() <= ALIKE * deviation)


def _nearest(training: Hashes, test: Hashes) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """(test image, its nearest training images with the bits in which they differ, at most ``NEAR``)."""
    near = np.concatenate([np.empty((0, 3), np.int64), *_near(training, test)])
    near = near[np.lexsort(near.T[[1, 2, 0]])]  # by test image, bits, training image
    for rows in np.split(near, np.flatnonzero(np.diff(near[:, 0])) + 1):
        if len(rows):
            yield int(rows[0, 0]), [(int(other), int(bits)) for _, other, bits in rows[:_TRIED]]


def _near(training: Hashes, test: Hashes) -> Iterator[np.ndarray]:
    """Rows (test image, training image, bits) of all pairs with ``NEAR`` bits at most, block by block.

    Of eleven bands of 23 or 24 bits, one differs in at most one bit. So each test image is listed in each band under its own code
    and those that differ from it in one bit, and only training images with a listed code are compared.
    """
    # neighbouring bits are alike, so each band takes bits from everywhere
    bands = np.array_split(np.random.default_rng(0).permutation(64 * WORDS), _BANDS)
    weights = np.zeros((64 * WORDS, _BANDS), np.float32)  # exact up to 24 bits
    for band, bits in enumerate(bands):
        weights[bits, band] = 1 << np.arange(len(bits))
    trained, tested = (np.flatnonzero(hashes.any(axis=1)) for hashes in (training, test))
    codes, listed = _codes(test[tested], weights), []
    for band, bits in enumerate(bands):
        flips = np.append(0, 1 << np.arange(len(bits)))
        under = (codes[:, band, None] ^ flips).ravel()
        order = np.argsort(under, kind="stable")
        listed.append((under[order], np.repeat(tested, len(flips))[order]))
    for start in range(0, len(trained) if len(tested) else 0, _BLOCK):
        places = trained[start : start + _BLOCK]
        block, pairs = training[places], []
        own = _codes(block, weights)
        for band, (under, numbers) in enumerate(listed):
            first, end = (np.searchsorted(under, own[:, band], side) for side in ("left", "right"))
            count = end - first
            rows = np.repeat(np.arange(len(block)), count)
            within = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
            columns = numbers[np.repeat(first, count) + within]
            bits = np.bitwise_count(block[rows] ^ test[columns]).sum(axis=1, dtype=np.int64)
            near = bits <= NEAR
            pairs.append(np.stack([columns[near], places[rows[near]], bits[near]], axis=1))
        yield np.unique(np.concatenate(pairs), axis=0)


def _codes(hashes: Hashes, weights: np.ndarray) -> np.ndarray:
    """(n, bands) int64: the bits of each band as a number."""
    bits = np.unpackbits(np.ascontiguousarray(hashes).view(np.uint8).reshape(-1, 8 * WORDS), axis=1)
    return (bits.astype(np.float32) @ weights).astype(np.int64)
