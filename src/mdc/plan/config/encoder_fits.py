"""Checks of frozen encoders: those that backbones, tables and entries name."""

from collections.abc import Mapping

from mdc.plan.config.backbones import FrozenBackbone
from mdc.plan.config.caption_table import RunClip
from mdc.plan.config.encoders import CodesTower, OpenClipTower, RunTower, TimmTower
from mdc.plan.config.params import Params
from mdc.plan.config.pretrain import Method
from mdc.plan.config.probe_tables import HeadTable, ProbeTable
from mdc.plan.config.scale import Attentive, Scale
from mdc.plan.config.score_tables import ChoiceTable
from mdc.plan.config.types import check_unique_labels


def check_encoders(params: Params) -> None:
    """ValueError, which begins with the key, for the first problem."""
    check_unique_labels("encoders", {key: entry.label for key, entry in params.encoders.items()})
    backbones = params.pretrain.backbones if params.pretrain else {}
    for name, entry in params.encoders.items():
        if isinstance(entry, RunTower):
            _run(params, entry, f"encoders.{name}")
        if isinstance(entry, CodesTower):
            _codes(params, entry, f"encoders.{name}")
    for name, backbone in backbones.items():
        if isinstance(backbone, FrozenBackbone):
            _words(params, backbone, f"pretrain.backbones.{name}.words")
    for key, table in params.tables.items():
        place = f"tables.{key}"
        shown = {name: getattr(table, "corpora", {}) for name in getattr(table, "backbones", ())}
        if isinstance(table, HeadTable):
            _one_width(params, table, place)
        if isinstance(table, ChoiceTable):
            if twice := [name for name in table.also if name in table.backbones]:
                raise ValueError(f"{place}.also: {twice[0]} is already in backbones")
            shown |= table.also
        for name, corpora in shown.items():
            if isinstance(backbones.get(name), FrozenBackbone):
                _on_frozen(params.methods, table, name, corpora, place)
    for place, captions in params.captioned().items():
        for key, clip in (("clip_score", captions.clip_score), ("guide", captions.guide)):
            if isinstance(clip, RunClip) and isinstance(backbones.get(name := clip.on(captions)), FrozenBackbone):
                raise ValueError(
                    f"{place}.{key}.method = {clip.method}: {name} has a frozen encoder, on which no CLIP is trained"
                )
    if params.encode is None and any(isinstance(backbone, FrozenBackbone) for backbone in backbones.values()):
        raise ValueError("encode: this key is missing; needed by backbones on a frozen encoder")


def _one_width(scale: Scale, table: HeadTable, where: str) -> None:
    """An attentive probe reads the feature as one more token, so both must have the same width."""
    heads = scale.probe.heads if scale.probe else {}
    if not any(isinstance(heads.get(name), Attentive) for name in table.heads):
        return
    for name in table.encoders:
        entry = scale.encoders[name]
        if isinstance(entry, OpenClipTower | TimmTower) and not entry.pooled:
            raise ValueError(
                f"{where}.encoders: an attentive probe needs a feature of {name} that is as wide as its tokens; set "
                f"encoders.{name}.pooled: true"
            )


def _words(scale: Scale, backbone: FrozenBackbone, where: str) -> None:
    if backbone.words is None:
        return
    width = scale.words[backbone.words].width
    if width != backbone.decoder.width:
        raise ValueError(f"{where} = {backbone.words}: of width {width}, and the decoder's is {backbone.decoder.width}")


def _on_frozen(
    methods: Mapping[str, Method], table: object, name: str, corpora: Mapping[str, list[str]], where: str
) -> None:
    if isinstance(table, ProbeTable):
        raise ValueError(
            f"{where}.backbones: {name} trains no encoder that could be probed; its encoder itself can be, as a row of "
            "reference (encoders)"
        )
    for method in (key for listed in corpora.values() for key in listed):
        if methods[method].objective == "contrastive":
            raise ValueError(f"{where}: {method} trains its encoder and cannot use {name}, whose encoder is frozen")


def _run(scale: Scale, entry: RunTower, where: str) -> None:
    backbone = scale.training.backbones[entry.backbone]
    if isinstance(backbone, FrozenBackbone):
        raise ValueError(f"{where}.backbone = {entry.backbone}: has no encoder of its own; name one that is trained")
    shape = {
        "image_size": backbone.image_size,
        "tokens": (backbone.image_size // backbone.patch_size) ** 2,
        "width": backbone.width,
    }
    _same(entry, shape, f"the encoder of {entry.backbone}", where)


def _codes(scale: Scale, entry: CodesTower, where: str) -> None:
    tokenizer = scale.tokenizers[entry.tokenizer]
    shape = {
        "image_size": tokenizer.image_size,
        "tokens": (tokenizer.image_size // tokenizer.factor) ** 2,
        "width": tokenizer.width,
    }
    _same(entry, shape, f"the tokenizer {entry.tokenizer}", where)


def _same(entry: RunTower | CodesTower, shape: Mapping[str, int], encoder: str, where: str) -> None:
    for key, value in shape.items():
        if getattr(entry, key) != value:
            raise ValueError(f"{where}.{key} = {getattr(entry, key)}: {encoder} has {value}")
