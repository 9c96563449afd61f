"""The ability ``score``: how well a caption fits an image, by every estimator of a method."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from mdc.data.formats.images import center_resize
from mdc.evaluation.predictors.caption_scores import CaptionScorer, Draws, Pair, Scored
from mdc.models.contrastive import Contrastive
from mdc.models.normalise import normalise
from mdc.models.precision import autocast
from mdc.models.runs import RunModel
from mdc.models.superclass import SuperClass
from mdc.models.text import Vocabulary, clip_pieces
from mdc.plan.config.score import estimators_of
from mdc.plan.parts import family_of
from mdc.plan.records import UserError

_BATCH = 256  # captions that a CLIP reads at once


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


class Similarity:
    """Scores of CLIP runs: the cosine of image and caption."""

    def __init__(self, model: Contrastive, precision: str, device: torch.device) -> None:
        self.model = model.to(device).eval()
        self.precision, self.device = precision, device

    @torch.no_grad()
    def look(self, images: Tensor) -> Tensor:
        """images (I, 3, S, S) uint8 → unit embeddings (I, E) float32."""
        with autocast(self.device, self.precision):
            return self.model.embed_images(normalise(images.to(self.device)))

    @torch.no_grad()
    def read(self, captions: Sequence[Sequence[int]]) -> Tensor:
        """Captions as token ids → unit embeddings (C, E) float32."""
        parts = []
        for start in range(0, len(captions), _BATCH):
            some = captions[start : start + _BATCH]
            lengths = torch.tensor([len(ids) for ids in some], device=self.device)
            tokens = torch.full((len(some), int(lengths.max())), some[0][-1], device=self.device)
            for row, ids in zip(tokens, some, strict=True):
                row[: len(ids)] = torch.tensor(list(ids), device=self.device)
            with autocast(self.device, self.precision):
                parts.append(self.model.embed_texts(tokens, lengths))
        return torch.cat(parts)


class BagOfWords:
    """Scores of SuperClass runs: how likely the set of a caption's tokens is, whatever their order and number."""

    def __init__(self, model: SuperClass, precision: str, device: torch.device) -> None:
        self.model = model.to(device).eval()
        self.precision, self.device = precision, device

    @torch.no_grad()
    def look(self, images: Tensor) -> Tensor:
        """images (I, 3, S, S) uint8 → log probabilities of the tokens, (I, V) float32."""
        with autocast(self.device, self.precision):
            return self.model.log_probabilities(self.model.encoder.prepared(images.to(self.device))).float()

    def score(self, log_probs: Tensor, pairs: Sequence[Pair]) -> list[Scored]:
        """Σ log softmax over the distinct tokens of each caption; repeated tokens and EOT add nothing."""
        scores = []
        for pair in pairs:
            pieces = pair.tokens[1:-1]
            first = [piece not in pieces[:place] for place, piece in enumerate(pieces)]
            each = log_probs[pair.image, list(pieces)].double().cpu() * torch.tensor(first)
            tokens = torch.cat([each, torch.zeros(1, dtype=torch.float64)])
            # sorted, so that rounding does not depend on the order of tokens
            scores.append(Scored(float(tokens.sort().values.sum()), 0.0, tokens))
        return scores


class RunScorer:
    """A run of ours. ``samples``: of each estimator that draws, a multiple of 16."""

    def __init__(
        self, run: RunModel, *, samples: int, precision: str, device: torch.device, batch_tokens: int = 8192
    ) -> None:
        self.method, self.vocabulary, self.context_length = run.job.method, run.vocabulary, run.context_length
        self.name, self.family = run.job.method_name, family_of(self.method.objective)
        self.image_size, self.samples = run.job.backbone.image_size, samples
        self.estimators = estimators_of(self.family, self.method.t_range)
        if not self.estimators:
            raise UserError(
                f"{run.checkpoint}: a method with the objective {self.method.objective} cannot score captions"
            )
        self.model = run.load()
        self._scorer: Similarity | BagOfWords | CaptionScorer
        if self.family == "contrastive":
            self._scorer = Similarity(self.model, precision, device)
        elif self.family == "superclass":
            self._scorer = BagOfWords(self.model, precision, device)
        else:
            self._scorer = CaptionScorer(self.model, run.vocabulary.mask_id, precision, device, batch_tokens)

    def tokens(self, caption: str) -> list[int]:
        """[SOT, pieces…, EOT]. UserError for a caption that has no piece, is longer than the context, or has a piece outside the
        vocabulary: nothing is ever cut or replaced silently."""
        return caption_tokens(self.vocabulary, caption, self.context_length)

    def picture(self, image: Image.Image) -> Tensor:
        """An RGB image as the model takes it: resized and cropped, (3, S, S) uint8."""
        return torch.from_numpy(center_resize(image, self.image_size)).permute(2, 0, 1)

    def look(self, images: Tensor) -> Any:
        """Pictures (I, 3, S, S) → visual inputs of ``score``, computed once."""
        return self._scorer.look(images)

    def read(self, captions: Sequence[Sequence[int]]) -> Tensor:
        """Captions as token ids → unit embeddings (C, E) float32, of a CLIP run."""
        assert isinstance(self._scorer, Similarity)
        return self._scorer.read(captions)

    @property
    def captioner(self) -> CaptionScorer:
        assert isinstance(self._scorer, CaptionScorer)
        return self._scorer

    def score(self, estimator: str, visual: Any, pairs: Sequence[Pair], draws: Sequence[Draws]) -> list[Scored]:
        """A score of each pair; ``draws`` by the pairs' ``item``, for the estimators that draw."""
        if estimator not in self.estimators:
            allowed = ", ".join(self.estimators)
            raise UserError(f"{self.name} has no estimator {estimator}; allowed: {allowed}")
        return numbers(self.name, self._score(estimator, visual, pairs, draws))

    def _score(self, estimator: str, visual: Any, pairs: Sequence[Pair], draws: Sequence[Draws]) -> list[Scored]:
        if isinstance(self._scorer, Similarity):
            return cosines(visual, self._scorer.read, pairs)
        if isinstance(self._scorer, BagOfWords):
            return self._scorer.score(visual, pairs)
        scorer = self.captioner
        match estimator:
            case "likelihood":
                return scorer.autoregressive(visual, pairs, reverse=self.method.direction is not None)
            case "parallel" | "heuristic" | "pseudo_likelihood":
                return getattr(scorer, estimator)(visual, pairs)
            case _:
                t_range = None if estimator == "monte_carlo" else self.method.t_range
                return scorer.monte_carlo(visual, pairs, draws, self.samples, t_range)


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
