"""Distorted images, to measure how fast captions degrade (docs/findings/noise.md).

A distortion is a pure function of the image, its key and the seed: the same noise for every captioner, on any machine.
"""

import hashlib
import io

import numpy as np
from PIL import Image, ImageFilter

from mdc.extensions.blog.kinds import Corruption

_FULL = 224  # the shorter side in pixels to which the level of blur refers
_GREY = 128


def distort(image: Image.Image, distortion: Corruption, key: str, seed: int) -> Image.Image:
    """A distorted RGB image of the same size. The noise depends only on its name ``key`` and the ``seed``."""
    match distortion.kind:
        case "noise":
            return _noise(image, distortion.level, _generator(distortion, key, seed))
        case "blur":
            return image.filter(ImageFilter.GaussianBlur(distortion.level * min(image.size) / _FULL))
        case "jpeg":
            return _jpeg(image, int(distortion.level))
        case "cutout":
            return _cutout(image, distortion.level, _generator(distortion, key, seed))


def _generator(distortion: Corruption, key: str, seed: int) -> np.random.Generator:
    """One stream per image and kind: a stronger noise is the same noise, scaled."""
    name = hashlib.blake2b(f"{distortion.kind}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.random.default_rng([seed, int.from_bytes(name)])


def _noise(image: Image.Image, std: float, rng: np.random.Generator) -> Image.Image:
    """Each intensity with its own normal noise, of ``std`` times the range; cut off at the ends of the range."""
    pixels = np.asarray(image, dtype=np.float32)
    noisy = pixels + 255 * np.float32(std) * rng.standard_normal(pixels.shape, dtype=np.float32)
    return Image.fromarray(np.clip(np.rint(noisy), 0, 255).astype(np.uint8))


def _jpeg(image: Image.Image, quality: int) -> Image.Image:
    coded = io.BytesIO()
    image.save(coded, "JPEG", quality=quality)
    return Image.open(coded).convert("RGB")


def _cutout(image: Image.Image, share: float, rng: np.random.Generator) -> Image.Image:
    """A grey square, wholly inside, over ``share`` of the image, or as much as a square of the shorter side covers."""
    pixels = np.array(image)
    height, width = pixels.shape[:2]
    side = min(round((share * height * width) ** 0.5), height, width)
    # shares of what is free, so that a larger square grows from about the same place
    top, left = (int(rng.random() * (free + 1)) for free in (height - side, width - side))
    pixels[top : top + side, left : left + side] = _GREY
    return Image.fromarray(pixels)
