"""Frozen encoders: the source of their weights, and the shape of their tokens."""

from abc import abstractmethod
from typing import Any, Literal

from mdc.plan.config.kinds.backbones import Backbone
from mdc.plan.config.kinds.kind import Kind
from mdc.plan.config.references import BackboneName, MethodName, TrainedOn
from mdc.plan.config.score import OpenClipModel
from mdc.plan.config.types import DataPath, NonNegative, Positive, Strict, Threads

#: instead of weights: random initial weights from one seed, as an untrained baseline of the architecture
RANDOM = "random"


class Encoder(Kind):
    """An image of ``image_size``² pixels gives ``tokens`` vectors of ``width`` numbers. Its module has
    ``tower(job, root, checkpoint)`` (:mod:`mdc.models.encoders`)."""

    label: str
    image_size: Positive
    tokens: Positive
    width: Positive


class OpenClipTower(Encoder, OpenClipModel):
    """The image tower of an open_clip ``model``, or ``local-dir:FOLDER``, with ``weights`` by name or as a file under
    MDC_DATA, ``random``, or None with a folder or a model of the hub.

    ``pooled``: its feature is not CLIP's embedding but the vector before the projection, as wide as the tokens.
    """

    module = "mdc.models.encoders.open_clip"
    kind: Literal["open_clip"]
    pooled: bool = False


class TimmTower(Encoder):
    """A ``model`` of timm, torchvision's among them (``resnet50.tv_in1k``), or ``local-dir:FOLDER``; ``weights``: a file under
    MDC_DATA, ``random``, or None for those that timm downloads, or of the folder.

    ``pooled``: its feature is the mean of the tokens, also where timm's classifier reads a wider vector.
    """

    module = "mdc.models.encoders.timm"
    kind: Literal["timm"]
    model: str
    weights: DataPath | None = None
    pooled: bool = False


class EfficientNetLite0Tower(Encoder):
    """EfficientNet-Lite0 with ImageNet weights, which an installed package holds. Its tokens are the last feature map,
    (image_size / 32)² vectors of 1,280 numbers."""

    module = "mdc.models.encoders.efficientnet_lite0"
    kind: Literal["efficientnet_lite0"]


class Behind(Strict):
    """What an encoder that the scale makes is made from: the weights in the ``file`` of the job ``job`` with this configuration
    hash, and whatever else this kind of encoder needs. ``kind``: the encoder's."""

    kind: str
    job: str
    config_sha256: str
    file: str


class MadeEncoder(Encoder):
    """An encoder that the scale makes. Its shape follows from what it names, so a scale does not say it;
    :mod:`mdc.plan.jobs.encoder_jobs` says what it is made from."""

    image_size: NonNegative = 0
    tokens: NonNegative = 0
    width: NonNegative = 0

    @abstractmethod
    def shape_in(self, scale: Any) -> tuple[int, int, int] | None:
        """Its image size, the pixels of a side of a token, and its width; None if what it names is not there."""


class RunTower(MadeEncoder):
    """The encoder of a run of the scale: ``method`` on ``corpus`` with ``backbone``, and the first ``seed`` or another."""

    module = "mdc.models.encoders.run"
    kind: Literal["run"]
    corpus: TrainedOn
    backbone: BackboneName
    method: MethodName
    seed: NonNegative | None = None
    weights: Literal["last", "best"] = "last"

    def shape_in(self, scale: Any) -> tuple[int, int, int] | None:
        backbone = scale.pretrain.backbones.get(self.backbone) if scale.pretrain is not None else None
        if not isinstance(backbone, Backbone):
            return None
        return backbone.image_size, backbone.patch_size, backbone.width


#: the core's kinds
ENCODERS = (OpenClipTower, TimmTower, EfficientNetLite0Tower, RunTower)


def shown_label(entry: Encoder) -> str:
    """An encoder's label in tables; empty if it has none."""
    drawn = entry.label and getattr(entry, "weights", None) == RANDOM
    return f"{entry.label}, random weights" if drawn else entry.label


class Encode(Strict):
    """How the images of a corpus are encoded once, ``batch`` at a time: computed in float32, stored in float16."""

    batch: Positive
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]
