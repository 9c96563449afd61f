"""The parameters of tables and figures of linear probes and other heads: runs, probes and comparisons."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

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
)
from mdc.plan.config.types import (
    Claims,
    Name,
    Pairs,
    Scored,
    Side,
    SomeUnique,
    Unique,
    WithClaims,
    each_once,
    within,
)


class OfMethods(WithClaims):
    """The runs of a table or figure: the methods of each corpus, or a list of ``corpora`` that have the same ``methods``.

    A pair of methods under ``primary`` is expanded to one for each corpus that has both.
    """

    corpora: Methods
    methods: MethodNames | None = None

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

    backbones: BackboneNames
    probes: ProbeNames
    reported_separately: Unique[ProbeName] = Field(default_factory=list)
    primary_metric: ProbeName | None = None
    encoders: Unique[EncoderName] = Field(default_factory=list)
    contrasts: Annotated[Pairs[Annotated[Side, Ref("sides|methods", "method")]], AfterValidator(_both_or_neither)] = (
        Field(default_factory=list)
    )
    primary: Claims[OwnSide] = Field(default_factory=list)

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


class RatioFigure(MethodTable):
    """Figure 4: methods with a fixed mask ratio, beside others, in one panel for each corpus."""


class PairsFigure(MethodTable):
    """Figure 5: methods over corpora of different numbers of pairs, compared by the trend of each method.

    ``trends``: methods with the claim that more pairs raise the accuracy; only these get a verdict.
    """

    corpora: Annotated[Methods, Field(min_length=2)]
    trends: Annotated[list[Name], Field(max_length=6), AfterValidator(each_once)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _no_contrasts(self) -> Self:
        for key, pairs in (("contrasts", self.contrasts), ("primary", self.primary)):
            if pairs:
                raise ValueError(
                    f"{key}: this figure compares the corpora of a method by their trend alone; leave it out"
                )
        for name in self.trends:
            if sum(name in methods for methods in self.corpora.values()) < 2:
                raise ValueError(f"trends: {name} is in fewer than two corpora, so it has no trend")
        return self


class RepetitionFigure(MethodTable):
    """Corpora of the same pairs repeated more often, and of more pairs; the numbers of samples seen are read from their runs."""

    corpora: Annotated[Methods, Field(min_length=2)]


class ConvergenceFigure(MethodTable):
    """Accuracy over training: the snapshots of the runs (pretrain.recipe.snapshots) and their last weights.

    ``contrasts`` are shown after each share of the steps; ``primary`` is tested at the share ``claimed_at``.
    """

    claimed_at: Annotated[float, Field(gt=0, le=1)] = 1.0
