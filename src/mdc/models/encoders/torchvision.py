"""An image encoder of torchvision, whose tokens are what one of its layers gives."""

from itertools import pairwise
from pathlib import Path
from typing import Any

from torch import Tensor

from mdc.models.encoders.tower import Tower, fill, places, weights_of_file
from mdc.plan.config.encoders import TorchvisionTower
from mdc.plan.jobs.model import EncoderJob
from mdc.plan.records import UserError

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of all torchvision's ImageNet weights
_FILES = (".pt", ".pth", ".safetensors")
_POOLS = ("avgpool", "adaptive_avg_pool2d", "mean")  # what the mean over places is called in its graphs


class Torchvision(Tower):
    """Tokens are what ``layer`` gives, but for the first ``prefix`` of a sequence ([CLS]); the feature is their mean."""

    def __init__(self, net: Any, entry: TorchvisionTower) -> None:
        from torchvision.models.feature_extraction import create_feature_extractor

        super().__init__(_MEAN, _STD)
        try:
            self.net = create_feature_extractor(net.eval(), {entry.layer: "tokens"})
        except (ValueError, RuntimeError) as error:
            raise UserError(
                f"torchvision model {entry.model!r} has no layer {entry.layer!r} ({' '.join(str(error).split())[:160]}); "
                "torchvision.models.feature_extraction.get_graph_node_names lists them"
            ) from None
        self.prefix = entry.prefix

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        out = self.net(images)["tokens"]
        tokens = out[:, self.prefix :] if out.ndim == 3 else places(out)
        return tokens.mean(dim=1), tokens


def tower(job: EncoderJob, root: Path | None = None, checkpoint: Path | None = None) -> Torchvision:
    """The weights are those of the file, which lies below ``root``, or those that torchvision fetches by name."""
    entry = job.entry
    assert isinstance(entry, TorchvisionTower)
    of_file = entry.weights.endswith(_FILES)
    net = _model(entry.model, entry.weights if root is not None and not of_file else None, _size(entry))
    if root is not None and of_file:
        fill(net, weights_of_file(root / entry.weights), root / entry.weights)
    return Torchvision(net, entry)


def native_size(model: str) -> int:
    """Pixels a side of the images that ``model`` was made for; UserError if there is no such model."""
    from torchvision.models import get_model_weights

    _model(model, None, {})
    return int(get_model_weights(model).DEFAULT.transforms().crop_size[0])


def tokens_layer(model: str) -> tuple[str, int]:
    """``layer`` and ``prefix`` of a model as it comes: what its classifier reads the mean of, or, of a transformer, its last
    norm, behind [CLS]. UserError if it is unknown."""
    from torchvision.models.feature_extraction import get_graph_node_names

    names = get_graph_node_names(_model(model, None, {}))[1]
    if "encoder.ln" in names:
        return "encoder.ln", 1
    for before, name in pairwise(names):
        if name in _POOLS:
            return before, 0
    raise UserError(
        f"torchvision model {model!r}: which layer gives its tokens is not known here; name it under encoders"
    )


def _size(entry: TorchvisionTower) -> dict[str, int]:
    return {"image_size": entry.image_size} if entry.model.startswith("vit_") else {}


def _model(model: str, weights: str | None, size: dict[str, int]) -> Any:
    from torchvision.models import get_model

    try:
        return get_model(model, weights=weights, **size)
    except Exception as error:  # torchvision and the download raise whatever they like
        raise UserError(
            f"torchvision model {model!r} with weights {weights!r} cannot be had "
            f"({' '.join(str(error).split())[:200]}); allowed: a name of torchvision.models.list_models() and one of its "
            "weights; without a network random, or a file of weights below MDC_DATA"
        ) from None
