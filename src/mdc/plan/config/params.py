"""A whole parameter file: the protocol, methods, and scales with their tables."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from mdc.plan.artefacts import ARTEFACTS, Artefact
from mdc.plan.config.caption_fits import check_captioning
from mdc.plan.config.caption_table import CaptionTable, CaptionView
from mdc.plan.config.encoder_fits import check_encoders
from mdc.plan.config.pretrain import Method
from mdc.plan.config.scale import Scale
from mdc.plan.config.score import estimators_of
from mdc.plan.config.tables import (
    ChoiceTable,
    Figure3,
    PositionFigure,
    ProbeTable,
    RatioFigure,
    ScheduleFigure,
    ScheduleTable,
    ScoreTable,
)
from mdc.plan.config.types import Name, Share, Strict, each_once, known, own_labels


class ProtocolData(Strict):
    context_length: Annotated[int, Field(ge=3)]


class ProtocolPretrain(Strict):
    optimizer: Literal["AdamW"]
    lr_schedule: Literal["cosine"]
    least_t: Annotated[float, Field(gt=0, lt=1)]
    t_draw: Literal["stratified", "independent"]
    adam_eps: Annotated[float, Field(gt=0)]
    final_lr: Annotated[float, Field(ge=0)]
    temperature: Annotated[float, Field(gt=0)]
    max_logit_scale: Annotated[float, Field(gt=1)]
    clip_text_attention: Literal["causal", "bidirectional"]
    mask_duplicates_over: Share
    crop_scale: tuple[Share, Share]
    crop_ratio: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]]

    @model_validator(mode="before")
    @classmethod
    def _lists_are_pairs(cls, value: Any) -> Any:
        if isinstance(value, dict):
            pairs = {k: tuple(v) for k, v in value.items() if k.startswith("crop_") and isinstance(v, list)}
            value = {**value, **pairs}
        return value

    @model_validator(mode="after")
    def _ranges(self) -> Self:
        for key in ("crop_scale", "crop_ratio"):
            low, high = getattr(self, key)
            if low > high or low <= 0:
                raise ValueError(f"{key} [{low}, {high}] must be [low, high] with 0 < low <= high")
        return self


class ProtocolProbe(Strict):
    normalise: bool
    weight_decay: Annotated[float, Field(ge=0)]


class ProtocolStatistics(Strict):
    """Intervals and verdicts of all tables and figures (docs/statistics.md). ``comparable`` is in points."""

    level: Annotated[float, Field(gt=0.5, lt=1)]
    comparable: Annotated[float, Field(gt=0)]
    power: Annotated[float, Field(gt=0.5, lt=1)]
    bootstrap: Annotated[int, Field(lt=2**31)]

    @model_validator(mode="after")
    def _enough_draws(self) -> Self:
        """Six primary contrasts, corrected, must be able to hold: the least p of a bootstrap is 2 / (draws + 1)."""
        least = math.ceil(2 * 6 / (1 - self.level))
        if self.bootstrap < least:
            raise ValueError(
                f"bootstrap = {self.bootstrap}: too few to hold any of six claims; {least} or more are needed"
            )
        return self


class Protocol(Strict):
    data: ProtocolData
    pretrain: ProtocolPretrain
    probe: ProtocolProbe
    statistics: ProtocolStatistics


class Params(Strict):
    """``artefacts``: every table and figure of any scale, in the order shown. DVC has a stage for each."""

    scale: Name
    artefacts: Annotated[list[Name], AfterValidator(each_once)] = Field(default_factory=list)
    protocol: Protocol
    methods: dict[Name, Method]
    scales: dict[Name, Scale]

    @model_validator(mode="before")
    @classmethod
    def _ordered(cls, values: Any) -> Any:
        """The tables of a scale come in the order of ``artefacts``, wherever they stand."""
        try:
            place = {name: number for number, name in enumerate(values["artefacts"])}
            scales = dict(values["scales"])
            for name, scale in scales.items():
                tables = sorted(scale.get("tables", {}).items(), key=lambda item: place.get(item[0], len(place)))
                scales[name] = {**scale, "tables": dict(tables)} if tables else scale
            return {**values, "scales": scales}
        except (AttributeError, KeyError, TypeError):
            return values  # something is wrong, which its own class says better

    @property
    def declared(self) -> dict[str, Artefact]:
        """Every table and figure there is, with those of all scales' own."""
        return ARTEFACTS | {name: one for scale in self.scales.values() for name, one in scale.tables.artefacts.items()}

    @model_validator(mode="after")
    def _cross(self) -> Self:
        known("scale", self.scale, self.scales, "scale")
        for name in self.artefacts:
            known("artefacts", name, self.declared, "table or figure")
        for scale_name, scale in self.scales.items() if self.artefacts else ():
            for name in scale.tables.keys() - set(self.artefacts):
                raise ValueError(
                    f"artefacts: lacks {name}, which scales.{scale_name}.tables names; DVC would never make it"
                )
        for scale_name, scale in self.scales.items():
            for key, table in scale.tables.items():
                where = f"scales.{scale_name}.tables.{key}"
                corpora: dict[str, list[str]] = getattr(table, "corpora", {}) if not isinstance(table, Figure3) else {}
                sides = [
                    side
                    for pair in getattr(table, "contrasts", ())
                    for side in pair
                    if not isinstance(table, ScoreTable | CaptionTable | CaptionView)
                ]
                named = [(f"{where}.corpora.{corpus}", m) for corpus, ms in corpora.items() for m in ms]
                for place, method in [*named, *((f"{where}.contrasts", side.rpartition("/")[2]) for side in sides)]:
                    known(place, method, self.methods, "method")
                if isinstance(table, ProbeTable | ScoreTable):
                    self._told_apart(where, scale, table)
                if isinstance(table, ScoreTable):
                    self._can_score(where, table)
                if isinstance(table, ScheduleTable):
                    self._schedules(where, table)
                if isinstance(table, RatioFigure):
                    self._ratios(where, table)
            table5, schedules = scale.tables.the(ScheduleTable), scale.tables.the(ScheduleFigure)
            if table5 is not None and schedules is not None:
                schedules.stands_in(table5, f"scales.{scale_name}.tables.")
            check_encoders(scale, self.methods, f"scales.{scale_name}")
            check_captioning(scale, self.methods, self.protocol.data.context_length, f"scales.{scale_name}")
            for number, override in enumerate(scale.pretrain.overrides if scale.pretrain else ()):
                where = f"scales.{scale_name}.pretrain.overrides[{number}].when"
                for name in override.when.method or []:
                    known(f"{where}.method", name, self.methods, "method")
                for name in override.when.corpus or []:
                    known(f"{where}.corpus", name, scale.data.corpora, "corpus")
        return self

    def _can_score(self, where: str, table: ScoreTable) -> None:
        """Every method must have an estimator, and every side of a comparison one that its method has."""
        for corpus, methods in table.corpora.items():
            for name in methods:
                method = self.methods[name]
                if not estimators_of(method.objective, method.t_range):
                    raise ValueError(f"{where}.corpora.{corpus}: {name} ({method.objective}) cannot score captions")
                if isinstance(table, PositionFigure) and method.objective not in ("autoregressive", "masked"):
                    raise ValueError(f"{where}.corpora.{corpus}: {name} ({method.objective}) predicts no tokens")
        if isinstance(table, PositionFigure):
            return
        for side in (side for pair in (*table.contrasts, *table.primary) for side in pair):
            _, name, estimator = side.split("/")
            method = self.methods[name]
            there = estimators_of(method.objective, method.t_range)
            if estimator not in there:
                raise ValueError(f"{where}: {side}: {name} has no such estimator; allowed: {', '.join(there)}")

    def _told_apart(self, where: str, scale: Scale, table: ProbeTable | ScoreTable) -> None:
        shown = dict.fromkeys(method for methods in table.corpora.values() for method in methods)
        own_labels(f"{where}.corpora", {key: scale.data.corpora[key].label for key in table.corpora})
        own_labels(f"{where}.corpora", {key: self.methods[key].label for key in shown})
        own_labels(f"{where}.backbones", {key: scale.training.backbones[key].label for key in table.backbones})
        if isinstance(table, ProbeTable):
            own_labels(f"{where}.probes", {key: scale.data.probes[key].label for key in table.probes})
        if isinstance(table, ChoiceTable):
            own_labels(f"{where}.columns", {key: column.label for key, column in table.columns.items()})

    def _schedules(self, where: str, table: ScheduleTable) -> None:
        """A row of Table 5 is a range of t, so each method must have one, and no two may have the same."""
        for corpus, methods in table.corpora.items():
            seen: dict[tuple[float, float], str] = {}
            for name in methods:
                t_range = self.methods[name].t_range
                if t_range is None:
                    raise ValueError(f"{where}.corpora.{corpus}: {name} has no t_range; only masked methods have")
                if t_range in seen:
                    raise ValueError(f"{where}.corpora.{corpus}: {seen[t_range]} and {name} have the same t_range")
                seen[t_range] = name

    def _ratios(self, where: str, figure: RatioFigure) -> None:
        """Every panel of Figure 4 needs methods with a fixed ratio, and others to compare them with."""
        for corpus, methods in figure.corpora.items():
            fixed = [name for name in methods if self.methods[name].fixed_ratio is not None]
            if not fixed or len(fixed) == len(methods):
                what = "with a t_range [r, r]" if not fixed else "without a fixed mask ratio"
                raise ValueError(f"{where}.corpora.{corpus}: none of {', '.join(methods)} is a method {what}")

    def current(self) -> Scale:
        return self.scales[self.scale]
