"""The ability ``score`` of any CLIP that open_clip can load: by name and weights, or from a local folder."""

import os
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from mdc.evaluation.predictors.caption_scores import Draws, Pair, Scored
from mdc.evaluation.predictors.score import TooLong, cosines
from mdc.models.precision import autocast
from mdc.plan.records import UserError

_BATCH = 256


class OpenClipScorer:
    """``model``: a name of open_clip, or ``local-dir:FOLDER``; ``weights``: a name, a file, or None with a folder.

    UserError if open_clip does not know it, if its weights can neither be found nor fetched, or for a name without weights, which
    open_clip would initialise at random.
    """

    estimators = ("cosine",)

    def __init__(self, model: str, weights: str | None, precision: str, device: torch.device) -> None:
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        import open_clip

        try:
            with warnings.catch_warnings():
                # a model with another activation than its weights were trained with runs, and scores badly
                warnings.filterwarnings("error", message="QuickGELU mismatch")
                loaded, _, self._preprocess = open_clip.create_model_and_transforms(
                    model, pretrained=weights, weights_only=True, device=device, require_pretrained=True
                )
            self._tokenizer = open_clip.get_tokenizer(model)
        except Exception as error:  # open_clip, the hub and torch raise whatever they like
            raise UserError(
                f"open_clip model {model!r} with weights {weights!r} cannot be loaded ({' '.join(str(error).split())[:200]}); "
                "allowed: a name and weights that `open_clip.list_pretrained()` lists, or local-dir:FOLDER"
            ) from None
        self.model, self.precision, self.device = loaded.eval(), precision, device
        self._context = int(getattr(self._tokenizer, "context_length", None) or 77)

    def tokens(self, caption: str) -> list[int]:
        """The model's own tokens, padded as its tokenizer pads. UserError for an empty or a too long caption."""
        if not caption.strip():
            raise UserError(f"the caption {caption!r} has no word; nothing can be scored")
        ids: Tensor = self._tokenizer([caption])[0]
        if self._cut(caption, ids):
            raise TooLong(f"the caption {caption[:60]!r}… is longer than the context of {self._context} tokens")
        return [int(token) for token in ids]

    def _cut(self, caption: str, ids: Tensor) -> bool:
        """Whether the tokenizer has truncated the caption to ``ids``."""
        encode = getattr(self._tokenizer, "encode", None)
        if encode is not None:
            return len(encode(caption)) > self._context - 2
        # hub tokenizers give no lengths: with twice the context, more tokens other than padding mean that it was cut
        room = 2 * self._context
        padding = self._tokenizer(["a"], context_length=room)[0].mode().values
        longer = self._tokenizer([caption], context_length=room)[0]
        return bool((longer != padding).sum() > (ids != padding).sum())

    def picture(self, image: Image.Image) -> Tensor:
        """As the model's own preprocessing makes it, (3, S, S) float32."""
        return self._preprocess(image)

    @torch.no_grad()
    def look(self, images: Tensor) -> Tensor:
        """Unit embeddings (I, E) float32."""
        with autocast(self.device, self.precision):
            return torch.nn.functional.normalize(self.model.encode_image(images.to(self.device)).float(), dim=-1)

    def score(self, estimator: str, visual: Any, pairs: Sequence[Pair], draws: Sequence[Draws]) -> list[Scored]:
        """Cosines."""
        if estimator not in self.estimators:
            raise UserError(f"an open_clip model has no estimator {estimator}; allowed: cosine")
        return cosines(visual, self.read, pairs)

    @torch.no_grad()
    def read(self, captions: Sequence[Sequence[int]]) -> Tensor:
        """Captions as token ids → unit embeddings (C, E) float32."""
        parts = []
        for start in range(0, len(captions), _BATCH):
            tokens = torch.tensor([list(ids) for ids in captions[start : start + _BATCH]], device=self.device)
            with autocast(self.device, self.precision):
                parts.append(torch.nn.functional.normalize(self.model.encode_text(tokens).float(), dim=-1))
        return torch.cat(parts)
