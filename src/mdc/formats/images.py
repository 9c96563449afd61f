"""Images: encoded bytes to RGB pixels of one size, the way OpenCLIP prepares them (OpenCLIP ``transform.py``)."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps

Pixels = np.ndarray[Any, np.dtype[np.uint8]]

OPENAI_MEAN = (0.48145466, 0.4578275, 0.40821073)
OPENAI_STD = (0.26862954, 0.26130258, 0.27577711)
MAX_PIXELS = 89_478_485  # Pillow's own limit, at which it only warns: a few kilobytes can unpack to gigabytes
MAX_ASPECT = 200  # longer to shorter side; the shorter side is scaled to the model's, and the longer one with it
CROP_DRAWS = 40  # uniform numbers that one random crop may use: ten tries of four

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


def decode_pixels(data: bytes) -> torch.Tensor:
    """The result of ``decode`` as a writable uint8 tensor (H, W, 3); errors as there."""
    return torch.from_numpy(np.array(decode(data)))


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
    image: Image.Image = Image.open(io.BytesIO(data), formats=_FORMATS)
    width, height = image.size
    if width * height > max_pixels:
        raise ImageError(f"{width} × {height} pixels, at most {max_pixels} allowed", "image too large")
    if max(width, height) > max_aspect * min(width, height):
        raise ImageError(f"{width} × {height} pixels, sides at most 1 : {max_aspect} allowed", "image too narrow")
    return image


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


def crop_box(
    width: int, height: int, uniforms: Sequence[float], scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of a random crop: torchvision's ``RandomResizedCrop.get_params``.

    ``uniforms``: ``CROP_DRAWS`` numbers in [0, 1), four for each try (area, aspect ratio, top, left). If none of ten tries fits,
    the crop is the central one with the nearest allowed ratio.
    """
    area = width * height
    log_low, log_high = math.log(ratio[0]), math.log(ratio[1])
    for first in range(0, CROP_DRAWS, 4):
        target = area * (scale[0] + (scale[1] - scale[0]) * uniforms[first])
        aspect = math.exp(log_low + (log_high - log_low) * uniforms[first + 1])
        w, h = round(math.sqrt(target * aspect)), round(math.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            top = int(uniforms[first + 2] * (height - h + 1))
            left = int(uniforms[first + 3] * (width - w + 1))
            return left, top, left + w, top + h
    w, h = width, height
    if width / height < ratio[0]:
        h = round(width / ratio[0])
    elif width / height > ratio[1]:
        w = round(height * ratio[1])
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def random_resized_crop(
    pixels: torch.Tensor,
    size: int,
    uniforms: Sequence[float],
    scale: tuple[float, float],
    ratio: tuple[float, float],
) -> torch.Tensor:
    """Crop (H, W, 3) uint8 at random and resize with antialiased bicubic to (3, size, size), as OpenCLIP trains.

    ``uniforms`` as in ``crop_box``. PyTorch resizes in 8-bit integers, width first, in a quarter of Pillow's time. One
    value in two hundred differs from Pillow's by one grey level, seldom by two; in tall images, whose height Pillow 13
    resizes first, every fourth value does. The number of threads does not change the bytes.
    """
    left, top, right, bottom = crop_box(pixels.shape[1], pixels.shape[0], uniforms, scale, ratio)
    crop = pixels[top:bottom, left:right].permute(2, 0, 1)[None]  # a view in the layout that PyTorch resizes fastest
    return torch.nn.functional.interpolate(crop, (size, size), mode="bicubic", antialias=True)[0]


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


def normalise(
    images: torch.Tensor, mean: Sequence[float] = OPENAI_MEAN, std: Sequence[float] = OPENAI_STD
) -> torch.Tensor:
    """uint8 images (B, 3, H, W) or (B, H, W, 3) to float32 (B, 3, H, W): (x / 255 − mean) / std for each channel."""
    scale, shift = (each.to(images.device) for each in pixel_statistics(mean, std))
    return scaled(images if images.shape[1] == 3 else images.permute(0, 3, 1, 2), scale, shift)


def pixel_statistics(mean: Sequence[float], std: Sequence[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """The factors 1 / (255 std) and the shifts mean / std, float32 (1, 3, 1, 1) each, that :func:`scaled` takes."""
    scale = torch.tensor([1 / (255 * s) for s in std], dtype=torch.float32)
    shift = torch.tensor([m / s for m, s in zip(mean, std, strict=True)], dtype=torch.float32)
    return scale.view(1, 3, 1, 1), shift.view(1, 3, 1, 1)


def scaled(images: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """``images`` (B, 3, H, W) uint8 times ``scale`` less ``shift``, float32; nothing waits for the device."""
    return images.to(torch.float32).contiguous().mul_(scale).sub_(shift)
