"""What the loader hands out: a batch of images with captions, and one of images with labels."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class _Batch:
    """``images`` and ``keys``, the B samples' names."""

    images: Tensor
    keys: list[str]

    def __len__(self) -> int:
        return len(self.keys)

    def to(self, device: torch.device) -> Self:
        """The same batch with its tensors on ``device``."""
        if device.type == "cpu":
            return self
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = value.to(device, non_blocking=True)
        return replace(self, **values)


@dataclass(frozen=True)
class CaptionBatch(_Batch):
    """Images, a caption each, and the draws that an objective makes its noise of; of training and of validation.

    B samples, T ≥ the longest sequence, a multiple of 8 or the context length:

    ============ ================= ==================================================================
    images       uint8 (B,3,S,S)   cropped and resized; or float16 (B,M,E), a frozen encoder's tokens
    keys         list of str       the samples' names
    tokens       int64 (B,T)       [SOT, pieces…, EOT], then EOT as padding: use ``lengths``
    lengths      int64 (B,)        ids from SOT to EOT
    jitter       float32 (B,)      in [0, 1): the place within t's stratum
    uniforms     float32 (B,T)     in [0, 1): a number a token, the same whatever T is
    place        int64 (B,)        position in the global batch
    caption_hash int64 (B,)        equal for equal tokens, for masking duplicates
    replacement  float32 (B,T)     in [0, 1): which class a token that is replaced becomes; or None
    condition    float32 (B,1+M)   in [0, 1): what is lost of the image, in all and of each of M tokens; or None
    ============ ================= ==================================================================

    The last two are of methods that replace tokens, or read a part of an image, and of streams of their own.
    """

    tokens: Tensor
    lengths: Tensor
    jitter: Tensor
    uniforms: Tensor
    place: Tensor
    caption_hash: Tensor
    replacement: Tensor | None = None
    condition: Tensor | None = None


@dataclass(frozen=True)
class LabelledBatch(_Batch):
    """Images of a labelled set: ``images`` uint8 (B,3,S,S), ``keys``, and ``labels``.

    Labels are int64 (B,), a class each, or float32 (B, K), a 0 or 1 for each of K labels.
    """

    labels: Tensor
