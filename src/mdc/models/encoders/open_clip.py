"""The image tower of an open_clip model."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from torch import Tensor

from mdc.models.encoders.tower import Tower, places
from mdc.plan.config.kinds.encoders import OpenClipTower
from mdc.plan.data_folder import weights_path
from mdc.plan.jobs.model import EncoderJob
from mdc.plan.records import UserError


class OpenClip(Tower):
    """The feature is the embedding that CLIP compares; tokens are those of its last layer: patches, or a feature map. If
    ``pooled``, the feature is what is projected to that embedding: [CLS], or of a feature map, which CLIP pools by attention,
    the mean of the tokens."""

    def __init__(self, visual: Any, pooled: bool = False) -> None:
        super().__init__(visual.image_mean, visual.image_std)
        self.visual, self.pooled = visual, pooled
        if hasattr(visual, "output_tokens"):
            visual.output_tokens = True
            if pooled:
                visual.proj = None

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        visual: Any = self.visual
        if hasattr(visual, "output_tokens"):
            feature, tokens = visual(images)
            return feature, tokens
        if hasattr(visual, "trunk"):  # a timm model
            hidden = visual.trunk.forward_features(images)
            feature = visual.trunk.forward_head(hidden)
            feature = feature if self.pooled else visual.head(feature)
            prefix = getattr(visual.trunk, "num_prefix_tokens", 0)
            return feature, hidden[:, prefix:] if hidden.ndim == 3 else places(hidden)
        maps = visual.stem(images)
        for layer in (visual.layer1, visual.layer2, visual.layer3, visual.layer4):
            maps = layer(maps)
        tokens = places(maps)
        return tokens.mean(dim=1) if self.pooled else visual.attnpool(maps), tokens


def tower(job: EncoderJob, root: Path | None = None, checkpoint: Path | None = None) -> OpenClip:
    """The weights are what open_clip finds or fetches; the folder of a ``local-dir:`` model says what it is."""
    assert isinstance(job.entry, OpenClipTower)
    return OpenClip(created(job.entry.model, job.entry.weights, root).visual, job.entry.pooled)


def native_size(model: str) -> int:
    """Pixels a side of the images that ``model`` was made for; UserError if there is no such model."""
    size = created(model, None, None).visual.image_size
    return int(size if isinstance(size, int) else size[0])


def created(name: str, named: str | None, root: Path | None) -> Any:
    """The open_clip model ``name`` with the weights ``named``, which open_clip finds or fetches; ``root``: where files of weights
    lie; None for the architecture alone. UserError if it cannot be had."""
    load = root is not None
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import open_clip

    weights = None if root is None else weights_path(named, root)
    try:
        with warnings.catch_warnings(), nullcontext() if load else _unsaid():
            # a tower with another activation than its weights were trained with runs, and sees little
            warnings.filterwarnings("error", message="QuickGELU mismatch")
            return open_clip.create_model(
                name,
                pretrained=weights,
                load_weights=load,
                pretrained_text=False,
                require_pretrained=load,
                weights_only=True,
            )
    except Exception as error:  # open_clip, the hub and torch raise whatever they like
        raise UserError(
            f"open_clip model {name!r} with weights {named!r} cannot be loaded "
            f"({' '.join(str(error).split())[:200]}); allowed: a name and weights that `open_clip.list_pretrained()` lists, "
            "or local-dir:FOLDER"
        ) from None


@contextmanager
def _unsaid() -> Iterator[None]:
    """Silence open_clip's warning about missing weights, which are intended."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
