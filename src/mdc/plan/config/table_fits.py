"""Checks of tables and figures across sections: each run against its corpus and method, each comparison against its scores."""

from collections.abc import Mapping

from mdc.plan.config.backbones import Backbone, FrozenBackbone
from mdc.plan.config.caption_table import CaptionFigure, CaptionTable, RunClip
from mdc.plan.config.choice_sources import PAIRED
from mdc.plan.config.encoders import CodesTower, OpenClipTower, RunTower, TimmTower
from mdc.plan.config.params import Params
from mdc.plan.config.pretrain import Method
from mdc.plan.config.probe_tables import HeadTable, ProbeTable, RatioFigure, ScheduleTable
from mdc.plan.config.scale import Attentive, Neighbours, Scale
from mdc.plan.config.score import estimators_of
from mdc.plan.config.score_tables import ChoiceTable, PositionFigure, ZeroShotTable
from mdc.plan.config.tables import CostTable, LossFigure, RecipeTable, ScoreTable
from mdc.plan.config.types import check_reference, check_unique_labels
from mdc.plan.parts import family_of


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


def check_tables(params: Params) -> None:
    """ValueError, which begins with the key, for the first problem."""
    _check_tables_needed(params)
    for key, table in params.tables.items():
        place = f"tables.{key}"
        if isinstance(table, ProbeTable | LossFigure | CostTable | ScoreTable):
            for corpus in table.corpora:
                _covered(params, f"{place}.corpora", corpus)
        if isinstance(table, HeadTable):
            _heads_fit(params, table, place)
        if isinstance(table, ProbeTable | ScoreTable):
            _unique_labels(params, table, place)
        if isinstance(table, ScoreTable):
            _can_score(params.methods, table, place)
        if isinstance(table, ChoiceTable):
            _pair_columns(params, table, place)
        if isinstance(table, ScheduleTable):
            _schedules(params.methods, table, place)
        if isinstance(table, RatioFigure):
            _ratios(params.methods, table, place)


def _check_tables_needed(scale: Scale) -> None:
    tables = scale.tables
    table1, losses = tables.the(ProbeTable), tables.the(LossFigure)
    for name, table in tables.items():
        if isinstance(table, RecipeTable) and (table1 is None or table.backbone not in table1.backbones):
            allowed = f"allowed: {', '.join(table1.backbones)}" if table1 else "there is none"
            raise ValueError(f"tables.{name}.backbone = {table.backbone}: must be one of table1's; {allowed}")
    runs = [table for table in tables.training().values() if getattr(table, "corpora", True)]
    if losses is not None and not runs and not scale.shown_in_part():
        raise ValueError(
            "tables.figure_loss shows the runs of the other tables and figures, and these have none; name its corpora "
            "and backbones"
        )
    if (figure6 := tables.the(CaptionFigure)) is not None:
        if (table3 := tables.the(CaptionTable)) is None:
            raise ValueError("tables.figure6 shows captions of table3, and there is none")
        for system in figure6.omit:
            check_reference("tables.figure6.omit", system, [*table3.systems, *table3.coca], "system of table3")


def _covered(scale: Scale, where: str, corpus: str) -> None:
    """Check that the vocabulary of ``corpus`` covers its captions, so that a model can read all of them."""
    if not scale.data.vocabularies:
        raise ValueError(
            f"{where}: {corpus} has no vocabulary; name one in data.vocabularies, as words: [{corpus}] or clip: full"
        )
    corpus = scale.corpus_of(corpus)
    name = scale.vocabulary_of(corpus)
    listed = scale.data.vocabularies[name]
    if listed != "full" and corpus not in listed:
        raise ValueError(
            f"{where}: the vocabulary {name} of {corpus} is made from {', '.join(listed)}. Give {corpus} one of its own "
            f"(data.vocabularies, and data.corpora.{corpus}.vocabulary), or add it to that list, which reruns every run "
            "with this vocabulary"
        )


def _can_score(known_methods: Mapping[str, Method], table: ScoreTable, where: str) -> None:
    """Every method must have an estimator, and every side of a comparison be a method of the table by one that it has."""
    sides: list[str] = []
    for corpus, methods in table.corpora.items():
        for name in methods:
            method = known_methods[name]
            family = family_of(method.objective)
            estimators = estimators_of(family, method.t_range)
            if not estimators:
                raise ValueError(f"{where}.corpora.{corpus}: {name} ({method.objective}) cannot score captions")
            if isinstance(table, PositionFigure) and family not in ("autoregressive", "masked"):
                raise ValueError(f"{where}.corpora.{corpus}: {name} ({method.objective}) predicts no tokens")
            sides += [f"{corpus}/{name}/{estimator}" for estimator in estimators]
    for key in () if isinstance(table, PositionFigure) else ("contrasts", "primary"):
        for side in (side for pair in getattr(table, key) for side in pair):
            check_reference(f"{where}.{key}", side, sides, "corpus/method/estimator of this table")


def _heads_fit(scale: Scale, table: HeadTable, where: str) -> None:
    """Attention needs patch tokens, k neighbours as many training items, and zero-shot columns their table."""
    if table.zero_shot and scale.tables.the(ZeroShotTable) is None:
        raise ValueError(
            f"{where}.zero_shot: the scale classifies nothing zero-shot; name table_zero_shot, or leave it out"
        )
    heads = {name: head for name, head in (scale.probe.every if scale.probe else {}).items() if name in table.heads}
    check_unique_labels(
        f"{where}.heads", {name: head.label if head else "linear probe" for name, head in heads.items()}
    )
    if any(isinstance(head, Attentive) for head in heads.values()):
        counts = {name: scale.encoders[name].tokens for name in table.encoders}
        for name in table.backbones:
            backbone = scale.training.backbones[name]
            if isinstance(backbone, Backbone):
                counts[name] = (backbone.image_size // backbone.patch_size) ** 2
        for name, count in counts.items():
            if count < 2:
                raise ValueError(
                    f"{where}.heads: {name} gives one vector an image and no patch tokens, so it can have no attentive probe"
                )
    for key, head in heads.items():
        if not isinstance(head, Neighbours):
            continue
        for name in table.shown:
            train = getattr(scale.data.probes[name].source, "train", None)
            if isinstance(train, int) and train < head.k:
                raise ValueError(
                    f"{where}.heads: {key}: {name} has {train} training items, and k = {head.k} neighbours are asked for"
                )


def _pair_columns(scale: Scale, table: ChoiceTable, where: str) -> None:
    """Winoground's scores need sets whose items have two images, and another column for the average."""
    scored = {key: column for key, column in table.columns.items() if column.score is not None}
    for key, column in scored.items():
        for name in column.sets:
            source = scale.data.choices[name].source
            if not isinstance(source, PAIRED):
                raise ValueError(
                    f"{where}.columns.{key}.score = {column.score}: needs items of two images and two captions, and "
                    f"data.choices.{name} is of the kind {source.kind}"
                )
    if len(scored) == len(table.columns):
        raise ValueError(
            f"{where}.columns: all have a score of pairs, of which there is no average; name another column too"
        )


def _unique_labels(params: Params, table: ProbeTable | ScoreTable, where: str) -> None:
    shown = dict.fromkeys(method for methods in table.corpora.values() for method in methods)
    check_unique_labels(f"{where}.corpora", {key: params.label_of(key) for key in table.corpora})
    check_unique_labels(f"{where}.corpora", {key: params.methods[key].label for key in shown})
    check_unique_labels(f"{where}.backbones", {key: params.training.backbones[key].label for key in table.backbones})
    if isinstance(table, ProbeTable):
        check_unique_labels(f"{where}.probes", {key: params.data.probes[key].label for key in table.shown})
    if isinstance(table, ChoiceTable):
        check_unique_labels(f"{where}.columns", {key: column.label for key, column in table.columns.items()})


def _schedules(known_methods: Mapping[str, Method], table: ScheduleTable, where: str) -> None:
    """A row of Table 5 is a range of t, so each method must have a different one."""
    for corpus, methods in table.corpora.items():
        seen: dict[tuple[float, float], str] = {}
        for name in methods:
            t_range = known_methods[name].t_range
            if t_range is None:
                raise ValueError(f"{where}.corpora.{corpus}: {name} has no t_range; only masked methods have")
            if t_range in seen:
                raise ValueError(f"{where}.corpora.{corpus}: {seen[t_range]} and {name} have the same t_range")
            seen[t_range] = name


def _ratios(known_methods: Mapping[str, Method], figure: RatioFigure, where: str) -> None:
    """Every panel of Figure 4 needs methods with a fixed ratio, and others to compare them with."""
    for corpus, methods in figure.corpora.items():
        fixed = [name for name in methods if known_methods[name].fixed_ratio is not None]
        if not fixed or len(fixed) == len(methods):
            kind = "with a t_range [r, r]" if not fixed else "without a fixed mask ratio"
            raise ValueError(f"{where}.corpora.{corpus}: none of {', '.join(methods)} is a method {kind}")
