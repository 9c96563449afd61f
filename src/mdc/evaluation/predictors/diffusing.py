"""Captions written by mask-and-replace diffusion: its reverse process, with guidance (MC-Diffusion, section 3).

All noise of a caption follows from (seed, the image's name, the stride), so it does not depend on what is captioned beside it.
What the decoder reads of an image is computed once; of a condition that is lost whole once in all. With guidance the whole
condition and what is left of it are shown to the decoder in one batch, and weighed before the output layer: it is linear, so that
is the same, and the vocabulary is gone through once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mdc.diffusion.guidance import as_cfg, guided
from mdc.diffusion.mask_and_replace import Drawn, ancestral, stationary, times
from mdc.diffusion.sampling import Unmasked, most_confident, unmask
from mdc.evaluation.predictors.writing import Written
from mdc.models.diffusion_captioner import DiffusionCaptioner, schedule_of
from mdc.models.memory import Memory
from mdc.models.precision import autocast
from mdc.models.text import Vocabulary
from mdc.plan.config.caption import Diffusing
from mdc.plan.config.pretrain import Method

#: log probabilities of all classes that are held at a time: a gigabyte in float32, and twice as much while places are drawn
AT_ONCE = 1 << 28


@dataclass(frozen=True)
class Seen:
    """Conditions of I images, ``vectors`` (I, M, E), and what the decoder reads of them."""

    vectors: Tensor
    memory: Memory

    def __len__(self) -> int:
        return len(self.memory)

    def of(self, images: Sequence[int]) -> Seen:
        """Those of the ``images``, by number."""
        return Seen(self.vectors[list(images)], self.memory.of(images))


class DiffusionWriter:
    """``batch_tokens``: tokens that are computed at a time, a matter of memory alone; fewer, where the vocabulary is so large
    that the log probabilities of so many would be more than AT_ONCE."""

    def __init__(
        self,
        model: DiffusionCaptioner,
        method: Method,
        vocabulary: Vocabulary,
        precision: str,
        device: torch.device,
        batch_tokens: int = 8192,
    ) -> None:
        self.model = model.to(device).eval()
        self.method, self.vocabulary = method, vocabulary
        self.precision, self.device, self.batch_tokens = precision, device, batch_tokens
        self.schedule = schedule_of(method, model.classes)
        self.length = int(model.length)
        self._null: Memory | None = None

    def null(self, vectors: Tensor) -> Memory:
        """What the decoder reads of a condition that is lost whole: the same whatever the image (``vectors`` (1, M, E)) is, so it
        is computed once."""
        if self._null is None:
            whole = torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
            self._null = self.model.remember(self.model.degraded(vectors, whole))
        return self._null

    @torch.no_grad()
    def look(self, images: Tensor) -> Seen:
        """images (I, 3, S, S) uint8 → what is to be known of them, computed once."""
        with autocast(self.device, self.precision):
            vectors = self.model.encoder.prepared(images.to(self.device))
            return Seen(vectors, self.model.remember(vectors))

    @torch.no_grad()
    def written(self, seen: Seen, how: Diffusing, keys: Sequence[str]) -> list[Written]:
        """A caption of each image. ``keys``: the images' names, from which what is drawn follows."""
        guides = as_cfg(how.guidance, how.orientation) != 1
        size = max(self.batch_tokens // (self.length * (2 if guides else 1)), 1)
        size = max(min(size, AT_ONCE // (self.length * self.model.classes)), 1)
        found: list[Written] = []
        for start in range(0, len(seen), size):
            numbers = range(start, min(start + size, len(seen)))
            found += self._batch(seen.of(numbers), how, [keys[number] for number in numbers])
        return found

    def moments(self, how: Diffusing) -> list[int]:
        """The times that a caption goes through, from T down to 0.

        best_first shows at least one place at a stride, so it has no more strides than that takes: at every stride as many
        places are masks as the time says.
        """
        strides = how.steps or self.schedule.steps
        if how.policy == "best_first":
            each = -(-self.length // strides)
            strides = -(-self.length // each)
        return times(self.schedule.steps, strides)

    def _batch(self, seen: Seen, how: Diffusing, keys: list[str]) -> list[Written]:
        moments = self.moments(how)
        noise = _Noise(how.seed, keys, self.length, seen.vectors.shape[1], self.device)
        predict = _Predict(self, seen, how, moments, noise)
        # with guidance a stride takes the whole condition and what is left of it
        calls = (len(moments) - 1) * (1 if predict.scale == 1 else 2)
        drawn: Drawn | Unmasked
        if how.policy == "posterior":
            start = stationary(self.schedule, *noise.of_start())
            drawn = ancestral(predict, start, moments, self.schedule, noise.of_stride)
        else:
            drawn = self._best_first(predict, len(keys), moments)
        return [self._cut(*one, calls) for one in zip(drawn.tokens, drawn.step, drawn.confidence, strict=True)]

    def _best_first(self, predict: _Predict, count: int, moments: Sequence[int]) -> Unmasked:
        """From masks alone; at each stride the places whose most likely token is the most confident are shown, as many as it
        takes to be done in time. A token that is shown is never replaced."""
        tokens = torch.full((count, self.length), self.schedule.mask_id, device=self.device)
        each = -(-self.length // (len(moments) - 1))

        def propose(tokens: Tensor, where: Tensor, rows: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
            # all rows have as many masks, so all are done at the same step
            best = predict(tokens, moments[step - 1]).max(dim=-1)
            return best.indices, best.values, best.values

        masked = tokens == self.schedule.mask_id
        return unmask(propose, tokens, masked, lambda sure, where: most_confident(sure, where, each))

    def _cut(self, classes: Tensor, step: Tensor, confidence: Tensor, calls: int) -> Written:
        """A caption up to its first EOT, whose own confidence counts too."""
        tokens = self.model.token_of(classes).tolist()
        end = tokens.index(self.vocabulary.eot) if self.vocabulary.eot in tokens else len(tokens)
        sure = confidence.tolist()
        return Written(tuple(tokens[:end]), sum(sure[: end + 1]), tuple(step.tolist()[:end]), tuple(sure[:end]), calls)


class _Predict:
    """log p(x_0 | x_t) of one batch, with guidance if it is asked for."""

    def __init__(
        self, writer: DiffusionWriter, seen: Seen, how: Diffusing, moments: Sequence[int], noise: _Noise
    ) -> None:
        self.writer, self.seen, self.how, self.noise = writer, seen, how, noise
        self.scale = as_cfg(how.guidance, how.orientation)
        self.numbers = {t: number for number, t in enumerate(moments)}
        guidance = writer.method.guidance
        self.anew = how.condition_mask == "per_step" and guidance is not None and (guidance.mask_rate or 1.0) < 1
        self.both = None if self.scale == 1 else self._beside(0)

    def __call__(self, tokens: Tensor, t: int) -> Tensor:
        """tokens (n, L) → (n, L, K) float32."""
        number = self.numbers[t]
        if self.scale == 1:
            return self._said(self._hidden(tokens, t, self.seen.memory))
        if self.anew and number:
            self.both = self._beside(number)
        assert self.both is not None
        full, weak = self._hidden(torch.cat([tokens, tokens]), t, self.both).chunk(2)
        return self._said(guided(full, weak, self.scale))

    def _beside(self, number: int) -> Memory:
        """What the decoder reads of all conditions, and of what is left of them at stride ``number``."""
        model, guidance, vectors = self.writer.model, self.writer.method.guidance, self.seen.vectors
        assert guidance is not None  # whoever asks for guidance has been checked
        with autocast(self.writer.device, self.writer.precision):
            if guidance.mask_rate is None or guidance.mask_rate == 1:
                weak = self.writer.null(vectors[:1]).of([0] * len(vectors))
            else:
                weak = model.remember(model.degraded(vectors, self.noise.of_condition(number) < guidance.mask_rate))
        return self.seen.memory.beside(weak)

    def _hidden(self, tokens: Tensor, t: int, memory: Memory) -> Tensor:
        writer = self.writer
        with autocast(writer.device, writer.precision):
            return writer.model.text(tokens, torch.full((1,), t, device=tokens.device), memory)

    def _said(self, hidden: Tensor) -> Tensor:
        with autocast(self.writer.device, self.writer.precision):
            return self.writer.model.head(hidden).float().log_softmax(dim=-1)


class _Noise:
    """Uniform numbers of each image and stride, in float64: a stream each, named by the seed, the stride and the image's key."""

    def __init__(self, seed: int, keys: Sequence[str], length: int, vectors: int, device: torch.device) -> None:
        self._seed, self._length, self._vectors, self._device = seed, length, vectors, device
        self._keys = [list(key.encode("utf-8", "surrogatepass")) for key in keys]

    def of_start(self) -> tuple[Tensor, Tensor]:
        """(what, which), (n, L) each, of what stands there in the beginning."""
        return self._two(0)

    def of_stride(self, number: int) -> tuple[Tensor, Tensor]:
        """The same of a stride, from 0."""
        return self._two(number + 1)

    def of_condition(self, number: int) -> Tensor:
        """(n, M): what of the condition is lost at a stride."""
        return self._drawn(number, 1, self._vectors)

    def _two(self, name: int) -> tuple[Tensor, Tensor]:
        what, which = self._drawn(name, 0, 2 * self._length).split(self._length, dim=1)
        return what, which

    def _drawn(self, name: int, purpose: int, count: int) -> Tensor:
        streams = [np.random.default_rng([self._seed, name, purpose, *key]) for key in self._keys]
        return torch.from_numpy(np.stack([stream.random(count) for stream in streams])).to(self._device)
