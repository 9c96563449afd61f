"""Pixels as an encoder takes them, normalised as OpenCLIP does (OpenCLIP ``transform.py``)."""

from collections.abc import Sequence

import torch

OPENAI_MEAN = (0.48145466, 0.4578275, 0.40821073)
OPENAI_STD = (0.26862954, 0.26130258, 0.27577711)


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
