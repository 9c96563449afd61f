"""The parameters of tables and figures of linear probes and other heads: runs, probes and comparisons."""

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from mdc.plan.config.kinds.backbones import FrozenBackbone
from mdc.plan.config.method import Method
from mdc.plan.config.pretrain import Recipe
from mdc.plan.config.references import (
    BackboneNames,
    EncoderName,
    MethodNames,
    Methods,
    MethodSide,
    OwnSide,
    ProbeName,
    ProbeNames,
    Ref,
    TrainedOn,
)
from mdc.plan.config.types import (
    MOST_CLAIMS,
    Claims,
    Pairs,
    Parameters,
    Side,
    Unique,
    WithClaims,
    each_once,
    equal_labels,
    within,
)


class OfRuns(Parameters):
    """A table or figure of runs by themselves: of the methods of each corpus, on each of the ``backbones``."""

    corpora: dict[TrainedOn, MethodNames]
    backbones: BackboneNames

    sections: ClassVar[tuple[str, ...]] = ("pretrain",)

    @property
    def trained(self) -> dict[str, dict[str, list[str]]]:
        return dict.fromkeys(self.backbones, self.corpora)

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        for corpus in self.corpora:
            yield from params.uncovered(corpus, f"{where}.corpora")


class OfMethods(OfRuns, WithClaims):
    """The runs of a table or figure: the methods of each corpus, or a list of ``corpora`` that have the same ``methods``.

    A pair of methods under ``primary`` is expanded to one for each corpus that has both.
    """

    corpora: Methods
    methods: MethodNames | None = None

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        yield from super().misfits(params, where)
        backbones = {key: params.training.backbones[key] for key in self.backbones}
        methods = {key: params.methods[key] for key in chain(*self.corpora.values())}
        yield from equal_labels(f"{where}.corpora", {key: params.label_of(key) for key in self.corpora})
        yield from equal_labels(f"{where}.corpora", {key: method.label for key, method in methods.items()})
        yield from equal_labels(f"{where}.backbones", {key: backbone.label for key, backbone in backbones.items()})

    @property
    def sides(self) -> dict[str, str]:
        """What comparisons may name: corpus/method → the method."""
        return {f"{corpus}/{method}": method for corpus, methods in self.corpora.items() for method in methods}

    @model_validator(mode="before")
    @classmethod
    def _written_out(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        corpora, methods, primary = (values.get(key) for key in ("corpora", "methods", "primary"))
        if isinstance(corpora, list) and isinstance(methods, list) and all(isinstance(name, str) for name in corpora):
            corpora = dict.fromkeys(each_once(corpora), methods)
            values = {**values, "corpora": corpora}
        elif isinstance(corpora, list):
            raise ValueError("corpora: a list of corpora needs methods: [...], those of each of them")
        elif isinstance(corpora, dict) and methods is not None:
            raise ValueError("methods: goes with a list of corpora; here corpora names the methods of each")
        if isinstance(corpora, dict) and isinstance(primary, list):
            values = {**values, "primary": _on_each(primary, corpora)}
        return values


def _on_each(pairs: list[Any], corpora: dict[str, Any]) -> list[Any]:
    """``pairs`` with each pair of methods expanded to every corpus that has both; other pairs are unchanged."""

    def alone(pair: Any) -> bool:
        return (
            isinstance(pair, list)
            and len(pair) == 2
            and all(isinstance(side, str) and "/" not in side for side in pair)
        )

    methods = {name: list(map(str, listed)) for name, listed in corpora.items() if isinstance(listed, list)}
    expanded = [
        [f"{corpus}/{side}" for side in pair]
        for corpus, listed in methods.items()
        for pair in pairs
        if alone(pair) and set(pair) <= set(listed)
    ]
    for pair in filter(alone, pairs):
        if not any(set(pair) <= set(listed) for listed in methods.values()):
            available = list(dict.fromkeys(name for listed in methods.values() for name in listed))
            raise ValueError(f"primary: [{', '.join(pair)}]: no corpus has both; its methods: {', '.join(available)}")
    return [*expanded, *(pair for pair in pairs if not alone(pair))]


def _both_or_neither(pairs: list[list[str]]) -> list[list[str]]:
    for pair in pairs:
        if len({"/" in side for side in pair}) > 1:
            raise ValueError(f"[{', '.join(pair)}] names a corpus on one side only; allowed: on both or neither")
    return pairs


class ProbeTable(OfMethods):
    """The runs in a table of linear probes, and the differences between them that it shows.

    ``contrasts``: pairs, the first minus the second: of methods within a corpus and backbone (where both exist), or, as
    ``[dense/mdc, single/mdc]``, of encoders of two corpora within a backbone. ``primary``: at most six comparisons, as
    ``[dense/mdc, dense/arc]``, on the first of ``backbones``; only these get a verdict (docs/statistics.md). ``encoders``: frozen
    external ones, probed for reference and not ranked. ``primary_metric``: the probe of the ``primary`` comparisons, or
    several, on each of which every one is claimed; by default the mean of the ``probes``, if all have one metric.
    ``reported_separately``: probes in columns that no average includes.
    """

    probes: ProbeNames
    reported_separately: Unique[ProbeName] = Field(default_factory=list)
    primary_metric: ProbeName | ProbeNames | None = None
    encoders: Unique[EncoderName] = Field(default_factory=list)
    contrasts: Annotated[Pairs[Annotated[Side, Ref("sides|methods", "method")]], AfterValidator(_both_or_neither)] = (
        Field(default_factory=list)
    )
    primary: Claims[OwnSide] = Field(default_factory=list)

    sections: ClassVar[tuple[str, ...]] = ("pretrain", "probe")
    #: whether claims are of the mean over columns, by default
    averaged: ClassVar[bool] = True
    #: whether an encoder has a row for each head
    by_head: ClassVar[bool] = False

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        for name in self.backbones:
            if isinstance(params.training.backbones.get(name), FrozenBackbone):
                yield f"{where}.backbones: {name} trains no encoder that could be probed; name its encoder (encoders)"
        yield from super().misfits(params, where)
        yield from equal_labels(f"{where}.probes", {key: params.data.probes[key].label for key in self.shown})

    def label_of(self, method: Method) -> str:
        """A method's label in its row."""
        return method.label

    def snapshots(self, recipe: Recipe) -> list[float]:
        """The shares of its steps after which a run of this ``recipe`` is shown, besides its end."""
        return []

    @property
    def shown(self) -> list[str]:
        """The probes of all columns."""
        return [*self.probes, *self.reported_separately]

    @property
    def head_names(self) -> list[str]:
        """The heads by which the encoders are probed."""
        return ["linear"]

    @model_validator(mode="after")
    def _columns(self) -> Self:
        each_once(self.shown)
        claimed = [self.primary_metric] if isinstance(self.primary_metric, str) else self.primary_metric or []
        if wrong := [name for name in claimed if name not in self.probes]:
            raise ValueError(f"primary_metric: {wrong[0]} is none of the probes; choose from {', '.join(self.probes)}")
        if len(claimed) * len(self.primary) > MOST_CLAIMS:
            raise ValueError(
                f"primary: {len(self.primary)} comparisons on {len(claimed)} probes (primary_metric) are "
                f"{len(claimed) * len(self.primary)} claims; at most {MOST_CLAIMS} are allowed"
            )
        return self


class MethodTable(ProbeTable):
    """A table of one backbone: a row for each method, a group of columns for each corpus, comparisons within a corpus."""

    backbones: Annotated[BackboneNames, Field(max_length=1)]
    contrasts: Pairs[MethodSide] = Field(default_factory=list)
    primary: Annotated[Claims[OwnSide], within("corpora, which only table1 does")] = Field(default_factory=list)
