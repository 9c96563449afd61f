"""The ability ``generate``: captions of images, by every way of writing that a method has (paper, sections 3.2 and 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from mdc.data.formats.images import center_resize
from mdc.diffusion.guidance import as_cfg
from mdc.evaluation.predictors.diffusing import DiffusionWriter, Seen
from mdc.evaluation.predictors.writing import Guiding, Writer, Written
from mdc.models.memory import Memory
from mdc.models.runs import RunModel
from mdc.plan.config.caption import DECODING_OF, DECODINGS, Beam, Diffusing, Unmasking
from mdc.plan.parts import family_of
from mdc.plan.records import UserError


class RunWriter:
    """A run of ours. UserError for a method that writes no captions."""

    def __init__(self, run: RunModel, *, precision: str, device: torch.device, batch_tokens: int = 8192) -> None:
        self.method, self.vocabulary, self.context_length = run.job.method, run.vocabulary, run.context_length
        self.name, self.family = run.job.method_name, family_of(self.method.objective)
        if self.family not in DECODING_OF:
            raise UserError(f"{run.checkpoint}: a method with the objective {self.method.objective} writes no captions")
        self.image_size = run.job.backbone.image_size
        model, more = run.load(), (run.vocabulary, precision, device, batch_tokens)
        self.writer: Any = (
            DiffusionWriter(model, self.method, *more) if self.family == "mask_and_replace" else Writer(model, *more)
        )

    def picture(self, image: Image.Image) -> Tensor:
        """An RGB image as the model takes it, (3, S, S) uint8: resized and cropped to the middle."""
        return torch.from_numpy(center_resize(image, self.image_size)).permute(2, 0, 1)

    def look(self, images: Tensor) -> Memory | Seen:
        """Pictures (I, 3, S, S) → what the decoder reads of them, computed once."""
        return self.writer.look(images)

    def write(
        self, seen: Any, how: Unmasking | Beam | Diffusing, keys: Sequence[str], guiding: Guiding | None = None
    ) -> list[Written]:
        """A caption of each image that was looked at; ``keys`` are the images' names, from which what is drawn follows, and
        ``guiding`` is what a policy with a guide asks.

        UserError for a way of writing that the method does not have, or captions longer than the context.
        """
        self._check(how)
        if isinstance(how, Unmasking):
            return self.writer.unmasked(seen, how, keys, guiding)
        if isinstance(how, Diffusing):
            return self.writer.written(seen, how, keys)
        return self.writer.searched(seen, how, reverse=self.method.direction is not None)

    def guiding(self, clip: Any, seen: Tensor) -> Guiding:
        """What a policy with a guide asks: ``clip`` (a scorer of a CLIP run), which has ``seen`` the images.

        UserError if it has another vocabulary: it reads token ids, and they would be other words to it.
        """
        if clip.vocabulary.sha256 != self.vocabulary.sha256:
            raise UserError(
                f"{self.name}: its guide has another vocabulary; allowed: a CLIP run with this run's vocabulary"
            )
        return Guiding(clip.read, seen)

    def fill(self, seen: Any, templates: Sequence[Sequence[int]], how: Unmasking, keys: Sequence[str]) -> list[Written]:
        """The template of each image with its masks filled in; only masked models can."""
        if self.family != "masked":
            raise UserError(
                f"{self.name} writes by {DECODINGS[DECODING_OF[self.family]]} and cannot fill words in; masked methods can"
            )
        for template in templates:
            if len(template) > self.context_length - 2:
                raise UserError(
                    f"a caption of {len(template)} BPE tokens is too long; at most {self.context_length - 2} fit the context"
                )
        return self.writer.filled(seen, templates, how, keys)

    def text(self, written: Written) -> str:
        """A caption as text, in lower case."""
        return self.vocabulary.decode(written.pieces)

    def clip_ids(self, written: Written) -> list[int]:
        """A caption's pieces as CLIP numbers them; its text may be split into others."""
        return self.vocabulary.clip_ids(written.pieces)

    def piece(self, token: int) -> str:
        """One of its pieces as text; one that is not a whole character reads as a replacement character."""
        return self.vocabulary.decode([token])

    def _check(self, how: Unmasking | Beam | Diffusing) -> None:
        writes = DECODING_OF[self.family]
        if how.kind != writes:
            raise UserError(f"{self.name} writes by {DECODINGS[writes]}, not by {DECODINGS[how.kind]}")
        if isinstance(how, Diffusing):
            assert self.method.diffusion_steps is not None
            if how.steps is not None and how.steps > self.method.diffusion_steps:
                raise UserError(f"{how.steps} steps: {self.name} has {self.method.diffusion_steps} at most")
            if as_cfg(how.guidance, how.orientation) != 1 and self.method.guidance is None:
                raise UserError(f"{self.name} is not trained for guidance; only the scale 1 is possible")
            return
        most = how.lengths[-1] if isinstance(how, Unmasking) else how.max_tokens
        room = self.context_length - (1 if isinstance(how, Unmasking) and how.ends else 2)
        if most > room:
            raise UserError(f"captions of {most} BPE tokens are too long; at most {room} fit the context")
