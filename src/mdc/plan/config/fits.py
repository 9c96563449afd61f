"""What sections that are valid alone ask of each other: each run of its corpus and method, each system of its finetuning."""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain, product

from mdc.plan.config.backbones import Backbone, FrozenBackbone
from mdc.plan.config.caption import Diffusing, Unmasking
from mdc.plan.config.caption_table import (
    CaptionedImages,
    CaptionExamplesOf,
    CaptionFigure,
    CaptionTable,
    CaptionView,
    GuidanceFigure,
    RobustnessFigure,
    RunClip,
)
from mdc.plan.config.choice_sources import PAIRED
from mdc.plan.config.distortion import STRENGTHS
from mdc.plan.config.encoders import OpenClipTower, RunTower, TimmTower
from mdc.plan.config.params import Params
from mdc.plan.config.probe_tables import HeadTable, ProbeTable, RatioFigure, ScheduleTable
from mdc.plan.config.scale import Attentive, Neighbours
from mdc.plan.config.score_tables import ChoiceTable, PositionFigure, ZeroShotTable
from mdc.plan.config.systems import CaptionSystem, distorted
from mdc.plan.config.tables import CostTable, LossFigure, RecipeTable, ScoreTable, ShownInPart
from mdc.plan.config.types import Strict, no_such


def misfits(params: Params) -> Iterator[str]:
    """A line for each problem, which begins with the key."""
    yield from _encoders(params)
    yield from _needed(params)
    for name, table in params.tables.items():
        yield from _table(params, table, f"tables.{name}")
    seen: set[str] = set()
    for place, captions in params.captioned().items():
        for name in sorted(seen & captions.datasets.keys()):
            yield f"{place}.datasets.{name}: another has a dataset of this name; give it another"
        seen |= captions.datasets.keys()
        yield from _captions(params, captions, place)
    for name, view in params.tables.of_captions().items():
        yield from _view(params, view, f"tables.{name}")


def _twice(where: str, labels: Mapping[str, str]) -> Iterator[str]:
    """Equal labels ({key: label}): readers and `mdc why` distinguish rows and columns by them."""
    first = {label: key for key, label in reversed(list(labels.items()))}
    for key, label in labels.items():
        if first[label] != key:
            yield f"{where}: {first[label]} and {key} are both called '{label}'; give each a label of its own"


def _unknown(where: str, names: Collection[str], allowed: Collection[str], what: str) -> Iterator[str]:
    return (no_such(where, name, allowed, what) for name in names if name not in allowed)


def _encoders(params: Params) -> Iterator[str]:
    yield from _twice("encoders", {key: entry.label for key, entry in params.encoders.items()})
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


def _needed(params: Params) -> Iterator[str]:
    """What a table or figure needs of another one."""
    tables = params.tables
    table1, table3 = tables.the(ProbeTable), tables.the(CaptionTable)
    for name, table in tables.items():
        if isinstance(table, RecipeTable) and (table1 is None or table.backbone not in table1.backbones):
            there = f"allowed: {', '.join(table1.backbones)}" if table1 else "there is none"
            yield f"tables.{name}.backbone = {table.backbone}: must be one of table1's; {there}"
    runs = [table for table in tables.training().values() if getattr(table, "corpora", True)]
    if tables.the(LossFigure) is not None and not runs and not params.shown_in_part():
        said = "shows the runs of the other tables and figures, and these have none; name its corpora and backbones"
        yield f"tables.figure_loss {said}"
    figure6 = tables.the(CaptionFigure)
    if figure6 is not None and table3 is None:
        yield "tables.figure6 shows captions of table3, and there is none"
    elif figure6 is not None and table3 is not None:
        yield from _unknown("tables.figure6.omit", figure6.omit, [*table3.systems, *table3.coca], "system of table3")
    for key, system in table3.entries.items() if table3 is not None else ():
        if system.first_seed:
            yield f"tables.table3.systems.{key}.first_seed: Table 3 shows every seed; leave this key out"


def _table(params: Params, table: Strict, where: str) -> Iterator[str]:
    methods, backbones = params.methods, params.pretrain.backbones if params.pretrain else {}
    shown = {name: getattr(table, "corpora", {}) for name in getattr(table, "backbones", ())}
    if isinstance(table, ChoiceTable):
        for name in (name for name in table.also if name in shown):
            yield f"{where}.also: {name} is already in backbones"
        shown |= table.also
        yield from _pair_columns(params, table, where)
    for name in shown:
        if isinstance(table, ProbeTable) and isinstance(backbones.get(name), FrozenBackbone):
            yield f"{where}.backbones: {name} trains no encoder that could be probed; name its encoder (encoders)"
    if not isinstance(table, ProbeTable | LossFigure | CostTable | ScoreTable):
        return
    for corpus, listed in table.corpora.items():
        yield from _covered(params, f"{where}.corpora", corpus)
        yield from _methods(params, table, f"{where}.corpora.{corpus}", listed)
    if isinstance(table, ProbeTable | ScoreTable):
        yield from _twice(f"{where}.corpora", {key: params.label_of(key) for key in table.corpora})
        yield from _twice(f"{where}.corpora", {key: methods[key].label for key in chain(*table.corpora.values())})
        yield from _twice(f"{where}.backbones", {key: backbones[key].label for key in table.backbones})
    if isinstance(table, ProbeTable):
        yield from _twice(f"{where}.probes", {key: params.data.probes[key].label for key in table.shown})
    if isinstance(table, ChoiceTable):
        yield from _twice(f"{where}.columns", {key: column.label for key, column in table.columns.items()})
    if isinstance(table, ScoreTable) and not isinstance(table, PositionFigure):
        sides = [
            f"{corpus}/{name}/{estimator}"
            for corpus, listed in table.corpora.items()
            for name in listed
            for estimator in methods[name].estimators
        ]
        for key, pairs in (("contrasts", table.contrasts), ("primary", table.primary)):
            named = [*chain.from_iterable(pairs)]
            yield from _unknown(f"{where}.{key}", named, sides, "corpus/method/estimator of this table")
    if isinstance(table, HeadTable):
        yield from _heads(params, table, where)


def _methods(params: Params, table: Strict, where: str, listed: list[str]) -> Iterator[str]:
    """What a table or figure asks of the methods of a corpus."""
    methods = {name: params.methods[name] for name in listed}
    for name, method in methods.items() if isinstance(table, ScoreTable) else ():
        if not method.estimators:
            yield f"{where}: {name} ({method.objective}) cannot score captions"
        elif isinstance(table, PositionFigure) and "positions" not in method.abilities:
            yield f"{where}: {name} ({method.objective}) predicts no tokens"
    if isinstance(table, ScheduleTable):  # a row is a range of t
        seen: dict[object, str] = {}
        for name, method in methods.items():
            if (share := method.masked_share) is None:
                yield f"{where}: {name} has no t_range; only masked methods have"
            elif seen.setdefault(share, name) != name:
                yield f"{where}: {seen[share]} and {name} have the same t_range"
    if isinstance(table, RatioFigure):  # a panel compares methods of a fixed ratio with others
        fixed = [name for name, method in methods.items() if (share := method.masked_share) and share[0] == share[1]]
        if not fixed or len(fixed) == len(methods):
            kind = "with a t_range [r, r]" if not fixed else "without a fixed mask ratio"
            yield f"{where}: none of {', '.join(methods)} is a method {kind}"


def _covered(params: Params, where: str, name: str) -> Iterator[str]:
    """The vocabulary of a corpus must cover its captions, so that a model can read all of them."""
    corpus = params.corpus_of(name)
    if not params.data.vocabularies:
        yield f"{where}: {name} has no vocabulary; name one in data.vocabularies, as words: [{name}] or clip: full"
        return
    vocabulary = params.vocabulary_of(corpus)
    listed = params.data.vocabularies[vocabulary]
    if listed != "full" and corpus not in listed:
        yield (
            f"{where}: the vocabulary {vocabulary} of {corpus} is made from {', '.join(listed)}. Give {corpus} one of its own "
            f"(data.corpora.{corpus}.vocabulary), or add it to that list, which reruns every run with this vocabulary"
        )


def _heads(params: Params, table: HeadTable, where: str) -> Iterator[str]:
    """Attention needs patch tokens and a feature of their width, k neighbours as many training items."""
    if table.zero_shot and params.tables.the(ZeroShotTable) is None:
        yield f"{where}.zero_shot: the scale classifies nothing zero-shot; name table_zero_shot, or leave it out"
    heads = {name: head for name, head in (params.probe.every if params.probe else {}).items() if name in table.heads}
    yield from _twice(f"{where}.heads", {key: head.label if head else "linear probe" for key, head in heads.items()})
    entries = {name: params.encoders[name] for name in table.encoders}
    trained = {name: params.training.backbones[name] for name in table.backbones}
    counts = {name: entry.tokens for name, entry in entries.items()}
    counts |= {name: (b.image_size // b.patch_size) ** 2 for name, b in trained.items() if isinstance(b, Backbone)}
    if any(isinstance(head, Attentive) for head in heads.values()):
        for name in (name for name, count in counts.items() if count < 2):
            yield f"{where}.heads: {name} gives one vector an image and no patch tokens, so it can have no attentive probe"
        for name, entry in entries.items():
            if isinstance(entry, OpenClipTower | TimmTower) and not entry.pooled:
                said = f"a feature of {name} that is as wide as its tokens; set encoders.{name}.pooled: true"
                yield f"{where}.encoders: an attentive probe needs {said}"
    for key, head in heads.items():
        for name in table.shown if isinstance(head, Neighbours) else ():
            train = getattr(params.data.probes[name].source, "train", None)
            if isinstance(train, int) and isinstance(head, Neighbours) and train < head.k:
                said = f"{name} has {train} training items, and k = {head.k} neighbours are asked for"
                yield f"{where}.heads: {key}: {said}"


def _pair_columns(params: Params, table: ChoiceTable, where: str) -> Iterator[str]:
    """Winoground's scores need sets whose items have two images, and another column for the average."""
    scored = {key: column for key, column in table.columns.items() if column.score is not None}
    for key, column in scored.items():
        for name in column.sets:
            source = params.data.choices[name].source
            if not isinstance(source, PAIRED):
                said = (
                    f"needs items of two images and two captions, and data.choices.{name} is of the kind {source.kind}"
                )
                yield f"{where}.columns.{key}.score = {column.score}: {said}"
    if len(scored) == len(table.columns):
        yield f"{where}.columns: all have a score of pairs, of which there is no average; name another column too"


def _captions(params: Params, table: CaptionTable, where: str) -> Iterator[str]:
    room = params.protocol.data.context_length - 1
    for name, tuned in params.finetune.items():
        if tuned.canvas is not None and tuned.canvas > room:
            yield f"finetune.{name}.canvas = {tuned.canvas}: at most {room} tokens fit the context"
    yield from _twice(f"{where}.datasets", {key: dataset.label for key, dataset in table.datasets.items()})
    yield from _twice(f"{where}.systems", {key: f"{one.label} · {one.length}" for key, one in table.systems.items()})
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


def _view(params: Params, view: ShownInPart, where: str) -> Iterator[str]:
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
    yield from _unknown(f"{where}.datasets", datasets, table.datasets, f"dataset ({section}.datasets)")
    yield from _unknown(listed, systems, table.systems, f"system ({section}.systems)")
    for name, curve in curves.items():
        if len(members := table.members(curve.systems)) < 2:
            yield f"{listed}.{name}.systems: {curve.systems[0]} alone makes no curve"
        for key in (key for key in members if key in table.systems):
            if not isinstance(table.systems[key].decode, Diffusing):
                yield f"{listed}: {key} has no scale of guidance; only systems that write by diffuse have"
    if isinstance(view, RobustnessFigure):
        yield from _unknown(
            f"{where}.primary", [*chain(*view.primary)], view.systems, "system of this figure (systems)"
        )
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
        yield from _unknown(f"{where}.select_on", chosen, table.datasets, f"dataset ({section}.datasets)")
        pairs = {"over": [f"{name}/{key}" for name, key in product(captioned, chain(*view.over))]}
        pairs |= {"contrasts": [*chain(*view.contrasts)], "primary": [*chain(*view.primary)]}
        for place, side in ((place, side) for place, sides in pairs.items() for side in sides):
            name, _, key = side.partition("/")
            if key in table.systems and key not in captioned.get(name, [key]):
                yield f"{where}.{place}: {key} does not caption {name}; {silent}.{name}.systems"
            elif place != "over":
                yield from _unknown(f"{where}.{place}", [side], table.view(view).sides, "dataset/system of this table")
