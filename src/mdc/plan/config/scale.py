"""A scale: its data, encoders, pretraining, evaluations, and the tables and figures that it makes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from mdc.plan.config.caption import Captioning, Finetune
from mdc.plan.config.caption_table import CaptionFigure, CaptionTable
from mdc.plan.config.data import Data
from mdc.plan.config.encoders import Encode, EncoderEntry, WordEmbeddings
from mdc.plan.config.pretrain import Pretrain
from mdc.plan.config.score import Scoring
from mdc.plan.config.sources import ScenesCorpus
from mdc.plan.config.tables import (
    ChoiceTable,
    LossFigure,
    ProbeTable,
    RecipeTable,
    ScheduleFigure,
    ScheduleTable,
    ScoreTable,
    Tables,
)
from mdc.plan.config.tokenizers import TokenizerEntry
from mdc.plan.config.types import Name, NonNegative, Positive, Strict, Threads, known


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
        found = {"tables.table3": self.tables.the(CaptionTable), **self.shown_in_part()}
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
        for key, table in self.tables.items():
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
        table1 = tables.the(ProbeTable)
        for name, table in tables.items():
            if isinstance(table, RecipeTable) and (table1 is None or table.backbone not in table1.backbones):
                there = f"allowed: {', '.join(table1.backbones)}" if table1 else "there is none"
                raise ValueError(f"tables.{name}.backbone = {table.backbone}: must be one of table1's; {there}")
        losses = tables.the(LossFigure)
        if losses is not None and not losses.corpora and not tables.probing():
            raise ValueError(
                "tables.figure_loss shows the runs of the other tables and figures, and these have none; name its corpora "
                "and backbones"
            )
        if tables.the(CaptionFigure) is not None and tables.the(CaptionTable) is None:
            raise ValueError("tables.figure6 shows captions of table3, and there is none")
        if tables.the(ScheduleFigure) is not None and tables.the(ScheduleTable) is None:
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
