"""What sections that are valid alone ask of each other: each run of its corpus and method, each system of its finetuning."""

from collections.abc import Iterator

from mdc.plan.config.backbones import FrozenBackbone
from mdc.plan.config.encoders import RunTower
from mdc.plan.config.params import Params
from mdc.plan.config.types import equal_labels


def misfits(params: Params) -> Iterator[str]:
    """A line for each problem, which begins with the key."""
    yield from _encoders(params)
    for name, block in params.tables.items():
        yield from block.misfits(params, f"tables.{name}")
    if params.captions is not None and params.tables.needing("captions"):
        yield from params.captions.misfits(params)


def _encoders(params: Params) -> Iterator[str]:
    yield from equal_labels("encoders", {key: entry.label for key, entry in params.encoders.items()})
    backbones = params.pretrain.backbones if params.pretrain else {}
    for name, entry in params.encoders.items():
        if isinstance(entry, RunTower) and isinstance(backbones[entry.backbone], FrozenBackbone):
            yield f"encoders.{name}.backbone = {entry.backbone}: has no encoder of its own; name one that is trained"
    for name, backbone in backbones.items():
        if not isinstance(backbone, FrozenBackbone):
            continue
        if params.encode is None:
            yield "encode: this key is missing; needed by backbones on a frozen encoder"
        if backbone.words and (width := params.words[backbone.words].width) != (own := backbone.decoder.width):
            yield f"pretrain.backbones.{name}.words = {backbone.words}: of width {width}, and the decoder's is {own}"
