"""The ability ``generate``: captions of images, by every way of writing that a method has (paper, sections 3.2 and 4.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from mdc.config.caption import Beam, Unmasking
from mdc.formats.images import center_resize
from mdc.predictors.folded import Memory
from mdc.predictors.runs import RunModel
from mdc.predictors.writing import Writer, Written
from mdc.records import UserError


class RunWriter:
    """A run of ours. UserError for a method that writes no captions."""

    def __init__(self, run: RunModel, *, precision: str, device: torch.device, batch_tokens: int = 8192) -> None:
        self.method, self.vocabulary, self.context_length = run.job.method, run.vocabulary, run.context_length
        if self.method.objective not in ("masked", "autoregressive"):
            raise UserError(f"{run.checkpoint}: a method with the objective {self.method.objective} writes no captions")
        self.image_size = run.job.backbone.image_size
        self.writer = Writer(run.load(), run.vocabulary, precision, device, batch_tokens)

    def picture(self, image: Image.Image) -> Tensor:
        """An RGB image as the model takes it, (3, S, S) uint8: resized and cropped to the middle."""
        return torch.from_numpy(center_resize(image, self.image_size)).permute(2, 0, 1)

    def look(self, images: Tensor) -> Memory:
        """Pictures (I, 3, S, S) → what the decoder reads of them, computed once."""
        return self.writer.look(images)

    def write(self, seen: Memory, how: Unmasking | Beam, keys: Sequence[str]) -> list[Written]:
        """A caption of each image that was looked at; ``keys`` are the images' names, from which what is drawn follows.

        UserError for a way of writing that the method does not have, or captions longer than the context.
        """
        self._check(how)
        if isinstance(how, Unmasking):
            return self.writer.unmasked(seen, how, keys)
        return self.writer.searched(seen, how, reverse=self.method.direction is not None)

    def fill(
        self, seen: Memory, templates: Sequence[Sequence[int]], how: Unmasking, keys: Sequence[str]
    ) -> list[Written]:
        """The template of each image with its masks filled in; only masked models can."""
        if self.method.objective != "masked":
            raise UserError(
                f"{self.method.label} writes from left to right and cannot fill words in; masked methods can"
            )
        for template in templates:
            if len(template) > self.context_length - 2:
                raise UserError(
                    f"a caption of {len(template)} word pieces is too long; at most {self.context_length - 2} fit the context"
                )
        return self.writer.filled(seen, templates, how, keys)

    def text(self, written: Written) -> str:
        """A caption as text, in lower case."""
        return self.vocabulary.decode(written.pieces)

    def piece(self, token: int) -> str:
        """One of its pieces as text; one that is not a whole character reads as a replacement character."""
        return self.vocabulary.decode([token])

    def _check(self, how: Unmasking | Beam) -> None:
        masked = self.method.objective == "masked"
        if isinstance(how, Unmasking) != masked:
            theirs, ours = ("beam search", "unmasking") if masked else ("unmasking", "beam search")
            raise UserError(f"{self.method.label} writes by {ours}, not by {theirs}")
        most = how.lengths[-1] if isinstance(how, Unmasking) else how.most
        room = self.context_length - (1 if isinstance(how, Unmasking) and how.ends else 2)
        if most > room:
            raise UserError(f"captions of {most} word pieces are too long; at most {room} fit the context")
