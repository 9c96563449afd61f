"""Checks and resizes a downloaded image before it goes into a shard.

An image is decoded once, in full, by :mod:`mdc.data.formats.images`, so that every image of a shard can be trained on. A small
enough upright RGB JPEG keeps its bytes; everything else becomes an RGB JPEG whose shorter side is ``image_size`` at most.
"""

from dataclasses import dataclass
from typing import Any

from mdc.data.formats.images import ImageError, smaller
from mdc.data.obtain.reasons import LARGE_IMAGE, NARROW_IMAGE, NO_IMAGE, NO_MEMORY, SMALL_IMAGE, UNEXPECTED

_REASONS = {"image too large": LARGE_IMAGE, "image too narrow": NARROW_IMAGE}
_METADATA = 1 << 16  # bytes that a kept JPEG may have beyond its raw pixels

Result = tuple[bytes | None, int | None, int | None, int | None, int | None, str | None]


@dataclass(frozen=True)
class Resize:
    """Replaces img2dataset's Resizer in its Downloader."""

    image_size: int
    quality: int
    min_image_size: int
    max_pixels: int
    max_aspect: float

    def __call__(self, img_stream: Any, blurring_bbox_list: Any = None) -> Result:
        """(encoded bytes, width, height, original width, original height, None), or the reason as the last element."""
        try:
            return self._resized(img_stream.read())
        except ImageError as error:
            reason = _REASONS.get(error.reason, NO_IMAGE)
        except MemoryError:
            reason = NO_MEMORY
        except Exception:  # one row must not end the others
            reason = UNEXPECTED
        return None, None, None, None, None, reason

    def _resized(self, data: bytes) -> Result:
        image = smaller(data, self.image_size, self.max_pixels, self.max_aspect)
        width, height = image.size
        if min(width, height) < self.min_image_size:
            return None, None, None, None, None, SMALL_IMAGE
        if not image.smaller and image.plain and len(data) <= 3 * width * height + _METADATA:
            return data, width, height, width, height, None
        return image.jpeg(self.quality), *image.image.size, width, height, None
