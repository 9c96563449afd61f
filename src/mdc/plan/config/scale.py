"""A scale: its data, encoders, pretraining, evaluations, tables and figures."""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.backbones import Backbone, FrozenBackbone
from mdc.plan.config.captions import Captions, Coca
from mdc.plan.config.data import Data
from mdc.plan.config.encoders import CodesTower, Encode, EncoderEntry, RunTower, WordEmbeddings
from mdc.plan.config.pretrain import Pretrain, Variant
from mdc.plan.config.score import Scoring
from mdc.plan.config.systems import CaptionSystem
from mdc.plan.config.tables import Tables
from mdc.plan.config.tokenizers import TokenizerEntry
from mdc.plan.config.types import Name, NonNegative, Positive, Strict, Threads


class Features(Strict):
    """How the features of any probe are computed, and its seed."""

    seed: NonNegative
    feature_batch: Positive
    precision: Literal["fp32", "bf16"]
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]


class Probe(Features):
    """The linear probe's recipe, which is CLIP-benchmark's (paper, appendix B).

    ``fused``: AdamW by PyTorch's fused kernel, which is faster and rounds differently from CLIP-benchmark's.
    """

    lr: Annotated[float, Field(gt=0)]
    epochs: Positive
    batch_size: Positive
    fused: bool = False


class _Head(Strict):
    """A head other than the linear probe. ``label``: its name in tables."""

    label: str


class Attentive(_Head):
    """One query attends over all tokens, then a linear layer; the best of the ``lr`` on a share ``held_out`` of the training
    items is chosen."""

    kind: Literal["attentive"]
    lr: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1)]
    epochs: Positive
    batch_size: Positive
    held_out: Annotated[float, Field(gt=0, lt=1)]

    def sentence(self) -> str:
        """Its description below a table."""
        rates = ", ".join(f"{lr:g}" for lr in self.lr)
        return (
            f"one learnt query attends over [CLS] and the patch tokens, then a linear layer; {self.epochs} epochs; of the "
            f"learning rates {rates} the best on a held-out share {self.held_out:g} of the training items, fitted again on all"
        )


class Neighbours(_Head):
    """k-NN: the ``k`` nearest training items vote with the weight exp(cosine / ``temperature``)."""

    kind: Literal["knn"]
    k: Positive
    temperature: Annotated[float, Field(gt=0)]

    def sentence(self) -> str:
        """Its description below a table."""
        return (
            f"votes of the {self.k} nearest training items by cosine of the linear probe's feature, weighted by exp(cosine / "
            f"{self.temperature:g})"
        )


Head = Annotated[Attentive | Neighbours, Field(discriminator="kind")]


class ProbeRuntime(Strict):
    """How a probe's job proceeds. These keys never change a result, so a change reruns nothing."""

    workers: Annotated[int, Field(ge=0, le=4096)] = 0  # processes that read and decode images while the device computes
    cache_gb: Annotated[float, Field(gt=0)] = (
        20.0  # of cached features and crops; the least recently used are removed first
    )


class Probing(Probe):
    """A scale's section ``probe``: the linear probe's recipe, other ``heads`` that tables may name, and ``runtime`` values."""

    heads: dict[Name, Head] = Field(default_factory=dict)
    runtime: ProbeRuntime = Field(default_factory=ProbeRuntime)

    @property
    def every(self) -> dict[str, Head | None]:
        """All heads that tables may name."""
        return {"linear": None, **self.heads}

    @model_validator(mode="after")
    def _linear(self) -> Self:
        if "linear" in self.heads:
            raise ValueError("heads: linear is the probe whose recipe is beside them; use another name")
        return self


class Scale(Strict):
    """A named configuration: data, models, recipe and tables.

    ``pretrain`` may be left out if nothing is trained, ``probe`` if nothing is probed, ``score`` if no caption is scored,
    ``captions`` if none is generated, and each table or figure. ``encoders``: frozen ones; ``encode``: how they encode the images
    of corpora. ``tokenizers``: of images; ``words``: embeddings of tokens for decoders.
    """

    label: str
    data: Data
    tokenizers: dict[Name, TokenizerEntry] = Field(default_factory=dict)
    words: dict[Name, WordEmbeddings] = Field(default_factory=dict)
    encoders: dict[Name, EncoderEntry] = Field(default_factory=dict)
    encode: Encode | None = None
    pretrain: Pretrain | None = None
    probe: Probing | None = None
    score: Scoring | None = None
    captions: Captions | None = None
    tables: Tables = Field(default_factory=Tables)

    @cached_property
    def captioned(self) -> dict[str, dict[str, CaptionSystem]]:
        """Dataset → the systems that caption it: those that a table or figure shows."""
        assert self.captions is not None  # checked by _sections
        shown: dict[str, set[str]] = {}
        for block in self.tables.needing("captions").values():
            for dataset, system in block.shown(self.captions):
                shown.setdefault(dataset, set()).add(system)
        return {
            name: {key: system for key, system in self.captions.captioning(name).items() if key in shown[name]}
            for name in self.captions.datasets
            if name in shown
        }

    def external(self, dataset: str) -> dict[str, Coca]:
        """The external models that caption a dataset."""
        assert self.captions is not None
        blocks = self.tables.needing("captions").values()
        return {key: model for block in blocks for key, model in block.external_on(self.captions, dataset).items()}

    @model_validator(mode="after")
    def _sections(self) -> Self:
        for section in ("pretrain", "probe", "score", "captions"):
            names = list(self.tables.needing(section))
            if names and getattr(self, section) is None:
                raise ValueError(f"{section}: this key is missing; needed by {', '.join(names)}")
        return self

    @property
    def _varied(self) -> dict[str, Variant]:
        return self.pretrain.varied if self.pretrain is not None else {}

    def corpus_of(self, name: str) -> str:
        """The corpus ``name``, or the corpus that ``name`` is a variant of."""
        return self._varied[name].corpus if name in self._varied else name

    def label_of(self, name: str) -> str:
        """The label of a corpus or a variant."""
        label = self.data.corpora[self.corpus_of(name)].label
        return self._varied[name].label(label) if name in self._varied else label

    def vocabulary_of(self, name: str) -> str:
        """The vocabulary of models that are trained on a corpus or a variant."""
        return self.data.corpora[self.corpus_of(name)].vocabulary or next(iter(self.data.vocabularies))

    def uncovered(self, name: str, where: str) -> Iterator[str]:
        """A line if the vocabulary of a corpus does not cover its captions, so that a model cannot read all of them."""
        corpus = self.corpus_of(name)
        if not self.data.vocabularies:
            yield f"{where}: {name} has no vocabulary; name one in data.vocabularies, as words: [{name}] or clip: full"
            return
        vocabulary = self.vocabulary_of(corpus)
        listed = self.data.vocabularies[vocabulary]
        if listed != "full" and corpus not in listed:
            yield (
                f"{where}: the vocabulary {vocabulary} of {corpus} is made from {', '.join(listed)}. Give {corpus} one of its "
                f"own (data.corpora.{corpus}.vocabulary), or add it to that list, which reruns every run with this vocabulary"
            )

    @model_validator(mode="after")
    def _names(self) -> Self:
        for name, variant in self._varied.items():
            if name in self.data.corpora:
                raise ValueError(
                    f"pretrain.variants.{variant.corpus}: makes {name}, and a corpus is called so; rename it"
                )
        return self

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        """Give encoders of the scale itself the shape of the backbone or the tokenizer that they name."""
        backbones = self.pretrain.backbones if self.pretrain is not None else {}
        for name, entry in self.encoders.items():
            if not isinstance(entry, RunTower | CodesTower):
                continue
            if asked := entry.model_fields_set & {"image_size", "tokens", "width"}:
                raise ValueError(f"encoders.{name}.{min(asked)}: follows from what this encoder names; leave it out")
            made = (
                backbones.get(entry.backbone) if isinstance(entry, RunTower) else self.tokenizers.get(entry.tokenizer)
            )
            if made is None or isinstance(made, FrozenBackbone):
                continue  # other checks refuse it
            side = made.image_size // (made.patch_size if isinstance(made, Backbone) else made.factor)
            self.encoders[name] = entry.but(image_size=made.image_size, tokens=side**2, width=made.width)
        return self

    @property
    def training(self) -> Pretrain:
        """``pretrain``, of a scale that has runs."""
        assert self.pretrain is not None  # checked by _sections
        return self.pretrain
