"""Decoding of autoregressive models by beam search."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mdc.diffusion.beam import Next, beam_search
from mdc.diffusion.direction import reads_backwards
from mdc.evaluation.predictors import writing
from mdc.evaluation.predictors.stepwise import Stepwise
from mdc.evaluation.predictors.writing import DecodedCaption, Guiding
from mdc.models.captioner import Captioner
from mdc.models.memory import Memory
from mdc.plan.config.decoding import Beam
from mdc.plan.config.method import Method


class Writer(writing.Writer):
    model: Captioner

    def following(self, memory: Memory, max_tokens: int) -> Next:
        """The callback of a beam search for the images of ``memory``; see :class:`.Stepwise`."""
        return Stepwise(self.model, memory, max_tokens, self.precision)

    def searched(self, memory: Memory, policy: Beam, reverse: bool = False) -> list[DecodedCaption]:
        """A caption of each image of ``memory``; ``reverse``: by a right-to-left model."""
        size = max(self.batch_tokens // (policy.num_beams * (policy.max_tokens + 2)), 1)
        captions = []
        for start in range(0, len(memory), size):
            part = memory.of(range(start, min(start + size, len(memory))))
            following = self.following(part, policy.max_tokens + 1)
            calls = torch.zeros(len(part), dtype=torch.int64, device=self.device)

            def counted(
                images: Tensor, parents: Tensor, tokens: Tensor, following: Next = following, calls: Tensor = calls
            ) -> Tensor:
                calls[images] += 1
                return following(images, parents, tokens)

            searched = beam_search(
                counted,
                len(part),
                num_beams=policy.num_beams,
                start=self.vocabulary.sot,
                end=self.vocabulary.eot,
                min_tokens=policy.min_tokens,
                max_tokens=policy.max_tokens,
                length_penalty=policy.length_penalty,
                device=self.device,
            )
            for hypothesis, count in zip(searched, calls.tolist(), strict=True):
                pieces, confidence = hypothesis.tokens[:-1], hypothesis.log_probs[:-1]
                step = tuple(range(1, len(pieces) + 1))
                if reverse:
                    pieces, confidence, step = pieces[::-1], confidence[::-1], step[::-1]
                captions.append(DecodedCaption(pieces, hypothesis.log_prob, step, confidence, count))
        return captions


def generate(
    writer: Writer, method: Method, visual: Memory, policy: Beam, keys: Sequence[str], guiding: Guiding | None
) -> list[DecodedCaption]:
    """See :class:`mdc.evaluation.predictors.generate.GenerateModule`."""
    return writer.searched(visual, policy, reverse=reads_backwards(method))
