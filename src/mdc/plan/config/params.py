"""A whole parameter file: the protocol, methods, and scales with their tables."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from mdc.plan.config.caption import Captioning, Finetune
from mdc.plan.config.caption_fits import check_captioning
from mdc.plan.config.caption_table import CaptionTable, CaptionView
from mdc.plan.config.data import Data
from mdc.plan.config.encoder_fits import check_encoders
from mdc.plan.config.encoders import Encode, EncoderEntry, WordEmbeddings
from mdc.plan.config.pretrain import Method, Pretrain
from mdc.plan.config.score import Scoring, estimators_of
from mdc.plan.config.sources import ScenesCorpus
from mdc.plan.config.tables import (
    ChoiceTable,
    Figure3,
    LossFigure,
    PositionFigure,
    ProbeTable,
    RatioFigure,
    RecipeTable,
    ScheduleTable,
    ScoreTable,
    Tables,
)
from mdc.plan.config.tokenizers import TokenizerEntry
from mdc.plan.config.types import Name, NonNegative, Positive, Share, Strict, Threads, known, own_labels


class Probe(Strict):
    """How features are computed, and the probe's recipe, which is CLIP-benchmark's (paper, appendix B).

    ``fused``: AdamW by PyTorch's fused kernel, which is faster and rounds differently from CLIP-benchmark's.
    """

    lr: Annotated[float, Field(gt=0)]
    epochs: Positive
    batch_size: Positive
    seed: NonNegative
    feature_batch: Positive
    precision: Literal["fp32", "bf16"]
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]
    fused: bool = False

    @model_serializer(mode="wrap")
    def _given(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Where it is not asked for, the key is left out, as if there were no such choice."""
        found: dict[str, Any] = dump(self)
        return {key: value for key, value in found.items() if key != "fused" or value}


class ProbeRuntime(Strict):
    """How a probe's job proceeds. These keys never change a result, so a change reruns nothing."""

    workers: Annotated[int, Field(ge=0, le=4096)] = 0  # processes that read and decode images while the device computes
    cache_gb: Annotated[float, Field(gt=0)] = (
        20.0  # of features and crops that are kept; the least recently used go first
    )


class Probing(Probe):
    """A scale's section ``probe``: what decides the probes of every encoder, and what does not."""

    runtime: ProbeRuntime = Field(default_factory=ProbeRuntime)

    @property
    def cores(self) -> int:
        """How many cores a job computes on: its threads, or its workers and the process that they work for."""
        return max(self.threads, self.runtime.workers + 1)


class Scale(Strict):
    """Everything that one name chooses: data, models, recipe and tables.

    ``pretrain`` may be left out if nothing is trained, ``probe`` if nothing is probed, ``score`` if no caption is scored,
    ``caption`` if none is written, and each table or figure. ``encoders``: those that are not trained here; ``encode`` says how
    the images of corpora are encoded by them. ``tokenizers``: those that make codes of images; ``words``: embeddings of
    word pieces that decoders may stand on. ``mc_diffusion`` and
    ``claims``: captions of which other tables and figures each show a part: those of MC-Diffusion, and those that put a blog
    post's claims to the test (docs/claims.md).
    """

    label: str
    data: Data
    tokenizers: dict[Name, TokenizerEntry] = Field(default_factory=dict)
    words: dict[Name, WordEmbeddings] = Field(default_factory=dict)
    encoders: dict[Name, EncoderEntry] = Field(default_factory=dict)
    encode: Encode | None = None
    pretrain: Pretrain | None = None
    finetune: dict[Name, Finetune] = Field(default_factory=dict)
    probe: Probing | None = None
    score: Scoring | None = None
    caption: Captioning | None = None
    mc_diffusion: CaptionTable | None = None
    claims: CaptionTable | None = None
    tables: Tables = Field(default_factory=Tables)

    def captioned(self) -> dict[str, CaptionTable]:
        """What is captioned, by its place in the scale."""
        found = {"tables.table3": self.tables.table3, **self.shown_in_part()}
        return {where: table for where, table in found.items() if table is not None}

    def shown_in_part(self) -> dict[str, CaptionTable]:
        """The sections of captions of which tables and figures each show a part, by their key."""
        found = {"mc_diffusion": self.mc_diffusion, "claims": self.claims}
        return {where: table for where, table in found.items() if table is not None}

    def section_of(self, dataset: str) -> CaptionTable:
        """The one of these that captions a dataset, whose name no other has. KeyError if none does."""
        for table in self.shown_in_part().values():
            if dataset in table.datasets:
                return table
        raise KeyError(dataset)

    @model_validator(mode="after")
    def _sections(self) -> Self:
        needed = {
            "pretrain": [*self.tables.training(), *self.shown_in_part()],
            "probe": list(self.tables.probing()),
            "score": list(self.tables.scoring()),
            "caption": [where.removeprefix("tables.") for where in self.captioned()],
        }
        for section, names in needed.items():
            if names and getattr(self, section) is None:
                raise ValueError(f"{section}: this key is missing; needed by {', '.join(names)}")
        if (names := list(self.tables.of_captions())) and not self.shown_in_part():
            raise ValueError(f"mc_diffusion or claims: one of these keys is needed by {', '.join(names)}")
        return self

    @model_validator(mode="after")
    def _names(self) -> Self:
        for key, table in self.tables.named().items():
            where = f"tables.{key}"
            for name in getattr(table, "corpora", ()):
                known(f"{where}.corpora", name, self.data.corpora, "corpus")
            for name in getattr(table, "backbones", ()):
                known(f"{where}.backbones", name, self.training.backbones, "backbone")
            for name in getattr(table, "probes", ()):
                known(f"{where}.probes", name, self.data.probes, "probe")
            for name in getattr(table, "texts", ()):
                known(f"{where}.texts", name, self.data.texts, "set of captions (data.texts)")
            if isinstance(table, ChoiceTable):
                for name in table.sets:
                    known(f"{where}.columns", name, self.data.choices, "choice set (data.choices)")
            if isinstance(table, ProbeTable | LossFigure | ScoreTable):
                for name in table.corpora:
                    self._words(f"{where}.corpora", name)
                    self._one_batch(name)
        return self

    @model_validator(mode="after")
    def _rest_on_others(self) -> Self:
        tables = self.tables
        for name, table in tables.named().items():
            if isinstance(table, RecipeTable) and (
                tables.table1 is None or table.backbone not in tables.table1.backbones
            ):
                there = f"allowed: {', '.join(tables.table1.backbones)}" if tables.table1 else "there is none"
                raise ValueError(f"tables.{name}.backbone = {table.backbone}: must be one of table1's; {there}")
        if tables.figure_loss is not None and not tables.figure_loss.corpora and not tables.probing():
            raise ValueError(
                "tables.figure_loss shows the runs of the other tables and figures, and these have none; name its corpora "
                "and backbones"
            )
        if tables.figure6 is not None and tables.table3 is None:
            raise ValueError("tables.figure6 shows captions of table3, and there is none")
        if tables.figure_schedules is not None and tables.table5 is None:
            raise ValueError("tables.figure_schedules shows the runs of table5, and there is none")
        return self

    @property
    def training(self) -> Pretrain:
        """``pretrain``, of a scale that has runs."""
        assert self.pretrain is not None  # _sections sees to it
        return self.pretrain

    def _one_batch(self, corpus: str) -> None:
        source, batch = self.data.corpora[corpus].source, self.training.recipe.batch_size
        if isinstance(source, ScenesCorpus) and source.train < batch:
            raise ValueError(f"data.corpora.{corpus}.source.train = {source.train}: fewer than one batch of {batch}")

    def _words(self, where: str, corpus: str) -> None:
        """Check that the vocabulary of ``corpus`` covers its captions, so that a model can read all of them."""
        if not self.data.vocabularies:
            raise ValueError(
                f"{where}: {corpus} has no vocabulary; name one in data.vocabularies, as words: [{corpus}] or clip: full"
            )
        name = self.data.vocabulary_of(corpus)
        listed = self.data.vocabularies[name]
        if listed != "full" and corpus not in listed:
            raise ValueError(
                f"{where}: the vocabulary {name} of {corpus} is made from {', '.join(listed)}. Give {corpus} one of its own "
                f"(data.vocabularies, and data.corpora.{corpus}.vocabulary), or add it to that list, which makes every run "
                "with this vocabulary anew"
            )


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
    scale: Name
    protocol: Protocol
    methods: dict[Name, Method]
    scales: dict[Name, Scale]

    @model_validator(mode="after")
    def _cross(self) -> Self:
        known("scale", self.scale, self.scales, "scale")
        for scale_name, scale in self.scales.items():
            for key, table in scale.tables.named().items():
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
            if scale.tables.table5 is not None:
                self._schedules(f"scales.{scale_name}.tables.table5", scale.tables.table5)
                if scale.tables.figure_schedules is not None:
                    scale.tables.figure_schedules.stands_in(scale.tables.table5, f"scales.{scale_name}.tables.")
            if scale.tables.figure4 is not None:
                self._ratios(f"scales.{scale_name}.tables.figure4", scale.tables.figure4)
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
