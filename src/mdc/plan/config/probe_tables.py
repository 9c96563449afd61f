"""The parameters of tables and figures of linear probes and other heads: runs, probes and comparisons."""

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from mdc.plan.config.backbones import Backbone, FrozenBackbone
from mdc.plan.config.encoders import OpenClipTower, TimmTower
from mdc.plan.config.method import Method
from mdc.plan.config.pretrain import Recipe
from mdc.plan.config.references import (
    BackboneNames,
    EncoderName,
    HeadName,
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
    Claims,
    Pairs,
    Parameters,
    Scored,
    Side,
    SomeUnique,
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
    external ones, probed for reference and not ranked. ``primary_metric``: the probe of the ``primary`` comparisons; by default
    the mean of several. ``reported_separately``: probes in columns that no average includes.
    """

    probes: ProbeNames
    reported_separately: Unique[ProbeName] = Field(default_factory=list)
    primary_metric: ProbeName | None = None
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
        if self.primary_metric is not None and self.primary_metric not in self.probes:
            raise ValueError(
                f"primary_metric: {self.primary_metric} is none of the probes; choose from {', '.join(self.probes)}"
            )
        return self


class HeadTable(ProbeTable):
    """A table of one backbone by several ``heads``: ``linear`` or those of the scale's ``probe``. ``contrasts``: pairs of
    methods, within a corpus and by each head. ``primary``: pairs of corpus/method/head. ``zero_shot``: add the columns of the
    scale's ``table_zero_shot``, for the rows that both tables have."""

    backbones: Annotated[BackboneNames, Field(max_length=1)]
    heads: SomeUnique[HeadName]
    contrasts: Pairs[MethodSide] = Field(default_factory=list)
    primary: Claims[Annotated[Scored, Ref("by_heads", "corpus/method/head of this table")]] = Field(
        default_factory=list
    )
    zero_shot: bool = False

    by_head = True

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        """Attention needs patch tokens and a feature of their width, k neighbours as many training items."""
        yield from super().misfits(params, where)
        if self.zero_shot and "table_zero_shot" not in params.tables:
            yield f"{where}.zero_shot: the scale classifies nothing zero-shot; name table_zero_shot, or leave it out"
        every = params.probe.every if params.probe else {}
        heads = {name: every[name] for name in self.heads}
        labels = {key: head.label if head else "linear probe" for key, head in heads.items()}
        yield from equal_labels(f"{where}.heads", labels)
        entries = {name: params.encoders[name] for name in self.encoders}
        trained = {name: params.training.backbones[name] for name in self.backbones}
        counts = {name: entry.tokens for name, entry in entries.items()}
        counts |= {name: (b.image_size // b.patch_size) ** 2 for name, b in trained.items() if isinstance(b, Backbone)}
        if any(head is not None and head.kind == "attentive" for head in heads.values()):
            for name in (name for name, count in counts.items() if count < 2):
                yield f"{where}.heads: {name} gives one vector an image and no patch tokens, so it can have no attentive probe"
            for name, entry in entries.items():
                if isinstance(entry, OpenClipTower | TimmTower) and not entry.pooled:
                    said = f"a feature of {name} that is as wide as its tokens; set encoders.{name}.pooled: true"
                    yield f"{where}.encoders: an attentive probe needs {said}"
        for key, head in heads.items():
            if head is None or head.kind != "knn":
                continue
            for name in self.shown:
                train = getattr(params.data.probes[name].source, "train", None)
                if isinstance(train, int) and train < head.k:
                    said = f"{name} has {train} training items, and k = {head.k} neighbours are asked for"
                    yield f"{where}.heads: {key}: {said}"

    @property
    def head_names(self) -> list[str]:
        return list(self.heads)

    @property
    def by_heads(self) -> dict[str, str]:
        """What claims may name: corpus/method/head → the head."""
        return {f"{side}/{head}": head for side in self.sides for head in self.heads}


class MethodTable(ProbeTable):
    """A table of one backbone: a row for each method, a group of columns for each corpus, comparisons within a corpus."""

    backbones: Annotated[BackboneNames, Field(max_length=1)]
    contrasts: Pairs[MethodSide] = Field(default_factory=list)
    primary: Annotated[Claims[OwnSide], within("corpora, which only table1 does")] = Field(default_factory=list)


class ScheduleTable(MethodTable):
    """Table 5: one objective under several ranges of t. The others are compared with the last method of a corpus."""

    def label_of(self, method: Method) -> str:
        """MDC's range of t, as in the paper."""
        by_range = getattr(method, "weight", None) == "inverse_t"
        return str(list(method.masked_share or ())) if by_range else method.label

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        """A row is a range of t."""
        yield from super().misfits(params, where)
        for corpus, listed in self.corpora.items():
            seen: dict[object, str] = {}
            for name in listed:
                if (share := params.methods[name].masked_share) is None:
                    yield f"{where}.corpora.{corpus}: {name} has no t_range; only masked methods have"
                elif seen.setdefault(share, name) != name:
                    yield f"{where}.corpora.{corpus}: {seen[share]} and {name} have the same t_range"

    @property
    def reference(self) -> str:
        """The last method of every corpus."""
        return next(iter(self.corpora.values()))[-1]

    @model_validator(mode="after")
    def _one_reference(self) -> Self:
        for corpus, methods in self.corpora.items():
            if methods[-1] != self.reference:
                raise ValueError(
                    f"corpora.{corpus} ends with {methods[-1]}, the first corpus with {self.reference}; the method that the "
                    "others are compared with must be the last of each"
                )
        return self
