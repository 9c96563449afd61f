"""The ability ``generate``: captions of images by every decoding policy of a method (paper, sections 3.2 and 4.2)."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from PIL import Image
from torch import Tensor

from mdc.data.formats.images import center_resize
from mdc.evaluation.predictors.writing import DecodedCaption, Guiding
from mdc.models.runs import RunModel
from mdc.plan.config.decoding import Decoding, Unmasking
from mdc.plan.config.method import Method
from mdc.plan.config.methods import DECODINGS
from mdc.plan.records import UserError


class GenerateModule(Protocol):
    """The interface of a method's module of the ability ``generate``: ``Writer(model, vocabulary, precision, device,
    batch_tokens)`` with ``look(images)``."""

    Writer: Any

    def generate(
        self, writer: Any, method: Method, visual: Any, policy: Decoding, keys: Sequence[str], guiding: Guiding | None
    ) -> list[DecodedCaption]:
        """A caption of each image of ``visual``, which ``look`` gave; see :meth:`RunWriter.write`."""
        ...


class RunWriter:
    """Decodes captions with a run of ours. UserError for a method without captions."""

    def __init__(self, run: RunModel, *, precision: str, device: torch.device, batch_tokens: int = 8192) -> None:
        self.method, self.vocabulary, self.context_length = run.job.method, run.vocabulary, run.context_length
        self.name, self.image_size = run.job.method_name, run.job.backbone.image_size
        if self.method.decoding is None:
            raise UserError(f"{run.checkpoint}: a method with the objective {self.method.objective} writes no captions")
        self._own: GenerateModule = self.method.load("generate")
        #: what the method generates with
        self.writer: Any = self._own.Writer(run.load(), run.vocabulary, precision, device, batch_tokens)

    def picture(self, image: Image.Image) -> Tensor:
        """An RGB image as the model takes it, (3, S, S) uint8: resized and cropped to the middle."""
        return torch.from_numpy(center_resize(image, self.image_size)).permute(2, 0, 1)

    def look(self, images: Tensor) -> Any:
        """Pictures (I, 3, S, S) → what the decoder reads of them, computed once."""
        return self.writer.look(images)

    def write(
        self, visual: Any, policy: Decoding, keys: Sequence[str], guiding: Guiding | None = None
    ) -> list[DecodedCaption]:
        """A caption of each image of ``visual``; ``keys`` are the images' names, which seed the sampling, and ``guiding`` is for
        a policy with a guide.

        UserError for a policy that the method does not have, or captions longer than the context.
        """
        if problem := self.method.refusal(self.name, policy, self.context_length):
            raise UserError(problem)
        return self._own.generate(self.writer, self.method, visual, policy, keys, guiding)

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
        if self.method.decoding != "unmask":
            writes = DECODINGS[str(self.method.decoding)][0].in_words
            raise UserError(f"{self.name} writes by {writes} and cannot fill words in; masked methods can")
        for template in templates:
            if len(template) > self.context_length - 2:
                raise UserError(
                    f"a caption of {len(template)} BPE tokens is too long; at most {self.context_length - 2} fit the context"
                )
        return list(self.writer.filled(visual, templates, policy, keys))

    def text(self, caption: DecodedCaption) -> str:
        """A caption as text, in lower case."""
        return self.vocabulary.decode(caption.pieces)

    def clip_ids(self, caption: DecodedCaption) -> list[int]:
        """A caption's tokens in CLIP's numbering; re-tokenising its text may give others."""
        return self.vocabulary.clip_ids(caption.pieces)

    def piece(self, token: int) -> str:
        """A token as text; an incomplete character becomes a replacement character."""
        return self.vocabulary.decode([token])
