"""An image encoder of timm, which has torchvision's nets too (``resnet50.tv_in1k``)."""

from pathlib import Path
from typing import Any

from torch import Tensor

from mdc.models.encoders.tower import Tower, fill, places, weights_of_file
from mdc.plan.config.kinds.encoders import TimmTower
from mdc.plan.jobs.model import EncoderJob
from mdc.plan.records import UserError


class Timm(Tower):
    """Tokens are the last feature map or the patch tokens; the feature is what the classifier would read, or, with
    ``pooled`` and another width, the mean of the tokens."""

    def __init__(self, net: Any, pooled: bool = False) -> None:
        cfg = net.pretrained_cfg
        super().__init__(cfg["mean"], cfg["std"])
        self.net, self.pooled = net, pooled

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        maps = self.net.forward_features(images)
        feature, tokens = self.net.forward_head(maps, pre_logits=True), self._tokens(maps)
        use_mean = self.pooled and feature.shape[-1] != tokens.shape[-1]
        return tokens.mean(dim=1) if use_mean else feature, tokens

    def _tokens(self, maps: Tensor) -> Tensor:
        if maps.ndim == 3:
            return maps[:, getattr(self.net, "num_prefix_tokens", 0) :]
        # Swin and its like keep the channels last
        channels_last = maps.shape[-1] == self.net.num_features and maps.shape[1] != self.net.num_features
        return maps.flatten(1, 2) if channels_last else places(maps)


def tower(job: EncoderJob, root: Path | None = None, checkpoint: Path | None = None) -> Timm:
    """The weights are those of the file, which lies below ``root``, or those that timm fetches."""
    entry = job.entry
    assert isinstance(entry, TimmTower)
    fetches = root is not None and entry.weights is None
    built = Timm(model_of(entry.model, entry.image_size, pretrained=fetches), entry.pooled)
    if root is not None and entry.weights is not None:
        weights, expected = weights_of_file(root / entry.weights), set(built.net.state_dict())
        head = getattr(built.net, "pretrained_cfg", {}).get("classifier")
        heads = tuple(f"{name}." for name in ([head] if isinstance(head, str) else head or []))
        kept = {name: w for name, w in weights.items() if name in expected or not name.startswith(heads)}
        fill(built.net, kept, root / entry.weights)
    return built


def native_size(model: str) -> int:
    """Pixels a side of the images that ``model`` was made for; UserError if there is no such model."""
    return int(model_of(model, None, pretrained=False).pretrained_cfg["input_size"][-1])


def model_of(model: str, image_size: int | None, pretrained: bool) -> Any:
    """A model of timm without its classifier; UserError if there is none of that name, or its weights cannot be had."""
    import timm

    size: dict[str, Any] = {} if image_size is None else {"img_size": image_size}
    try:
        try:
            return timm.create_model(model, pretrained=pretrained, num_classes=0, **size)
        except TypeError:  # convolutional models have no img_size
            return timm.create_model(model, pretrained=pretrained, num_classes=0)
    except Exception as error:  # timm, the hub and torch raise whatever they like
        problem = "its weights cannot be fetched" if pretrained else "it cannot be built"
        raise UserError(
            f"timm model {model!r}: {problem} ({' '.join(str(error).split())[:200]}); allowed: a name of "
            "`timm.list_models()`, or local-dir:FOLDER; without a network with weights: random, or a file below MDC_DATA"
        ) from None
