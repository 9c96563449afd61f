"""A whole parameter file: the protocol, methods, and scales with their tables."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from mdc.config.data import Data
from mdc.config.pretrain import Method, Pretrain
from mdc.config.sources import ScenesCorpus
from mdc.config.types import Name, Names, NonNegative, Positive, Share, Strict, Threads, each_once, known


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

    ``contrasts``: pairs of methods, the first minus the second, within a corpus and backbone (where both stand).
    """

    corpora: Annotated[dict[Name, Names], Field(min_length=1)]
    backbones: Names
    probes: Names
    contrasts: list[Annotated[Names, Field(min_length=2, max_length=2)]] = Field(default_factory=list)


class MethodTable(ProbeTable):
    """One row a method, one group of columns a corpus: of one backbone."""

    backbones: Annotated[Names, Field(max_length=1)]


class Figure3(Strict):
    """Whose caption lengths are drawn: corpora, and sets of captions without images."""

    corpora: Names
    texts: Annotated[list[Name], AfterValidator(each_once)] = Field(default_factory=list)


RecipeTable = Annotated[str, Field(pattern=r"^table[678]$")]


class Tables(Strict):
    table1: ProbeTable
    table4: MethodTable
    figure3: Figure3
    recipes: Annotated[dict[RecipeTable, Name], Field(min_length=1)]  # table → the backbone of Table 1 it is about

    def probing(self) -> dict[str, ProbeTable]:
        """The tables of linear probes by name, in order."""
        return {"table1": self.table1, "table4": self.table4}


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
                named += [(f"{where}.contrasts", method) for pair in table.contrasts for method in pair]
                for place, method in named:
                    known(place, method, self.methods, "method")
            for number, override in enumerate(scale.pretrain.overrides):
                where = f"scales.{scale_name}.pretrain.overrides[{number}].when"
                for name in override.when.method or []:
                    known(f"{where}.method", name, self.methods, "method")
                for name in override.when.corpus or []:
                    known(f"{where}.corpus", name, scale.data.corpora, "corpus")
        return self

    def current(self) -> Scale:
        return self.scales[self.scale]
