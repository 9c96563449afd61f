"""Whether what frozen encoders are asked for can be done: those that backbones, tables and entries name."""

from __future__ import annotations

from collections.abc import Mapping

from mdc.plan.config.backbones import FrozenBackbone
from mdc.plan.config.caption_table import RunClip
from mdc.plan.config.encoders import CodesTower, RunTower
from mdc.plan.config.pretrain import Method
from mdc.plan.config.scale import Scale
from mdc.plan.config.tables import ChoiceTable, ProbeTable
from mdc.plan.config.tokenizers import VqVae
from mdc.plan.config.types import known, own_labels


def check_encoders(scale: Scale, methods: Mapping[str, Method], where: str) -> None:
    """ValueError, which begins with ``where``, for the first thing that does not fit."""
    own_labels(f"{where}.encoders", {key: entry.label for key, entry in scale.encoders.items()})
    backbones = scale.pretrain.backbones if scale.pretrain else {}
    for name, entry in scale.encoders.items():
        if isinstance(entry, RunTower):
            _run(scale, methods, entry, f"{where}.encoders.{name}")
        if isinstance(entry, CodesTower):
            _codes(scale, entry, f"{where}.encoders.{name}")
    for name, tokenizer in scale.tokenizers.items():
        if isinstance(tokenizer, VqVae):
            known(f"{where}.tokenizers.{name}.corpus", tokenizer.corpus, scale.data.corpora, "corpus")
        elif tokenizer.dataset is not None:
            known(f"{where}.tokenizers.{name}.dataset", tokenizer.dataset, scale.data.datasets, "dataset")
    for name, backbone in backbones.items():
        if isinstance(backbone, FrozenBackbone):
            known(f"{where}.pretrain.backbones.{name}.frozen", backbone.frozen, scale.encoders, "encoder (encoders)")
            _words(scale, backbone, f"{where}.pretrain.backbones.{name}.words")
    for key, table in scale.tables.items():
        place = f"{where}.tables.{key}"
        if isinstance(table, ProbeTable):
            for name in table.encoders:
                known(f"{place}.encoders", name, scale.encoders, "encoder (encoders)")
        shown = {name: getattr(table, "corpora", {}) for name in getattr(table, "backbones", ())}
        if isinstance(table, ChoiceTable):
            shown |= _also(scale, methods, table, place)
        for name, corpora in shown.items():
            if isinstance(backbones.get(name), FrozenBackbone):
                _on_frozen(methods, table, name, corpora, place)
    for place, shown_ in scale.captioned().items():
        for key, clip in (("clip_score", shown_.clip_score), ("guide", shown_.guide)):
            name = clip.on(shown_) if isinstance(clip, RunClip) else ""
            if isinstance(clip, RunClip) and isinstance(backbones.get(name), FrozenBackbone):
                raise ValueError(
                    f"{where}.{place}.{key}.method = {clip.method}: {name} stands on a frozen encoder, on which no CLIP is "
                    "trained"
                )
    if scale.encode is None and any(isinstance(one, FrozenBackbone) for one in backbones.values()):
        raise ValueError(f"{where}.encode: this key is missing; needed by backbones on a frozen encoder")


def _words(scale: Scale, backbone: FrozenBackbone, where: str) -> None:
    if backbone.words is None:
        return
    known(where, backbone.words, scale.words, "entry of words")
    width = scale.words[backbone.words].width
    if width != backbone.decoder.width:
        raise ValueError(f"{where} = {backbone.words}: of width {width}, and the decoder's is {backbone.decoder.width}")


def _also(
    scale: Scale, methods: Mapping[str, Method], table: ChoiceTable, where: str
) -> dict[str, dict[str, list[str]]]:
    for name, corpora in table.also.items():
        known(f"{where}.also", name, scale.training.backbones, "backbone")
        if name in table.backbones:
            raise ValueError(f"{where}.also: {name} stands under backbones already")
        for corpus, listed in corpora.items():
            known(f"{where}.also.{name}", corpus, scale.data.corpora, "corpus")
            for method in listed:
                known(f"{where}.also.{name}.{corpus}", method, dict(methods), "method")
    return table.also


def _on_frozen(
    methods: Mapping[str, Method], table: object, name: str, corpora: Mapping[str, list[str]], where: str
) -> None:
    if isinstance(table, ProbeTable):
        raise ValueError(
            f"{where}.backbones: {name} trains no encoder that could be probed; its encoder itself can be, as a row of "
            "reference (encoders)"
        )
    for method in (one for listed in corpora.values() for one in listed):
        if methods[method].objective == "contrastive":
            raise ValueError(
                f"{where}: {method} trains its encoder and cannot stand on {name}, whose encoder is frozen"
            )


def _run(scale: Scale, methods: Mapping[str, Method], entry: RunTower, where: str) -> None:
    backbones = scale.pretrain.backbones if scale.pretrain else {}
    known(f"{where}.corpus", entry.corpus, scale.data.corpora, "corpus")
    known(f"{where}.method", entry.method, dict(methods), "method")
    known(f"{where}.backbone", entry.backbone, backbones, "backbone")
    backbone = backbones[entry.backbone]
    if isinstance(backbone, FrozenBackbone):
        raise ValueError(f"{where}.backbone = {entry.backbone}: has no encoder of its own; name one that is trained")
    shape = {
        "image_size": backbone.image_size,
        "tokens": (backbone.image_size // backbone.patch_size) ** 2,
        "width": backbone.width,
    }
    _same(entry, shape, f"the encoder of {entry.backbone}", where)


def _codes(scale: Scale, entry: CodesTower, where: str) -> None:
    known(f"{where}.tokenizer", entry.tokenizer, scale.tokenizers, "tokenizer (tokenizers)")
    one = scale.tokenizers[entry.tokenizer]
    shape = {"image_size": one.image_size, "tokens": (one.image_size // one.factor) ** 2, "width": one.width}
    _same(entry, shape, f"the tokenizer {entry.tokenizer}", where)


def _same(entry: RunTower | CodesTower, shape: Mapping[str, int], whose: str, where: str) -> None:
    for key, value in shape.items():
        if getattr(entry, key) != value:
            raise ValueError(f"{where}.{key} = {getattr(entry, key)}: {whose} has {value}")
