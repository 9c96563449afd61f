"""Frozen encoders: the source of their weights, and the shape of their tokens."""

from typing import Annotated, Literal

from pydantic import Field

from mdc.plan.config.references import BackboneName, MethodName, TokenizerName, TrainedOn
from mdc.plan.config.score import OpenClipModel
from mdc.plan.config.types import DataPath, NonNegative, Positive, Strict, Threads

#: instead of weights: random initial weights from one seed, as an untrained baseline of the architecture
RANDOM = "random"


class _Entry(Strict):
    """An image of ``image_size``² pixels gives ``tokens`` vectors of ``width`` numbers."""

    label: str
    image_size: Positive
    tokens: Positive
    width: Positive


class OpenClipTower(_Entry, OpenClipModel):
    """The image tower of an open_clip ``model``, or ``local-dir:FOLDER``, with ``weights`` by name or as a file under
    MDC_DATA, ``random``, or None with a folder or a model of the hub.

    ``pooled``: its feature is not CLIP's embedding but the vector before the projection, as wide as the tokens.
    """

    kind: Literal["open_clip"]
    pooled: bool = False


class TimmTower(_Entry):
    """A ``model`` of timm, torchvision's among them (``resnet50.tv_in1k``), or ``local-dir:FOLDER``; ``weights``: a file under
    MDC_DATA, ``random``, or None for those that timm downloads, or of the folder.

    ``pooled``: its feature is the mean of the tokens, also where timm's classifier reads a wider vector.
    """

    kind: Literal["timm"]
    model: str
    weights: DataPath | None = None
    pooled: bool = False


class EfficientNetLite0Tower(_Entry):
    """EfficientNet-Lite0 with ImageNet weights, which an installed package holds. Its tokens are the last feature map,
    (image_size / 32)² vectors of 1,280 numbers."""

    kind: Literal["efficientnet_lite0"]


class _Made(_Entry):
    """An encoder that the scale makes. Its shape follows from what it names, so a scale does not say it."""

    image_size: NonNegative = 0
    tokens: NonNegative = 0
    width: NonNegative = 0


class RunTower(_Made):
    """The encoder of a run of the scale: ``method`` on ``corpus`` with ``backbone``, and the first ``seed`` or another."""

    kind: Literal["run"]
    corpus: TrainedOn
    backbone: BackboneName
    method: MethodName
    seed: NonNegative | None = None
    weights: Literal["last", "best"] = "last"


class CodesTower(_Made):
    """A ``tokenizer`` of the scale as an encoder: its tokens are the codebook vectors of an image's codes or, if not
    ``quantised``, the vectors before quantisation."""

    kind: Literal["codes"]
    tokenizer: TokenizerName
    quantised: bool = True


EncoderEntry = Annotated[
    OpenClipTower | TimmTower | EfficientNetLite0Tower | RunTower | CodesTower,
    Field(discriminator="kind"),
]


def shown_label(entry: EncoderEntry) -> str:
    """An encoder's label in tables; empty if it has none."""
    drawn = entry.label and getattr(entry, "weights", None) == RANDOM
    return f"{entry.label}, random weights" if drawn else entry.label


class WordEmbeddings(OpenClipModel):
    """The BPE token embeddings, of ``width`` numbers, of the text tower of a CLIP of open_clip."""

    width: Positive


class Encode(Strict):
    """How the images of a corpus are encoded once, ``batch`` at a time: computed in float32, stored in float16."""

    batch: Positive
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]
