"""Decoding by mask-and-replace diffusion: its reverse process, with guidance (MC-Diffusion, section 3).

The noise of a caption depends only on (seed, the image's name, the stride), not on its batch. Keys and values of an image are
computed once, those of the null condition once in all. With guidance the whole and the degraded condition pass the decoder in
one batch, and are combined before the linear output layer, so the vocabulary is traversed once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mdc.diffusion.sampling import Unmasked, most_confident, unmask
from mdc.evaluation.predictors.writing import DecodedCaption, Guiding
from mdc.extensions.mc_diffusion.mask_and_replace.diffusion import ancestral, stationary, times
from mdc.extensions.mc_diffusion.mask_and_replace.guidance import as_cfg, guided
from mdc.extensions.mc_diffusion.mask_and_replace.method import Diffusing
from mdc.extensions.mc_diffusion.mask_and_replace.model import DiffusionCaptioner
from mdc.models.memory import Memory
from mdc.models.precision import autocast
from mdc.models.text import Vocabulary
from mdc.plan.config.method import Method

#: log probabilities of all classes in memory at a time: a gigabyte in float32, and twice as much while sampling
AT_ONCE = 1 << 28


@dataclass(frozen=True)
class Conditions:
    """Conditions of I images, ``vectors`` (I, M, E), and their keys and values."""

    vectors: Tensor
    memory: Memory

    def __len__(self) -> int:
        return len(self.memory)

    def of(self, images: Sequence[int]) -> "Conditions":
        """Those of the ``images``, by number."""
        return Conditions(self.vectors[list(images)], self.memory.of(images))


class Writer:
    """``batch_tokens``: tokens that are computed at a time, affects memory alone; fewer, if their log probabilities
    would exceed AT_ONCE."""

    def __init__(
        self,
        model: DiffusionCaptioner,
        vocabulary: Vocabulary,
        precision: str,
        device: torch.device,
        batch_tokens: int = 8192,
    ) -> None:
        self.model = model.to(device).eval()
        self.vocabulary, self.schedule = vocabulary, model.schedule
        self.precision, self.device, self.batch_tokens = precision, device, batch_tokens
        self.length = int(model.length)
        self._null: Memory | None = None

    def null(self, vectors: Tensor) -> Memory:
        """Keys and values of the null condition, independent of the image (``vectors`` (1, M, E)); computed once."""
        if self._null is None:
            everywhere = torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
            self._null = self.model.remember(self.model.degraded(vectors, everywhere))
        return self._null

    @torch.no_grad()
    def look(self, images: Tensor) -> Conditions:
        """images (I, 3, S, S) uint8 → their conditions, computed once."""
        with autocast(self.device, self.precision):
            vectors = self.model.encoder.prepared(images.to(self.device))
            return Conditions(vectors, self.model.remember(vectors))

    @torch.no_grad()
    def diffused(self, conditions: Conditions, policy: Diffusing, keys: Sequence[str]) -> list[DecodedCaption]:
        """A caption of each image. ``keys``: the images' names, which seed the sampling."""
        guides = as_cfg(policy.guidance, policy.orientation) != 1
        size = max(self.batch_tokens // (self.length * (2 if guides else 1)), 1)
        size = max(min(size, AT_ONCE // (self.length * self.model.classes)), 1)
        captions: list[DecodedCaption] = []
        for start in range(0, len(conditions), size):
            numbers = range(start, min(start + size, len(conditions)))
            captions += self._batch(conditions.of(numbers), policy, [keys[number] for number in numbers])
        return captions

    def moments(self, policy: Diffusing) -> list[int]:
        """The times of the reverse process, from T down to 0.

        best_first reveals at least one place per stride, so it has no more strides than places need; the share of masks
        matches the time.
        """
        strides = policy.steps or self.schedule.steps
        if policy.policy == "best_first":
            each = -(-self.length // strides)
            strides = -(-self.length // each)
        return times(self.schedule.steps, strides)

    def _batch(self, conditions: Conditions, policy: Diffusing, keys: list[str]) -> list[DecodedCaption]:
        moments = self.moments(policy)
        noise = _Noise(policy.seed, keys, self.length, conditions.vectors.shape[1], self.device)
        predict = _Predict(self, conditions, policy, moments, noise)
        # with guidance a stride takes the whole and the degraded condition
        calls = (len(moments) - 1) * (1 if predict.scale == 1 else 2)
        if policy.policy == "posterior":
            start = stationary(self.schedule, *noise.of_start())
            result = ancestral(predict, start, moments, self.schedule, noise.of_stride)
        else:
            result = self._best_first(predict, len(keys), moments)
        return [self._cut(*row, calls) for row in zip(result.tokens, result.step, result.confidence, strict=True)]

    def _best_first(self, predict: "_Predict", count: int, moments: Sequence[int]) -> Unmasked:
        """From masks alone; each stride reveals the most confident places, equally many per stride. A revealed token is never
        replaced."""
        tokens = torch.full((count, self.length), self.schedule.mask_id, device=self.device)
        each = -(-self.length // (len(moments) - 1))

        def propose(tokens: Tensor, where: Tensor, rows: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
            # all rows have as many masks, so all are done at the same step
            best = predict(tokens, moments[step - 1]).max(dim=-1)
            return best.indices, best.values, best.values

        masked = tokens == self.schedule.mask_id
        return unmask(propose, tokens, masked, lambda sure, where: most_confident(sure, where, each))

    def _cut(self, classes: Tensor, step: Tensor, confidence: Tensor, calls: int) -> DecodedCaption:
        """A caption up to its first EOT, whose own confidence counts too."""
        tokens = self.model.token_of(classes).tolist()
        end = tokens.index(self.vocabulary.eot) if self.vocabulary.eot in tokens else len(tokens)
        log_probs = confidence.tolist()
        return DecodedCaption(
            tuple(tokens[:end]), sum(log_probs[: end + 1]), tuple(step.tolist()[:end]), tuple(log_probs[:end]), calls
        )


class _Predict:
    """log p(x_0 | x_t) of one batch, with optional guidance."""

    def __init__(
        self,
        writer: Writer,
        conditions: Conditions,
        policy: Diffusing,
        moments: Sequence[int],
        noise: "_Noise",
    ) -> None:
        self.writer, self.conditions, self.policy, self.noise = writer, conditions, policy, noise
        self.scale = as_cfg(policy.guidance, policy.orientation)
        self.numbers = {t: number for number, t in enumerate(moments)}
        guidance = writer.model.guidance
        self.redraws = policy.condition_mask == "per_step" and guidance is not None and (guidance.mask_rate or 1.0) < 1
        self.memories = None if self.scale == 1 else self._beside(0)

    def __call__(self, tokens: Tensor, t: int) -> Tensor:
        """tokens (n, L) → (n, L, K) float32."""
        number = self.numbers[t]
        if self.scale == 1:
            return self._log_probs(self._hidden(tokens, t, self.conditions.memory))
        if self.redraws and number:
            self.memories = self._beside(number)
        assert self.memories is not None
        full, weak = self._hidden(torch.cat([tokens, tokens]), t, self.memories).chunk(2)
        return self._log_probs(guided(full, weak, self.scale))

    def _beside(self, number: int) -> Memory:
        """Keys and values of all conditions, followed by those of the degraded ones at stride ``number``."""
        model, guidance, vectors = self.writer.model, self.writer.model.guidance, self.conditions.vectors
        assert guidance is not None  # checked by the method's ``refusal``
        with autocast(self.writer.device, self.writer.precision):
            if guidance.mask_rate is None or guidance.mask_rate == 1:
                weak = self.writer.null(vectors[:1]).of([0] * len(vectors))
            else:
                weak = model.remember(model.degraded(vectors, self.noise.of_condition(number) < guidance.mask_rate))
        return self.conditions.memory.beside(weak)

    def _hidden(self, tokens: Tensor, t: int, memory: Memory) -> Tensor:
        writer = self.writer
        with autocast(writer.device, writer.precision):
            return writer.model.text(tokens, torch.full((1,), t, device=tokens.device), memory)

    def _log_probs(self, hidden: Tensor) -> Tensor:
        with autocast(self.writer.device, self.writer.precision):
            return self.writer.model.head(hidden).float().log_softmax(dim=-1)


class _Noise:
    """Uniform float64 numbers, a stream per image and stride, seeded by the seed, the stride and the image's key."""

    def __init__(self, seed: int, keys: Sequence[str], length: int, vectors: int, device: torch.device) -> None:
        self._seed, self._length, self._vectors, self._device = seed, length, vectors, device
        self._keys = [list(key.encode("utf-8", "surrogatepass")) for key in keys]

    def of_start(self) -> tuple[Tensor, Tensor]:
        """(what, which), (n, L) each, for the initial tokens."""
        return self._pair(0)

    def of_stride(self, number: int) -> tuple[Tensor, Tensor]:
        """The same for a stride, from 0."""
        return self._pair(number + 1)

    def of_condition(self, number: int) -> Tensor:
        """(n, M), which decide what of the condition is masked at a stride."""
        return self._drawn(number, 1, self._vectors)

    def _pair(self, name: int) -> tuple[Tensor, Tensor]:
        fate, class_draw = self._drawn(name, 0, 2 * self._length).split(self._length, dim=1)
        return fate, class_draw

    def _drawn(self, name: int, purpose: int, count: int) -> Tensor:
        streams = [np.random.default_rng([self._seed, name, purpose, *key]) for key in self._keys]
        return torch.from_numpy(np.stack([stream.random(count) for stream in streams])).to(self._device)


def generate(
    writer: Writer,
    method: Method,
    visual: Conditions,
    policy: Diffusing,
    keys: Sequence[str],
    guiding: Guiding | None,
) -> list[DecodedCaption]:
    """See :class:`mdc.evaluation.predictors.generate.GenerateModule`."""
    return writer.diffused(visual, policy, keys)
