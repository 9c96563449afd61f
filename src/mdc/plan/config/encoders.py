"""Encoders that are not trained: where the weights come from, and what tokens a captioner's decoder reads of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mdc.plan.config.references import BackboneName, MethodName, TokenizerName, TrainedOn
from mdc.plan.config.score import OpenClipModel
from mdc.plan.config.types import DataPath, NonNegative, Positive, Strict, Threads

#: in place of weights: drawn from one seed, so that an architecture shows what it knows without training
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

    ``pooled``: its feature is not the embedding that CLIP compares, but what is projected to it, as wide as the tokens.
    """

    kind: Literal["open_clip"]
    pooled: bool = False


class TimmTower(_Entry):
    """A ``model`` of timm, or ``local-dir:FOLDER``; ``weights``: a file under MDC_DATA, ``random``, or None for those that timm
    fetches, or of the folder.

    ``pooled``: where a classifier would read more than the mean of the tokens, its feature is that mean, as wide as they are.
    """

    kind: Literal["timm"]
    model: str
    weights: DataPath | None = None
    pooled: bool = False


class TorchvisionTower(_Entry):
    """A ``model`` of torchvision, whose ``layer`` gives the tokens, the first ``prefix`` of which are no places of the image.

    ``weights``: one of its names, which torchvision fetches, ``random``, or a file under MDC_DATA, which ends in .pt, .pth or
    .safetensors.
    """

    kind: Literal["torchvision"]
    model: str
    weights: DataPath
    layer: str
    prefix: NonNegative = 0


class EfficientNetLite0Tower(_Entry):
    """EfficientNet-Lite0 with ImageNet weights, which come with packages of the index: no network is asked for them.

    Its tokens are the last feature map, (image_size / 32)² vectors of 1,280 numbers.
    """

    kind: Literal["efficientnet_lite0"]


class RunTower(_Entry):
    """The encoder of a run of ours: ``method`` on ``corpus`` with ``backbone``, and the scale's first seed or another."""

    kind: Literal["run"]
    corpus: TrainedOn
    backbone: BackboneName
    method: MethodName
    seed: NonNegative | None = None
    weights: Literal["last", "best"] = "last"


class CodesTower(_Entry):
    """What a ``tokenizer`` of the scale makes of an image: the vectors of its codes, or, if they are not ``quantised``, those
    that it looks codes up for."""

    kind: Literal["codes"]
    tokenizer: TokenizerName
    quantised: bool = True


EncoderEntry = Annotated[
    OpenClipTower | TimmTower | TorchvisionTower | EfficientNetLite0Tower | RunTower | CodesTower,
    Field(discriminator="kind"),
]


def shown_label(entry: EncoderEntry) -> str:
    """What tables call an encoder, empty of one without a label."""
    drawn = entry.label and getattr(entry, "weights", None) == RANDOM
    return f"{entry.label}, random weights" if drawn else entry.label


class WordEmbeddings(OpenClipModel):
    """The embeddings, of ``width`` numbers, that the text tower of a CLIP of open_clip has of BPE tokens."""

    width: Positive


class Encode(Strict):
    """How the images of a corpus are encoded once: so many at a time. Always in float32, kept in float16."""

    batch: Positive
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]
