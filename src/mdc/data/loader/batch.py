"""The loader's batches: images with captions, and images with labels."""

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
    """Images with one caption each, and the random numbers for an objective's noise; of training and of validation.

    B samples; T ≥ the longest sequence is a multiple of 8, or the context length:

    ============ ================= ==================================================================
    images       uint8 (B,3,S,S)   cropped and resized; or float16 (B,M,E), a frozen encoder's tokens
    keys         list of str       the samples' names
    tokens       int64 (B,T)       [SOT, tokens…, EOT], then EOT as padding: use ``lengths``
    lengths      int64 (B,)        number of tokens with SOT and EOT
    jitter       float32 (B,)      in [0, 1): the place within t's stratum
    uniforms     float32 (B,T)     in [0, 1): one number per token, independent of T
    place        int64 (B,)        position in the global batch
    caption_hash int64 (B,)        equal for equal tokens, for masking duplicates
    token_draws  float32 (B,T)     in [0, 1): another number per token, for example for another word; or None
    image_draws  float32 (B,1+M)   in [0, 1): one for the image and one for each of M tokens, as for dropping them; or None
    ============ ================= ==================================================================

    The last two are for methods that ask for them (:class:`mdc.training.objectives.objective.Needs`), from streams of their own.
    """

    tokens: Tensor
    lengths: Tensor
    jitter: Tensor
    uniforms: Tensor
    place: Tensor
    caption_hash: Tensor
    token_draws: Tensor | None = None
    image_draws: Tensor | None = None


@dataclass(frozen=True)
class LabelledBatch(_Batch):
    """Images of a labelled set: ``images`` uint8 (B,3,S,S), ``keys``, and ``labels``.

    Labels are int64 (B,), one class each, or float32 (B, K), a 0 or 1 for each of K classes.
    """

    labels: Tensor
