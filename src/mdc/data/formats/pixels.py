"""Pixels as tensors, and OpenCLIP's random crops for training (OpenCLIP ``transform.py``)."""

import math
from collections.abc import Sequence

import numpy as np
import torch

from mdc.data.formats.images import decode

CROP_DRAWS = 40  # uniform numbers that one random crop may use: ten tries of four


def decode_pixels(data: bytes) -> torch.Tensor:
    """The result of ``decode`` as a writable uint8 tensor (H, W, 3); errors as there."""
    return torch.from_numpy(np.array(decode(data)))


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
    """Crop (H, W, 3) uint8 at random and resize with antialiased bicubic to (3, size, size), as in OpenCLIP's training.

    ``uniforms`` as in ``crop_box``. PyTorch resizes in 8-bit integers, width first, in a quarter of Pillow's time. One value in
    two hundred differs from Pillow's by one grey level, rarely by two; in tall images, whose height Pillow 13 resizes first, one
    in four. The bytes do not depend on the number of threads.
    """
    left, top, right, bottom = crop_box(pixels.shape[1], pixels.shape[0], uniforms, scale, ratio)
    crop = pixels[top:bottom, left:right].permute(2, 0, 1)[None]  # a view in the layout that PyTorch resizes fastest
    return torch.nn.functional.interpolate(crop, (size, size), mode="bicubic", antialias=True)[0]
