"""Plain JPEGs decoded faster than Pillow does it, to the same pixels.

torchvision's decoder and Pillow stand on the same library (libjpeg-turbo) and give equal pixels; Pillow's copies make
it a third slower. torchvision means to give up its decoder, so nothing but this file knows of it, and without it
images are decoded by Pillow, more slowly and no differently.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import torch

# at every call it says that its end is near; what is to be done then stands above
warnings.filterwarnings("ignore", message="The image decoding and encoding capabilities of TorchVision")


@cache
def _decoder() -> Callable[[torch.Tensor], torch.Tensor] | None:
    # imported on first use: torchvision takes a second or two, and only JPEGs need it
    try:
        from torchvision.io import ImageReadMode, decode_jpeg
    except Exception:  # a torchvision without it, or none that loads
        return None
    return lambda data: decode_jpeg(data, mode=ImageReadMode.RGB)


def jpeg_pixels(data: bytes) -> torch.Tensor | None:
    """RGB pixels, uint8 (H, W, 3), of a whole JPEG; None if they cannot be had here (Pillow may still have them).

    What is damaged gives None wherever Pillow would refuse it, and EXIF orientation is not applied.
    """
    decoder = _decoder()
    if decoder is None:
        return None
    try:
        return decoder(torch.frombuffer(bytearray(data), dtype=torch.uint8)).permute(1, 2, 0)
    except (RuntimeError, ValueError):
        return None
