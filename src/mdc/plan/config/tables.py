"""What may be asked of the tables and figures of a scale, a class for each kind. What a scale does not name is not made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from mdc.plan.artefacts import ARTEFACTS, KINDS, Artefact, declared
from mdc.plan.config.caption_table import (
    CaptionExamplesOf,
    CaptionTable,
    CaptionView,
    GuidanceFigure,
    RobustnessFigure,
)
from mdc.plan.config.problems import short
from mdc.plan.config.references import (
    BackboneName,
    BackboneNames,
    ChoicesNames,
    CorpusName,
    EncoderName,
    HeadName,
    MethodName,
    MethodNames,
    Methods,
    ProbeName,
    ProbeNames,
    TextsName,
    TrainedOn,
)
from mdc.plan.config.score import OpenClipModel
from mdc.plan.config.types import (
    MOST_CLAIMS,
    Name,
    Positive,
    ScoredPair,
    Side,
    SidePair,
    Strict,
    WithClaims,
    check_reference,
    check_scored,
    check_sides_exist,
    each_once,
    pairs_once,
)


class OfMethods(WithClaims):
    """The runs of a table or figure: the methods of each corpus, or a list of ``corpora`` that have the same ``methods``.

    A pair of methods under ``primary`` stands for one on each corpus that has both.
    """

    corpora: Methods
    methods: MethodNames | None = None

    @model_validator(mode="before")
    @classmethod
    def _written_out(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        corpora, methods, primary = (values.get(key) for key in ("corpora", "methods", "primary"))
        if isinstance(corpora, list) and isinstance(methods, list) and all(isinstance(one, str) for one in corpora):
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
    """``pairs`` with those of methods alone on each corpus that has both, corpus by corpus; any other as it is."""

    def alone(pair: Any) -> bool:
        return (
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, str) and "/" not in one for one in pair)
        )

    methods = {name: list(map(str, listed)) for name, listed in corpora.items() if isinstance(listed, list)}
    found = [
        [f"{corpus}/{side}" for side in pair]
        for corpus, listed in methods.items()
        for pair in pairs
        if alone(pair) and set(pair) <= set(listed)
    ]
    for pair in filter(alone, pairs):
        if not any(set(pair) <= set(listed) for listed in methods.values()):
            there = list(dict.fromkeys(one for listed in methods.values() for one in listed))
            raise ValueError(
                f"primary: [{', '.join(pair)}] stands on no corpus together; its methods: {', '.join(there)}"
            )
    return [*found, *(pair for pair in pairs if not alone(pair))]


class ProbeTable(OfMethods):
    """The runs in a table of linear probes, and the differences between them that it shows.

    ``contrasts``: pairs, the first minus the second: of methods within a corpus and backbone (where both stand), or, as
    ``[dense/mdc, single/mdc]``, of encoders of two corpora within a backbone. ``primary``: at most six comparisons, as
    ``[dense/mdc, dense/arc]``, on the first of ``backbones``, which alone get a verdict (docs/statistics.md).
    ``encoders``: of others, probed beside the runs for orientation and not ranked. ``claimed``: the probe that ``primary`` is
    about; by default the mean of several. ``reported_separately``: probes in columns of their own that no average counts.
    """

    backbones: BackboneNames
    probes: ProbeNames
    reported_separately: Annotated[list[ProbeName], AfterValidator(each_once)] = Field(default_factory=list)
    claimed: ProbeName | None = None
    encoders: Annotated[list[EncoderName], AfterValidator(each_once)] = Field(default_factory=list)
    contrasts: list[SidePair] = Field(default_factory=list)
    primary: Annotated[list[SidePair], Field(max_length=MOST_CLAIMS)] = Field(default_factory=list)

    @property
    def shown(self) -> list[str]:
        """The probes of all columns."""
        return [*self.probes, *self.reported_separately]

    @property
    def asked(self) -> list[str]:
        """By which heads the encoders are probed."""
        return ["linear"]

    @model_validator(mode="after")
    def _sides_stand(self) -> Self:
        each_once(self.shown)
        if self.claimed is not None and self.claimed not in self.probes:
            raise ValueError(f"claimed: {self.claimed} is none of the probes; choose from {', '.join(self.probes)}")
        check_sides_exist("contrasts", self.contrasts, self.corpora)
        pairs_once("contrasts", self.contrasts)
        pairs_once("primary", self.primary)
        self._claims()
        return self

    def _claims(self) -> None:
        check_sides_exist("primary", self.primary, self.corpora)
        for pair in self.primary:
            if "/" not in pair[0]:
                raise ValueError(f"primary: [{', '.join(pair)}] must name both sides as corpus/method")


class HeadTable(ProbeTable):
    """A table of one backbone by ``heads``, ``linear`` or those of the scale's ``probe``: what an encoder knows, by how it is
    asked. ``contrasts``: pairs of methods, within a corpus and by each head. ``primary``: pairs of corpus/method/head."""

    backbones: Annotated[BackboneNames, Field(max_length=1)]
    heads: Annotated[list[HeadName], Field(min_length=1), AfterValidator(each_once)]
    primary: Annotated[list[ScoredPair], Field(max_length=MOST_CLAIMS)] = Field(default_factory=list)

    @property
    def asked(self) -> list[str]:
        """See :class:`ProbeTable`."""
        return list(self.heads)

    def _claims(self) -> None:
        for pair in self.contrasts:
            if "/" in "".join(pair):
                raise ValueError(
                    f"contrasts: [{', '.join(pair)}]: they stand on each corpus and for each head; name methods alone"
                )
        check_scored("primary", self.primary, self.corpora, f"one of its heads ({', '.join(self.heads)})")
        for side in (side for pair in self.primary for side in pair):
            if side.rpartition("/")[2] not in self.heads:
                raise ValueError(f"primary: {side}: no head of this table; allowed: {', '.join(self.heads)}")


class MethodTable(ProbeTable):
    """A table of one backbone: a row for each method, a group of columns for each corpus, comparisons within a corpus."""

    backbones: Annotated[BackboneNames, Field(max_length=1)]

    @model_validator(mode="after")
    def _within_a_corpus(self) -> Self:
        for pair in self.contrasts:
            if "/" in "".join(pair):
                raise ValueError(
                    f"contrasts: [{', '.join(pair)}] compares corpora, which only table1 does; name methods alone"
                )
        for pair in self.primary:
            if len({side.rpartition("/")[0] for side in pair}) > 1:
                raise ValueError(f"primary: [{', '.join(pair)}] compares corpora, which only table1 does")
        return self


class ScheduleTable(MethodTable):
    """Table 5: one objective under several ranges of t. The others are compared with the last method of a corpus."""

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
    """Figure 4: methods that mask a fixed share of every caption, beside others, in one panel for each corpus."""


class PairsFigure(MethodTable):
    """Figure 5: methods over corpora of different numbers of pairs. What it compares is the trend of each method.

    ``trends``: methods of which it is claimed that more pairs raise the accuracy; these alone get a verdict.
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
                raise ValueError(f"trends: {name} stands in fewer than two corpora, so it has no trend")
        return self


class RepetitionFigure(MethodTable):
    """Corpora of the same pairs seen more and more often, and of more and more pairs; what was seen is read from their runs."""

    corpora: Annotated[Methods, Field(min_length=2)]


class ConvergenceFigure(MethodTable):
    """How soon methods are good: the snapshots that the recipes of its runs ask for (pretrain.recipe.snapshots), and their ends.

    ``contrasts`` are shown after each share of the steps; ``primary`` is about the share ``claimed_at``.
    """

    claimed_at: Annotated[float, Field(gt=0, le=1)] = 1.0


WhichWeights = Literal["last", "best"]


def _last() -> list[WhichWeights]:
    return ["last"]


class _OfScores(OfMethods):
    """What is read from scores: the runs it shows, of which weights, and the claims about them.

    ``weights``: the last ones of a run, those that were best on held-out pairs, or both. ``contrasts`` and ``primary``:
    pairs of corpus/method/estimator, the first minus the second, on the first of ``backbones`` and of ``weights``; at most
    six are primary and get a verdict.
    """

    backbones: Annotated[BackboneNames, Field(max_length=1)]
    weights: Annotated[list[WhichWeights], Field(min_length=1), AfterValidator(each_once)] = Field(
        default_factory=_last
    )
    contrasts: list[ScoredPair] = Field(default_factory=list)
    primary: Annotated[list[ScoredPair], Field(max_length=MOST_CLAIMS)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _claims(self) -> Self:
        pairs_once("contrasts", self.contrasts)
        pairs_once("primary", self.primary)
        for key, pairs in (("contrasts", self.contrasts), ("primary", self.primary)):
            check_scored(key, pairs, self.corpora, "an estimator")
        return self


PairScore = Literal["text", "image", "group"]


class ChoiceColumn(Strict):
    """A column of Table 2: ``sets`` of data.choices. What it is the mean over, its benchmark decides
    (:class:`mdc.plan.config.choice_sources.Parts`). ``ties``: a tie among k best options counts 1/k (shared), or as an argmax
    has it where the right option stands first (right) or last (wrong), which is no part of the average.

    ``score``: Winoground's, of sets whose items have two images and two captions: whether each image's own caption scores higher
    (text), each caption's own image (image), or both (group). Such a column is no part of the average either, and no tie counts.
    """

    label: str
    sets: ChoicesNames
    ties: Literal["shared", "right", "wrong"] = "shared"
    score: PairScore | None = None

    @model_validator(mode="after")
    def _no_ties(self) -> Self:
        if self.score is not None and self.ties != "shared":
            raise ValueError(f"ties = {self.ties}: goes with no score of pairs, in which an equal score is not higher")
        return self


class ChoiceTable(_OfScores):
    """Table 2: compositionality. ``open_clip``: models of others as rows. ``alphas``: which shares of a blind score are tried
    on held-out pairs, to be taken off. ``also``: runs on other backbones as rows, {backbone: {corpus: methods}}; what is
    compared is of ``backbones``."""

    also: dict[BackboneName, Methods] = Field(default_factory=dict)
    columns: Annotated[dict[Name, ChoiceColumn], Field(min_length=1)]
    open_clip: dict[Name, OpenClipModel] = Field(default_factory=dict)
    alphas: Annotated[list[Annotated[float, Field(ge=0, le=2)]], Field(min_length=2)]

    @property
    def sets(self) -> list[str]:
        """The choice sets of all columns, each once."""
        return list(dict.fromkeys(name for column in self.columns.values() for name in column.sets))


class RetrievalTable(_OfScores):
    """Retrieval among ``pairs`` held-out pairs of each run's own corpus, by score."""

    pairs: Annotated[int, Field(ge=10)]


class ZeroShotTable(_OfScores):
    """Zero-shot classification of single-label ``probes`` by the score of each class's caption (``class_captions``).

    ``images``: so many test images of each probe, evenly spread; by default all. ``samples``: masks of the estimators that draw
    them, by default as many as the section ``score`` has.
    """

    probes: ProbeNames
    images: Annotated[int, Field(ge=10)] | None = None
    samples: Annotated[int, Field(ge=16, le=2**20, multiple_of=16)] | None = None


class PositionFigure(OfMethods):
    """What the image tells about a token, by its position, on ``captions`` held-out captions of each corpus.

    ``gradient_captions`` of them, with ``gradient_draws`` masks each: the learning signal. ``bins``: of relative position.
    ``margin``: in nats, what counts as a difference. ``primary``: methods (corpus/method) whose fall from
    the first to the last third of a caption is claimed to be smaller than that of the corpus's ``reference``.
    ``function_words``: pairs of methods of one corpus of the embedded world; it is claimed that such words give the first
    more of its learning signal than the second.
    """

    backbones: Annotated[BackboneNames, Field(max_length=1)]
    reference: MethodName
    captions: Annotated[int, Field(ge=10)]
    gradient_captions: Positive
    gradient_draws: Positive
    bins: Annotated[int, Field(ge=3, le=50)]
    margin: Annotated[float, Field(gt=0)]
    primary: Annotated[list[Side], Field(max_length=MOST_CLAIMS), AfterValidator(each_once)] = Field(
        default_factory=list
    )
    function_words: list[SidePair] = Field(default_factory=list)

    @model_validator(mode="after")
    def _claims(self) -> Self:
        pairs_once("function_words", self.function_words)
        there = [f"{corpus}/{method}" for corpus, methods in self.corpora.items() for method in methods]
        for pair in self.function_words:
            for side in pair:
                check_reference("function_words", side, dict.fromkeys(there), "method of this figure (corpora)")
            if len({side.rpartition("/")[0] for side in pair}) > 1:
                raise ValueError(f"function_words: [{', '.join(pair)}] compares corpora, whose captions differ")
        if (count := len(self.primary) + len(self.function_words)) > MOST_CLAIMS:
            raise ValueError(f"primary and function_words are {count} claims, allowed: {MOST_CLAIMS}; name fewer")
        for corpus, methods in self.corpora.items():
            if self.reference not in methods:
                raise ValueError(
                    f"corpora.{corpus}: lacks {self.reference}, which the others are held against (reference)"
                )
        for side in self.primary:
            corpus, _, method = side.rpartition("/")
            if method not in self.corpora.get(corpus, []) or method == self.reference:
                there = [f"{c}/{m}" for c, methods in self.corpora.items() for m in methods if m != self.reference]
                raise ValueError(f"primary: {side} is not held against {self.reference}; allowed: {', '.join(there)}")
        return self


class Figure3(Strict):
    """Figure 3: the corpora, the sets of captions without images (``texts``), or both, whose caption lengths are drawn."""

    corpora: Annotated[list[CorpusName], AfterValidator(each_once)] = Field(default_factory=list)
    texts: Annotated[list[TextsName], AfterValidator(each_once)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_at_least(self) -> Self:
        if not self.corpora and not self.texts:
            raise ValueError("corpora and texts are both empty; name a corpus (data.corpora) or captions (data.texts)")
        return self


class CostTable(Strict):
    """What trainings and captions cost. ``datasets``: of those that Table 3, ``claims`` and ``mc_diffusion`` caption, by all
    their systems."""

    corpora: dict[TrainedOn, MethodNames]
    backbones: BackboneNames
    datasets: Annotated[list[Name], AfterValidator(each_once)] = Field(default_factory=list)


class RecipeTable(Strict):
    """Tables 6 to 8: how Table 1's runs of one backbone are trained."""

    backbone: Name


class LossFigure(Strict):
    """The logs of all runs that the scale's tables and figures need. ``corpora`` and ``backbones`` can add more runs."""

    corpora: dict[TrainedOn, MethodNames] = Field(default_factory=dict)
    backbones: list[BackboneName] = Field(default_factory=list)

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if bool(self.corpora) != bool(self.backbones):
            raise ValueError("corpora and backbones go together: name both, or neither")
        return self


class ScheduleFigure(WithClaims):
    """How steadily the schedules of Table 5 train.

    ``primary``: at most three of them, as corpus/method, of which it is claimed that their loss and their gradient norm vary
    more than those of the table's last method; these six comparisons alone get a verdict.
    """

    primary: Annotated[list[Side], Field(max_length=3), AfterValidator(each_once)] = Field(default_factory=list)

    def stands_in(self, table: ScheduleTable, where: str) -> None:
        """ValueError for what the table does not compare."""
        there = [f"{corpus}/{method}" for corpus, methods in table.corpora.items() for method in methods[:-1]]
        for side in self.primary:
            if side not in there:
                allowed = ", ".join(there) or "nothing"
                raise ValueError(
                    f"{where}figure_schedules.primary: {side} is not compared in table5; allowed: {allowed}"
                )


OneTable = TypeVar("OneTable", bound=Strict)
#: what shows a part of a section of captions
ShownInPart = CaptionView | CaptionExamplesOf | GuidanceFigure | RobustnessFigure
#: what is made from scores
ScoreTable = ChoiceTable | RetrievalTable | ZeroShotTable | PositionFigure


class LicenceTable(Strict):
    """Table 9: the licences of the datasets that the scale uses, or of ``all`` that the registry knows."""

    all: bool = False


class Plain(Strict):
    """A table or figure that has nothing to choose: name it with {}."""


class Tables(dict[str, Strict]):
    """The tables and figures that a scale names: of each what is asked of it, and under ``artefacts`` what it declares.

    A name is that of an artefact, or one's own beside the ``kind`` and the ``title`` of one more of a kind.
    """

    def __init__(self) -> None:
        self.artefacts: dict[str, Artefact] = {}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(cls._read, handler(dict[Name, Any]))

    @classmethod
    def _read(cls, values: Mapping[str, Any]) -> Self:
        found, wrong = cls(), list[Any]()
        for name, value in values.items():
            if value is None:
                continue
            try:
                artefact, asked = _declared(name, value)
                found[name] = artefact.load("config").model_validate(asked)
                found.artefacts[name] = artefact
            except ValidationError as error:
                wrong += [{**one, "loc": (name, *one["loc"])} for one in error.errors(include_url=False)]
            except ValueError as error:
                wrong.append({"type": "value_error", "loc": (name,), "input": value, "ctx": {"error": error}})
        if wrong:
            raise ValidationError.from_exception_data("tables", wrong)
        return found

    def the(self, kind: type[OneTable]) -> OneTable | None:
        """The one of a class of which there can be no other."""
        return next((table for table in self.values() if type(table) is kind), None)

    def at(self, name: str, kind: type[OneTable]) -> OneTable:
        """The one of this name, which is of this class."""
        table = self[name]
        assert isinstance(table, kind)
        return table

    def training(self) -> dict[str, ProbeTable | LossFigure | CostTable | RecipeTable | ScoreTable | CaptionTable]:
        """Those that show runs."""
        kinds = ProbeTable | LossFigure | CostTable | RecipeTable | ScoreTable | CaptionTable
        return {name: table for name, table in self.items() if isinstance(table, kinds)}

    def of_captions(self) -> dict[str, ShownInPart]:
        """Those that show a part of the captions of a section of the scale (``mc_diffusion``, ``claims``)."""
        return {name: table for name, table in self.items() if isinstance(table, ShownInPart)}

    def scoring(self) -> dict[str, ScoreTable]:
        """Those that are made from scores of captions."""
        return {name: table for name, table in self.items() if isinstance(table, ScoreTable)}

    def probing(self) -> dict[str, ProbeTable]:
        """The tables and figures of linear probes."""
        return {name: table for name, table in self.items() if isinstance(table, ProbeTable)}


def with_usual(tables: Any, usual: Mapping[str, Any]) -> Any:
    """``tables`` as a scale has them, each with the ``usual`` value of every key that it needs and lacks; what is no table is
    left for :class:`Tables` to tell of."""
    if not isinstance(tables, dict):
        return tables
    found = {}
    for name, asked in tables.items():
        if isinstance(asked, dict):
            with suppress(ValueError):
                fields = _declared(name, asked)[0].load("config").model_fields
                needed = [key for key in usual if key in fields and fields[key].is_required()]
                asked = {**{key: usual[key] for key in needed}, **asked}
        found[name] = asked
    return found


def _declared(name: str, asked: Any) -> tuple[Artefact, Any]:
    """The declaration behind a name of a scale's tables, and its own parameters. ValueError if there is none."""
    if not isinstance(asked, dict) or "kind" not in asked:
        if name not in ARTEFACTS:
            raise ValueError(f"no table or figure is called so; one of your own has a kind: {', '.join(KINDS)}")
        return ARTEFACTS[name], asked
    own = {key: value for key, value in asked.items() if key not in ("kind", "title")}
    kind, title = asked["kind"], asked.get("title")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"kind = {short(kind)}: allowed: {', '.join(KINDS)}")
    if not isinstance(title, str) or not title:
        raise ValueError("title: one line is needed, which says what it shows")
    artefact = declared(name, kind, title)
    start = artefact.category.lower().removesuffix("s")
    if name in ARTEFACTS or not is_free_name(name, start):
        raise ValueError(f"no free name; {start}_ (of MC-Diffusion mcd_) and small letters, digits or _ make one")
    return artefact, own


def is_free_name(name: str, start: str = "table|figure") -> bool:
    """Whether a scale may call a table or figure of its own so, which begins with ``start``."""
    return re.fullmatch(f"({start}|mcd)_[a-z0-9_]+", name) is not None
