"""What all decodings share: the decoded caption, and the base of those that generate it.

Images are encoded once, and an image's caption does not depend on its batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mdc.evaluation.predictors.folded import read_images
from mdc.models.image_text import TokenCaptioner
from mdc.models.memory import Memory
from mdc.models.text import Vocabulary


@dataclass(frozen=True)
class DecodedCaption:
    """``pieces``: the caption's tokens, without SOT and EOT. ``log_prob``: Σ of ``confidence``, and of a predicted EOT's.

    Per token ``step``: when it was decoded, from 1, or 0 if it was given; ``confidence``: its log probability then.
    ``calls``: decoder calls for this caption, independent of its batch.
    """

    pieces: tuple[int, ...]
    log_prob: float
    step: tuple[int, ...]
    confidence: tuple[float, ...]
    calls: int


class Guiding:
    """A CLIP that guides captions of some images. ``read``: captions as token ids → unit embeddings (R, E); ``images``
    (I, E) unit embeddings of the images, in the order of those that the captioner looked at."""

    def __init__(self, read: Callable[[Sequence[Sequence[int]]], Tensor], images: Tensor) -> None:
        self.read, self.images = read, images

    def similarity(self, captions: Sequence[Sequence[int]], images: Sequence[int]) -> Tensor:
        """The cosine of each caption [SOT, pieces…, EOT] and its image, (R,) float32; equal captions are read once."""
        places = {caption: place for place, caption in enumerate(dict.fromkeys(map(tuple, captions)))}
        texts = self.read(list(places))
        places_of = torch.tensor([places[tuple(caption)] for caption in captions], device=texts.device)
        return (self.images[list(images)] * texts[places_of]).sum(dim=-1)


class Writer:
    """A captioner that generates. ``batch_tokens``: tokens that are computed at a time, a matter of memory alone."""

    def __init__(
        self,
        model: TokenCaptioner,
        vocabulary: Vocabulary,
        precision: str,
        device: torch.device,
        batch_tokens: int = 8192,
    ) -> None:
        self.model = model.to(device).eval()
        self.vocabulary, self.precision, self.device, self.batch_tokens = vocabulary, precision, device, batch_tokens

    def look(self, images: Tensor) -> Memory:
        """images (I, 3, S, S) uint8 → what the decoder reads of them, computed once."""
        return read_images(self.model, images.to(self.device), self.precision)
