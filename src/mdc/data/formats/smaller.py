"""Images made smaller, as img2dataset does with keep_ratio and only if they are bigger; EXIF orientation is applied first."""

from __future__ import annotations

import io
from typing import NamedTuple

from PIL import Image

from mdc.data.formats.images import ENDINGS, MAX_ASPECT, MAX_PIXELS, decode_at_least

QUALITY = 95  # of the JPEG that a larger image becomes
_DRAFT = 2  # a JPEG may be decoded at a fraction of its size, but not below so many times the wanted one


class Smaller(NamedTuple):
    """``image``: upright RGB, its shorter side at most what was asked for. ``size``: (width, height) before, upright. ``plain``:
    the bytes were an upright RGB JPEG. ``form``: Pillow's name of their format."""

    image: Image.Image
    size: tuple[int, int]
    plain: bool
    form: str

    @property
    def changed(self) -> bool:
        """Whether the image was larger."""
        return self.image.size != self.size

    def jpeg(self, quality: int = QUALITY) -> bytes:
        """The image as a JPEG without metadata."""
        self.image.info.clear()  # Pillow would write a GIF's or PNG's comment, and a JPEG holds 64 kB of it
        buffer = io.BytesIO()
        self.image.save(buffer, "JPEG", quality=quality)
        return buffer.getvalue()


def smaller(data: bytes, shorter: int, max_pixels: int = MAX_PIXELS, max_aspect: float = MAX_ASPECT) -> Smaller:
    """Encoded bytes, decoded once and in full, with a shorter side of ``shorter`` pixels at most and the same aspect.

    ImageError as in :func:`mdc.data.formats.images.decode`. A large JPEG is decoded at a fraction of its size, which takes a
    fraction of the time.
    """
    image, size, plain, form = decode_at_least(data, _DRAFT * shorter, max_pixels, max_aspect)
    least = min(size)
    if least > shorter:
        width, height = (max(shorter, round(side * shorter / least)) for side in size)
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    return Smaller(image, size, plain, form)


def at_most(data: bytes, shorter: int) -> tuple[bytes, str]:
    """(encoded bytes, extension): of an image that is small enough its own bytes, of others an RGB JPEG. Errors as above."""
    found = smaller(data, shorter)
    return (found.jpeg(), "jpg") if found.changed else (data, ENDINGS[found.form][0])
