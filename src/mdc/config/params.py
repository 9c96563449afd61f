"""A whole parameter file: the protocol, methods, and scales with their tables."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from mdc.config.data import Data
from mdc.config.pretrain import Method, Pretrain
from mdc.config.sources import ScenesCorpus
from mdc.config.types import (
    Name,
    Names,
    NonNegative,
    Positive,
    Share,
    SidePair,
    Strict,
    Threads,
    each_once,
    known,
    own_labels,
    sides_stand,
)


class Probe(Strict):
    """Where and how features are computed, and CLIP-benchmark's recipe (paper, appendix B)."""

    lr: Annotated[float, Field(gt=0)]
    epochs: Positive
    batch_size: Positive
    seed: NonNegative
    feature_batch: Positive
    precision: Literal["fp32", "bf16"]
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]
    bootstrap: Annotated[int, Field(ge=100)]


class ProbeTable(Strict):
    """Which runs stand in a table of linear probes, and which of their differences are named beforehand.

    ``contrasts``: pairs, the first minus the second: of methods within a corpus and backbone (where both stand), or, as
    ``[dense/mdc, single/mdc]``, of encoders of two corpora within a backbone.
    """

    corpora: Annotated[dict[Name, Names], Field(min_length=1)]
    backbones: Names
    probes: Names
    contrasts: list[SidePair] = Field(default_factory=list)

    @model_validator(mode="after")
    def _sides_stand(self) -> Self:
        sides_stand(self.contrasts, self.corpora)
        return self


class MethodTable(ProbeTable):
    """One row a method, one group of columns a corpus: of one backbone. Its comparisons are within a corpus."""

    backbones: Annotated[Names, Field(max_length=1)]

    @model_validator(mode="after")
    def _within_a_corpus(self) -> Self:
        for pair in self.contrasts:
            if "/" in "".join(pair):
                raise ValueError(
                    f"contrasts: [{', '.join(pair)}] compares corpora, which only table1 does; name methods alone"
                )
        return self


class ScheduleTable(MethodTable):
    """Table 5: one objective under several ranges of t. The last method of a corpus is what the others are held against."""

    @property
    def reference(self) -> str:
        """The method that stands last in every corpus."""
        return next(iter(self.corpora.values()))[-1]

    @model_validator(mode="after")
    def _one_reference(self) -> Self:
        for corpus, methods in self.corpora.items():
            if methods[-1] != self.reference:
                raise ValueError(
                    f"corpora.{corpus} ends with {methods[-1]}, the first corpus with {self.reference}; the method that the "
                    "others are held against stands last in each"
                )
        return self


class RatioFigure(MethodTable):
    """Figure 4: methods that mask a fixed share of every caption, beside others; a panel a corpus."""


class PairsFigure(MethodTable):
    """Figure 5: methods over corpora that differ in their number of pairs. Its comparison is the trend of each method."""

    corpora: Annotated[dict[Name, Names], Field(min_length=2)]

    @model_validator(mode="after")
    def _no_contrasts(self) -> Self:
        if self.contrasts:
            raise ValueError(
                "contrasts: this figure compares the corpora of a method by their trend and names no others"
            )
        return self


class Figure3(Strict):
    """Whose caption lengths are drawn: corpora, and sets of captions without images."""

    corpora: Names
    texts: Annotated[list[Name], AfterValidator(each_once)] = Field(default_factory=list)


RecipeTable = Annotated[str, Field(pattern=r"^table[678]$")]


class Tables(Strict):
    table1: ProbeTable
    table4: MethodTable
    table5: ScheduleTable
    figure3: Figure3
    figure4: RatioFigure
    figure5: PairsFigure
    recipes: Annotated[dict[RecipeTable, Name], Field(min_length=1)]  # table → the backbone of Table 1 it is about

    def probing(self) -> dict[str, ProbeTable]:
        """The tables and figures of linear probes by name, in order."""
        names = ("table1", "table4", "table5", "figure4", "figure5")
        return {name: getattr(self, name) for name in names}


class Scale(Strict):
    label: str
    data: Data
    pretrain: Pretrain
    probe: Probe
    tables: Tables

    @model_validator(mode="after")
    def _names(self) -> Self:
        for key, table in self.tables.probing().items():
            for name in table.corpora:
                known(f"tables.{key}.corpora", name, self.data.corpora, "corpus")
            for name in table.backbones:
                known(f"tables.{key}.backbones", name, self.pretrain.backbones, "backbone")
            for name in table.probes:
                known(f"tables.{key}.probes", name, self.data.probes, "probe")
        for key, name in self.tables.recipes.items():
            known(f"tables.recipes.{key}", name, dict.fromkeys(self.tables.table1.backbones), "backbone of table1")
        for name in self.tables.figure3.corpora:
            known("tables.figure3.corpora", name, self.data.corpora, "corpus")
        for name in self.tables.figure3.texts:
            known("tables.figure3.texts", name, self.data.texts, "set of captions (data.texts)")
        for name, corpus in self.data.corpora.items():
            batch = self.pretrain.recipe.batch_size
            if isinstance(corpus.source, ScenesCorpus) and corpus.source.train < batch:
                raise ValueError(
                    f"data.corpora.{name}.source.train = {corpus.source.train}: fewer than one batch of {batch}"
                )
        return self


class ProtocolData(Strict):
    context_length: Annotated[int, Field(ge=3)]
    sot: Literal["visible"]
    eot: Literal["supervised"]
    several_captions: Literal["one_a_presentation"]


class ProtocolPretrain(Strict):
    optimizer: Literal["AdamW"]
    lr_schedule: Literal["cosine"]
    least_t: Annotated[float, Field(gt=0, lt=1)]
    t_draw: Literal["stratified", "independent"]
    adam_eps: Annotated[float, Field(gt=0)]
    decay: Literal["matrices_only"]
    final_lr: Annotated[float, Field(ge=0)]
    temperature: Annotated[float, Field(gt=0)]
    max_logit_scale: Annotated[float, Field(gt=1)]
    clip_text_attention: Literal["causal", "bidirectional"]
    mask_duplicates_over: Share
    arc_normaliser: Literal["valid_tokens"]
    interpolation: Literal["bicubic"]
    mean_and_std: Literal["openai"]
    crop_scale: tuple[Share, Share]
    crop_ratio: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]]
    flips: Literal[False]

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
    validation_split: Literal["none"]


class Protocol(Strict):
    data: ProtocolData
    pretrain: ProtocolPretrain
    probe: ProtocolProbe


class Params(Strict):
    scale: Name
    protocol: Protocol
    methods: dict[Name, Method]
    scales: dict[Name, Scale]

    @model_validator(mode="after")
    def _cross(self) -> Self:
        known("scale", self.scale, self.scales, "scale")
        for scale_name, scale in self.scales.items():
            for key, table in scale.tables.probing().items():
                where = f"scales.{scale_name}.tables.{key}"
                named = [(f"{where}.corpora.{corpus}", m) for corpus, ms in table.corpora.items() for m in ms]
                named += [(f"{where}.contrasts", side.rpartition("/")[2]) for pair in table.contrasts for side in pair]
                for place, method in named:
                    known(place, method, self.methods, "method")
                shown = dict.fromkeys(method for methods in table.corpora.values() for method in methods)
                own_labels(f"{where}.corpora", {key: scale.data.corpora[key].label for key in table.corpora})
                own_labels(f"{where}.corpora", {key: self.methods[key].label for key in shown})
                own_labels(f"{where}.backbones", {key: scale.pretrain.backbones[key].label for key in table.backbones})
                own_labels(f"{where}.probes", {key: scale.data.probes[key].label for key in table.probes})
            self._schedules(f"scales.{scale_name}.tables.table5", scale.tables.table5)
            self._ratios(f"scales.{scale_name}.tables.figure4", scale.tables.figure4)
            for number, override in enumerate(scale.pretrain.overrides):
                where = f"scales.{scale_name}.pretrain.overrides[{number}].when"
                for name in override.when.method or []:
                    known(f"{where}.method", name, self.methods, "method")
                for name in override.when.corpus or []:
                    known(f"{where}.corpus", name, scale.data.corpora, "corpus")
        return self

    def _schedules(self, where: str, table: ScheduleTable) -> None:
        """A row of Table 5 is a range of t, so each has one, and no two have the same."""
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
        """Every panel of Figure 4 has fixed ratios, and something to hold them against."""
        for corpus, methods in figure.corpora.items():
            fixed = [name for name in methods if self.methods[name].fixed_ratio is not None]
            if not fixed or len(fixed) == len(methods):
                what = "with a t_range [r, r]" if not fixed else "without a fixed mask ratio"
                raise ValueError(f"{where}.corpora.{corpus}: none of {', '.join(methods)} is a method {what}")

    def current(self) -> Scale:
        return self.scales[self.scale]
