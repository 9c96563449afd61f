"""A scale: its data, encoders, pretraining, evaluations, tables and figures."""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, create_model, model_validator

from mdc.plan.config.captions import Captions, Coca
from mdc.plan.config.data import Data
from mdc.plan.config.kinds.encoders import Encode, MadeEncoder
from mdc.plan.config.kinds.heads import Probe
from mdc.plan.config.kinds.kind import sections
from mdc.plan.config.kinds.known import AnyEncoder, AnyHead
from mdc.plan.config.pretrain import Pretrain, Variant
from mdc.plan.config.score import Scoring
from mdc.plan.config.systems import CaptionSystem
from mdc.plan.config.tables import Tables
from mdc.plan.config.types import Name, Strict


class ProbeRuntime(Strict):
    """How a probe's job proceeds. These keys never change a result, so a change reruns nothing."""

    workers: Annotated[int, Field(ge=0, le=4096)] = 0  # processes that read and decode images while the device computes
    cache_gb: Annotated[float, Field(gt=0)] = (
        20.0  # of cached features and crops; the least recently used are removed first
    )


class Probing(Probe):
    """A scale's section ``probe``: the linear probe's recipe, other ``heads`` that tables may name, and ``runtime`` values."""

    heads: dict[Name, AnyHead] = Field(default_factory=dict)
    runtime: ProbeRuntime = Field(default_factory=ProbeRuntime)

    @property
    def every(self) -> dict[str, AnyHead | None]:
        """All heads that tables may name."""
        return {"linear": None, **self.heads}

    @model_validator(mode="after")
    def _linear(self) -> Self:
        if "linear" in self.heads:
            raise ValueError("heads: linear is the probe whose recipe is beside them; use another name")
        return self


class _Scale(Strict):
    """A named configuration: data, models, recipe and tables.

    ``pretrain`` may be left out if nothing is trained, ``probe`` if nothing is probed, ``score`` if no caption is scored,
    ``captions`` if none is generated, and each table or figure. ``encoders``: frozen ones; ``encode``: how they encode the images
    of corpora. Extensions bring further sections.
    """

    label: str
    data: Data
    encoders: dict[Name, AnyEncoder] = Field(default_factory=dict)
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
            if section == "probe" and self.pretrain is not None and self.pretrain.lr_selection is not None:
                names.append("pretrain.lr_selection")
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
        """Give encoders of the scale itself the shape of what they name."""
        for name, entry in self.encoders.items():
            if not isinstance(entry, MadeEncoder):
                continue
            if asked := entry.model_fields_set & {"image_size", "tokens", "width"}:
                raise ValueError(f"encoders.{name}.{min(asked)}: follows from what this encoder names; leave it out")
            if (shape := entry.shape_in(self)) is not None:  # other checks refuse it
                size, pixels, width = shape
                self.encoders[name] = entry.but(image_size=size, tokens=(size // pixels) ** 2, width=width)
        return self

    @property
    def training(self) -> Pretrain:
        """``pretrain``, of a scale that has runs."""
        assert self.pretrain is not None  # checked by _sections
        return self.pretrain


if TYPE_CHECKING:
    Scale = _Scale
else:
    _more: dict[str, Any] = {
        name: (dict[Name, entry], Field(default_factory=dict)) for name, entry in sections().items()
    }
    Scale = create_model("Scale", __base__=_Scale, __doc__=_Scale.__doc__, **_more)
