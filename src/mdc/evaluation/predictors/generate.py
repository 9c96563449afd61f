"""The ability ``generate``: captions of images by every decoding policy of a method (paper, sections 3.2 and 4.2)."""

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from mdc.data.formats.images import center_resize
from mdc.diffusion.guidance import as_cfg
from mdc.evaluation.predictors.diffusing import Conditions, DiffusionWriter
from mdc.evaluation.predictors.writing import DecodedCaption, Guiding, Writer
from mdc.models.memory import Memory
from mdc.models.runs import RunModel
from mdc.plan.config.caption import DECODING_OF, DECODINGS, Beam, Diffusing, Unmasking
from mdc.plan.parts import family_of
from mdc.plan.records import UserError


class RunWriter:
    """Decodes captions with a run of ours. UserError for a method without captions."""

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

    def look(self, images: Tensor) -> Memory | Conditions:
        """Pictures (I, 3, S, S) → what the decoder reads of them, computed once."""
        return self.writer.look(images)

    def write(
        self, visual: Any, policy: Unmasking | Beam | Diffusing, keys: Sequence[str], guiding: Guiding | None = None
    ) -> list[DecodedCaption]:
        """A caption of each image of ``visual``; ``keys`` are the images' names, which seed the sampling, and ``guiding`` is for
        a policy with a guide.

        UserError for a policy that the method does not have, or captions longer than the context.
        """
        self._check(policy)
        if isinstance(policy, Unmasking):
            return self.writer.unmasked(visual, policy, keys, guiding)
        if isinstance(policy, Diffusing):
            return self.writer.diffused(visual, policy, keys)
        return self.writer.searched(visual, policy, reverse=self.method.direction is not None)

    def guiding(self, clip: Any, images: Tensor) -> Guiding:
        """The guide of a policy: ``clip``, the scorer of a CLIP run, with its embeddings of the ``images``.

        UserError if it has another vocabulary, since it reads token ids.
        """
        if clip.vocabulary.sha256 != self.vocabulary.sha256:
            raise UserError(
                f"{self.name}: its guide has another vocabulary; allowed: a CLIP run with this run's vocabulary"
            )
        return Guiding(clip.read, images)

    def fill(
        self, visual: Any, templates: Sequence[Sequence[int]], policy: Unmasking, keys: Sequence[str]
    ) -> list[DecodedCaption]:
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
        return self.writer.filled(visual, templates, policy, keys)

    def text(self, caption: DecodedCaption) -> str:
        """A caption as text, in lower case."""
        return self.vocabulary.decode(caption.pieces)

    def clip_ids(self, caption: DecodedCaption) -> list[int]:
        """A caption's tokens in CLIP's numbering; re-tokenising its text may give others."""
        return self.vocabulary.clip_ids(caption.pieces)

    def piece(self, token: int) -> str:
        """A token as text; an incomplete character becomes a replacement character."""
        return self.vocabulary.decode([token])

    def _check(self, policy: Unmasking | Beam | Diffusing) -> None:
        writes = DECODING_OF[self.family]
        if policy.kind != writes:
            raise UserError(f"{self.name} writes by {DECODINGS[writes]}, not by {DECODINGS[policy.kind]}")
        if isinstance(policy, Diffusing):
            assert self.method.diffusion_steps is not None
            if policy.steps is not None and policy.steps > self.method.diffusion_steps:
                raise UserError(f"{policy.steps} steps: {self.name} has {self.method.diffusion_steps} at most")
            if as_cfg(policy.guidance, policy.orientation) != 1 and self.method.guidance is None:
                raise UserError(f"{self.name} is not trained for guidance; only the scale 1 is possible")
            return
        longest = policy.lengths[-1] if isinstance(policy, Unmasking) else policy.max_tokens
        room = self.context_length - (1 if isinstance(policy, Unmasking) and policy.ends else 2)
        if longest > room:
            raise UserError(f"captions of {longest} BPE tokens are too long; at most {room} fit the context")
