"""An image encoder of timm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from mdc.models.encoders.tower import Tower, fill, places, weights_of_file
from mdc.plan.config.encoders import TimmTower
from mdc.plan.jobs.encoder_model import EncoderJob
from mdc.plan.records import UserError


class Timm(Tower):
    """Tokens are the last feature map or the patch tokens; the feature is what the classifier would read."""

    def __init__(self, net: Any) -> None:
        cfg = net.pretrained_cfg
        super().__init__(cfg["mean"], cfg["std"])
        self.net = net

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        found = self.net.forward_features(images)
        feature = self.net.forward_head(found, pre_logits=True)
        if found.ndim == 3:
            return feature, found[:, getattr(self.net, "num_prefix_tokens", 0) :]
        # Swin and its like keep the channels last
        channels_last = found.shape[-1] == self.net.num_features and found.shape[1] != self.net.num_features
        return feature, found.flatten(1, 2) if channels_last else places(found)


def build(job: EncoderJob) -> Timm:
    """The architecture, without weights."""
    return Timm(_model(_entry(job), pretrained=False))


def fetched(job: EncoderJob, root: Path, checkpoint: Path | None) -> Timm:
    """The same with its weights: those of the file, which lies below ``root``, or those that timm fetches."""
    entry = _entry(job)
    if entry.weights is None:
        return Timm(_model(entry, pretrained=True))
    tower = build(job)
    weights = weights_of_file(root / entry.weights)
    own = set(tower.net.state_dict())
    head = getattr(tower.net, "pretrained_cfg", {}).get("classifier")
    heads = tuple(f"{name}." for name in ([head] if isinstance(head, str) else head or []))
    kept = {name: tensor for name, tensor in weights.items() if name in own or not name.startswith(heads)}
    fill(tower.net, kept, root / entry.weights)
    return tower


def _entry(job: EncoderJob) -> TimmTower:
    assert isinstance(job.entry, TimmTower)
    return job.entry


def _model(entry: TimmTower, pretrained: bool) -> Any:
    import timm

    try:
        try:
            return timm.create_model(entry.model, pretrained=pretrained, num_classes=0, img_size=entry.image_size)
        except TypeError:  # a convolutional one takes any size, and is not told
            return timm.create_model(entry.model, pretrained=pretrained, num_classes=0)
    except Exception as error:  # timm, the hub and torch raise whatever they like
        how = "its weights cannot be fetched" if pretrained else "it cannot be built"
        raise UserError(
            f"timm model {entry.model!r}: {how} ({' '.join(str(error).split())[:200]}); allowed: a name of "
            "`timm.list_models()`, with weights: a file below MDC_DATA where there is no network"
        ) from None
