"""What sections that are valid alone ask of each other: each run of its corpus and method, each system of its finetuning."""

from collections.abc import Iterator
from itertools import chain, product
from typing import Any

from mdc.plan.config.backbones import FrozenBackbone
from mdc.plan.config.caption import Diffusing, Unmasking
from mdc.plan.config.caption_table import (
    CaptionedImages,
    CaptionExamplesOf,
    CaptionTable,
    CaptionView,
    GuidanceFigure,
    RobustnessFigure,
    RunClip,
)
from mdc.plan.config.distortion import STRENGTHS
from mdc.plan.config.encoders import RunTower
from mdc.plan.config.params import Params
from mdc.plan.config.systems import CaptionSystem, distorted
from mdc.plan.config.types import equal_labels, no_such, unknown


def misfits(params: Params) -> Iterator[str]:
    """A line for each problem, which begins with the key."""
    yield from _encoders(params)
    for name, block in params.tables.items():
        yield from block.misfits(params, f"tables.{name}")
    seen: set[str] = set()
    for place, captions in params.captioned().items():
        for name in sorted(seen & captions.datasets.keys()):
            yield f"{place}.datasets.{name}: another has a dataset of this name; give it another"
        seen |= captions.datasets.keys()
        yield from _captions(params, captions, place)
    for name, view in params.tables.needing("captions").items():
        yield from _view(params, view, f"tables.{name}")


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


def _captions(params: Params, table: CaptionTable, where: str) -> Iterator[str]:
    room = params.protocol.data.context_length - 1
    for name, tuned in params.finetune.items():
        if tuned.canvas is not None and tuned.canvas > room:
            yield f"finetune.{name}.canvas = {tuned.canvas}: at most {room} tokens fit the context"
    yield from equal_labels(f"{where}.datasets", {key: dataset.label for key, dataset in table.datasets.items()})
    yield from equal_labels(
        f"{where}.systems", {key: f"{one.label} · {one.length}" for key, one in table.systems.items()}
    )
    for key, dataset in table.datasets.items():
        yield from _dataset(params, dataset, f"{where}.datasets.{key}.tuned")
        for name, system in table.systems_of(key).items():
            yield from _system(params, dataset, system, f"{where}.systems.{name}")
    clips, seeds = [], params.training.seeds
    for key, clip in (("clip_score", table.clip_score), ("guide", table.guide)):
        if not isinstance(clip, RunClip):
            continue
        clips.append((clip.method, clip.on(table), clip.of(seeds)))
        method, place = params.methods[clip.method], f"{where}.{key}.method = {clip.method}"
        if not method.embeds_captions:
            yield f"{place}: its objective is {method.objective}, not CLIP's"
        if isinstance(params.training.backbones[clip.on(table)], FrozenBackbone):
            yield f"{place}: {clip.on(table)} has a frozen encoder, on which no CLIP is trained"
        if clip.of(seeds) not in seeds:
            given = ", ".join(map(str, seeds))
            yield f"{where}.{key}.seed = {clip.seed}: not one of the scale's (pretrain.seeds: {given})"
    if len(clips) == 2 and clips[0] == clips[1]:
        said = "which would reward what it has chosen itself; give one of them another method, backbone or seed"
        yield f"{where}.guide: is the run that CLIPScore is by, {said}"


def _dataset(params: Params, dataset: CaptionedImages, where: str) -> Iterator[str]:
    """A run keeps its vocabulary, so that of its pretraining must cover what it is finetuned on."""
    vocabulary = params.vocabulary_of(dataset.pretrained)
    for key, name in dataset.tuned.items():
        if name is None:
            continue
        corpus, listed = params.finetune[name].corpus, params.data.vocabularies[vocabulary]
        if (other := params.vocabulary_of(corpus)) != vocabulary:
            pretrained = f"{dataset.pretrained}, on which the runs are pretrained, has {vocabulary}"
            said = f"{corpus} has the vocabulary {other}, and {pretrained}; a run keeps its vocabulary, so give both the same"
            yield f"{where}.{key}: {said}"
        elif listed != "full" and corpus not in listed:
            yield f"{where}.{key}: the vocabulary {vocabulary} does not cover {corpus}; add it to its list"


def _system(params: Params, dataset: CaptionedImages, system: CaptionSystem, where: str) -> Iterator[str]:
    method, decode = params.methods[system.method], system.decode
    name = dataset.tuned_as(system)
    canvas = params.finetune[name].canvas if name is not None else None
    if problem := method.refusal(system.method, decode, params.protocol.data.context_length):
        yield f"{where}.decode: {problem}"
    elif system.tuned is not None and isinstance(decode, Diffusing):
        yield f"{where}.tuned = {system.tuned}: {system.method} is not finetuned; leave this key out"
    elif canvas is not None and not isinstance(decode, Unmasking):
        yield f"{where}.tuned = {system.tuned}: it has a canvas, which {system.method} cannot learn"
    elif canvas is None and isinstance(decode, Unmasking) and decode.ends:
        yield f"{where}.decode.ends: needs a finetuning with a canvas, on which a model learns where to end"


def _view(params: Params, view: Any, where: str) -> Iterator[str]:
    """One section must have the datasets and systems of a table or figure, for all its seeds."""
    key, datasets = ("datasets", view.datasets) if isinstance(view, CaptionView) else ("dataset", [view.dataset])
    sections = {name: (section, table) for section, table in params.shown_in_part().items() for name in table.datasets}
    if datasets[0] not in sections:
        yield no_such(f"{where}.{key}", datasets[0], sections, "dataset (of mc_diffusion or claims)")
        return
    section, table = sections[datasets[0]]
    curves = view.curves if isinstance(view, GuidanceFigure) else {}
    listed = f"{where}.curves" if isinstance(view, GuidanceFigure) else f"{where}.systems"
    systems = table.members([key for curve in curves.values() for key in curve.systems] or getattr(view, "systems", []))
    yield from unknown(f"{where}.datasets", datasets, table.datasets, f"dataset ({section}.datasets)")
    yield from unknown(listed, systems, table.systems, f"system ({section}.systems)")
    for name, curve in curves.items():
        if len(members := table.members(curve.systems)) < 2:
            yield f"{listed}.{name}.systems: {curve.systems[0]} alone makes no curve"
        for key in (key for key in members if key in table.systems):
            if not isinstance(table.systems[key].decode, Diffusing):
                yield f"{listed}: {key} has no scale of guidance; only systems that write by diffuse have"
    if isinstance(view, RobustnessFigure):
        yield from unknown(f"{where}.primary", [*chain(*view.primary)], view.systems, "system of this figure (systems)")
        for key, kind in product(view.systems, view.kinds):
            worse = [distorted(key, kind, strength) for strength in range(1, STRENGTHS + 1)]
            systems += worse
            if key in table.systems and not table.systems.keys() >= {*worse}:
                yield f"{where}.kinds: {key} is shown none with {kind}; give {section}.systems.{key} distorted: [{kind}]"
    silent = f"name it under {section}.datasets"
    captioned = {name: table.systems_of(name) for name in datasets if name in table.datasets}
    first = isinstance(view, CaptionExamplesOf) or (isinstance(view, CaptionView) and view.first_seed)
    for key in (key for key in systems if key in table.systems):
        if not any(key in by_key for by_key in captioned.values()):
            yield f"{listed}: {key} does not caption {datasets[0]}; {silent}.{datasets[0]}.systems"
        if table.systems[key].first_seed and not first:
            yield f"{listed}: {key} is of the first seed alone, and this shows all"
    if isinstance(view, CaptionView):
        chosen = [view.select_on] if view.select_on is not None else []
        yield from unknown(f"{where}.select_on", chosen, table.datasets, f"dataset ({section}.datasets)")
        pairs = {"over": [f"{name}/{key}" for name, key in product(captioned, chain(*view.over))]}
        pairs |= {"contrasts": [*chain(*view.contrasts)], "primary": [*chain(*view.primary)]}
        for place, side in ((place, side) for place, sides in pairs.items() for side in sides):
            name, _, key = side.partition("/")
            if key in table.systems and key not in captioned.get(name, [key]):
                yield f"{where}.{place}: {key} does not caption {name}; {silent}.{name}.systems"
            elif place != "over":
                yield from unknown(f"{where}.{place}", [side], table.view(view).sides, "dataset/system of this table")
