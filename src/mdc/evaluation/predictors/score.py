"""The ability ``score``: how well a caption fits an image, by every estimator of a method."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from PIL import Image
from torch import Tensor

from mdc.data.formats.images import center_resize
from mdc.evaluation.predictors.caption_scores import Draws, Pair, Scored
from mdc.models.runs import RunModel
from mdc.models.text import Vocabulary, clip_pieces
from mdc.plan.config.method import Method
from mdc.plan.records import UserError


class TooLong(UserError):
    """A caption that is longer than the context."""


def caption_tokens(vocabulary: Vocabulary, caption: str, context_length: int, drop_unknown: bool = False) -> list[int]:
    """The tokens of a caption to be scored; see :meth:`RunScorer.tokens`. ``drop_unknown``: leave out tokens outside the
    vocabulary (for a user's caption; a benchmark's is scored whole or not at all)."""
    pieces = clip_pieces(caption)
    pieces = vocabulary.known(pieces) if drop_unknown else pieces
    if not pieces:
        restriction = " that this model's vocabulary has" * drop_unknown
        raise UserError(f"the caption {caption!r} has no word{restriction}; nothing can be scored")
    if len(pieces) > context_length - 2:
        raise TooLong(
            f"the caption {caption[:60]!r}… has {len(pieces)} BPE tokens; at most {context_length - 2} fit the context, and "
            "a part of a caption is never scored for the whole"
        )
    return vocabulary.encode_pieces(pieces, context_length)


class ScoreModule(Protocol):
    """The interface of a method's module of the ability ``score``: ``Scorer(model, mask_id, precision, device, batch_tokens)``
    with ``look(images)``, and of a CLIP ``read(captions)``."""

    Scorer: Any

    def score(
        self,
        scorer: Any,
        method: Method,
        estimator: str,
        visual: Any,
        pairs: Sequence[Pair],
        draws: Sequence[Draws],
        samples: int,
    ) -> list[Scored]:
        """Of each pair by an ``estimator`` of the ``method``. ``visual``: what ``look`` gave. ``draws`` by the pairs' ``item``,
        and ``samples`` of them, for the estimators that draw."""
        ...


class RunScorer:
    """A run of ours. ``samples``: of each estimator that draws, a multiple of 16."""

    def __init__(
        self, run: RunModel, *, samples: int, precision: str, device: torch.device, batch_tokens: int = 8192
    ) -> None:
        self.method, self.vocabulary, self.context_length = run.job.method, run.vocabulary, run.context_length
        self.name, self.image_size, self.samples = run.job.method_name, run.job.backbone.image_size, samples
        self.estimators = self.method.estimators
        if not self.estimators:
            raise UserError(
                f"{run.checkpoint}: a method with the objective {self.method.objective} cannot score captions"
            )
        self.model = run.load()
        self._own: ScoreModule = self.method.load("score")
        #: what the method scores with
        self.captioner: Any = self._own.Scorer(self.model, run.vocabulary.mask_id, precision, device, batch_tokens)

    def tokens(self, caption: str) -> list[int]:
        """[SOT, pieces…, EOT]. UserError for a caption that has no piece, is longer than the context, or has a piece outside the
        vocabulary: nothing is ever cut or replaced silently."""
        return caption_tokens(self.vocabulary, caption, self.context_length)

    def picture(self, image: Image.Image) -> Tensor:
        """An RGB image as the model takes it: resized and cropped, (3, S, S) uint8."""
        return torch.from_numpy(center_resize(image, self.image_size)).permute(2, 0, 1)

    def look(self, images: Tensor) -> Any:
        """Pictures (I, 3, S, S) → visual inputs of ``score``, computed once."""
        return self.captioner.look(images)

    def read(self, captions: Sequence[Sequence[int]]) -> Tensor:
        """Captions as token ids → unit embeddings (C, E) float32, of a CLIP run."""
        return torch.as_tensor(self.captioner.read(captions))

    def score(self, estimator: str, visual: Any, pairs: Sequence[Pair], draws: Sequence[Draws]) -> list[Scored]:
        """A score of each pair; ``draws`` by the pairs' ``item``, for the estimators that draw."""
        if estimator not in self.estimators:
            allowed = ", ".join(self.estimators)
            raise UserError(f"{self.name} has no estimator {estimator}; allowed: {allowed}")
        scores = self._own.score(self.captioner, self.method, estimator, visual, pairs, draws, self.samples)
        return numbers(self.name, scores)


def cosines(images: Tensor, read: Any, pairs: Sequence[Pair]) -> list[Scored]:
    """Cosines of unit image embeddings (I, E) and captions that ``read`` embeds, each caption once."""
    captions = list(dict.fromkeys(tuple(pair.tokens) for pair in pairs))
    places = {tokens: place for place, tokens in enumerate(captions)}
    texts = read(captions)
    image = torch.tensor([pair.image for pair in pairs], device=images.device)
    text = torch.tensor([places[tuple(pair.tokens)] for pair in pairs], device=images.device)
    values = (images[image] * texts[text]).sum(dim=-1).double().cpu()
    return [Scored(float(value), 0.0, value[None]) for value in values]


def numbers(name: str, scores: list[Scored]) -> list[Scored]:
    """The scores; UserError for NaN, which would otherwise count as a wrong choice."""
    if any(math.isnan(score.value) for score in scores):
        raise UserError(
            f"{name}: a score is no number (NaN), so its weights are damaged, or its training diverged; look at its losses "
            "(figure_loss) and train it again"
        )
    return scores
