"""Images: encoded bytes to RGB, and the central square that CLIP's evaluation takes (OpenCLIP ``transform.py``).

Nothing here needs torch, which takes two seconds to import: a job that writes shards does without
(:mod:`mdc.data.formats.pixels`).
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
from PIL import Image, ImageOps

Pixels = np.ndarray[Any, np.dtype[np.uint8]]

MAX_PIXELS = 89_478_485  # Pillow's own limit, at which it only warns: a few kilobytes can unpack to gigabytes
MAX_ASPECT = 200  # longer to shorter side; the shorter side is scaled to the model's, and the longer one with it

# The formats that Pillow may try. By default it knows forty more, and starts Ghostscript for PostScript.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
_ORIENTATION, _ON_ITS_SIDE = 0x0112, range(5, 9)  # EXIF's tag, and its values that exchange width and height
_ORIENTATION_KEYS = {"exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif"}

warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # `_opened` refuses them
warnings.filterwarnings("ignore", module=r"PIL\.")  # about broken metadata, which `decode` does not need


class ImageError(ValueError):
    """These bytes are no usable image. The message says why; ``reason`` is the general kind that is counted."""

    def __init__(self, message: str, reason: str = "image cannot be decoded") -> None:
        super().__init__(message)
        self.reason = reason


def decode(data: bytes) -> Image.Image:
    """Encoded bytes to an upright RGB image; of several frames the first is taken.

    EXIF orientation is applied, and ignored if it cannot be read. 16-bit grey keeps its high byte. Transparent images are
    laid over white, as img2dataset does. Palettes, grey and CMYK are converted. ImageError for bytes that cannot be decoded
    in full, for images of more than ``MAX_PIXELS``, and if one side is more than ``MAX_ASPECT`` times as long as the other.
    """
    return _decoded(data)[0]


def image_format(data: bytes) -> str:
    """Pillow's name of the format of encoded bytes ("JPEG", "PNG", …); ImageError as in ``decode``."""
    return _decoded(data)[1]


def _decoded(data: bytes) -> tuple[Image.Image, str]:
    try:
        image = _opened(data, MAX_PIXELS, MAX_ASPECT)
        form = str(image.format)
        image.load()
        if form == "TIFF" or not _ORIENTATION_KEYS.isdisjoint(image.info):
            image = _upright(image)
        return (image if image.mode == "RGB" else _to_rgb(image)), form
    except ImageError:
        raise
    except Image.DecompressionBombError as error:
        raise ImageError(str(error), "image too large") from error
    except Exception as error:  # Pillow's plugins raise many kinds on broken bytes
        raise ImageError(f"cannot be decoded ({type(error).__name__})") from error


def decode_at_least(
    data: bytes, side: int, max_pixels: int, max_aspect: float
) -> tuple[Image.Image, tuple[int, int], bool]:
    """As ``decode``, but a JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, as long as its shorter side is at least ``side``.

    This takes a fraction of the time for large photos. Returns the image, its full size (width, height; upright), and whether
    the bytes are a plain JPEG that shows the same (RGB, one picture, not rotated). Limits may be narrower than the module's.
    """
    try:
        image = _opened(data, max_pixels, max_aspect)
        plain = image.format == "JPEG" and image.mode == "RGB"
        size, least = image.size, min(image.size)
        image.draft(None, (-(-size[0] * side // least), -(-size[1] * side // least)))
        image.load()
        shown = image
        if image.format == "TIFF" or not _ORIENTATION_KEYS.isdisjoint(image.info):
            shown = _upright(image)
            orientation = 1 if shown is image else image.getexif().get(_ORIENTATION, 1)
            size = size[::-1] if orientation in _ON_ITS_SIDE else size
            plain = plain and orientation == 1
        return (shown if shown.mode == "RGB" else _to_rgb(shown)), size, plain
    except ImageError:
        raise
    except Image.DecompressionBombError as error:
        raise ImageError(str(error), "image too large") from error
    except Exception as error:
        raise ImageError(f"cannot be decoded ({type(error).__name__})") from error


def _opened(data: bytes, max_pixels: int, max_aspect: float) -> Image.Image:
    """The image with its header read, and no pixels unpacked."""
    size = _webp_size(data)
    if size is not None:  # before version 13 Pillow makes room for a WebP's pixels when it opens it
        _within(size, max_pixels, max_aspect)
    image: Image.Image = Image.open(io.BytesIO(data), formats=_FORMATS)
    _within(image.size, max_pixels, max_aspect)
    return image


def _within(size: tuple[int, int], max_pixels: int, max_aspect: float) -> None:
    """ImageError for an image of more pixels, or a longer shape, than is allowed."""
    width, height = size
    if width * height > max_pixels:
        raise ImageError(f"{width} × {height} pixels, at most {max_pixels} allowed", "image too large")
    if max(width, height) > max_aspect * min(width, height):
        raise ImageError(f"{width} × {height} pixels, sides at most 1 : {max_aspect} allowed", "image too narrow")


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) that a WebP's header tells (RFC 9649, sections 2.5 to 2.7); None for anything else."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return None
    kind, body = data[12:16], data[20:30]
    if kind == b"VP8X":
        return 1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        return int.from_bytes(body[6:8], "little") & 0x3FFF, int.from_bytes(body[8:10], "little") & 0x3FFF
    return None


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # metadata can be broken in many ways; the pixels are still good
        return image


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16-bit grey; Pillow's own conversion would clip at 255
        high = np.clip(np.asarray(image, dtype=np.int64), 0, 65535) >> 8
        return Image.fromarray(high.astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ImageError("floating-point pixels have no known range")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")


def center_resize(image: Image.Image, size: int) -> Pixels:
    """Resize the shorter side to ``size`` (bicubic) and take the central square (size, size, 3) uint8, as CLIP's evaluation does.

    Equal to torchvision's ``Resize(size, BICUBIC)`` and ``CenterCrop(size)`` on a PIL image.
    """
    width, height = image.size
    if width <= height:
        width, height = size, int(size * height / width)
    else:
        width, height = int(size * width / height), size
    if (width, height) != image.size:
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return np.array(image.crop((left, top, left + size, top + size)))
