"""What may be asked of the tables and figures of a scale, a class for each kind. What a scale does not name is not made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Self, TypeVar

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
from mdc.plan.config.probe_tables import ProbeTable
from mdc.plan.config.problems import short
from mdc.plan.config.references import (
    BackboneName,
    BackboneNames,
    CorpusName,
    MethodNames,
    TextsName,
    TrainedOn,
)
from mdc.plan.config.score_tables import ChoiceTable, PositionFigure, RetrievalTable, ZeroShotTable
from mdc.plan.config.types import Name, Side, Strict, Unique, WithClaims, each_once


class Figure3(Strict):
    """Figure 3: the corpora, the sets of captions without images (``texts``), or both, whose caption lengths are drawn."""

    corpora: Unique[CorpusName] = Field(default_factory=list)
    texts: Unique[TextsName] = Field(default_factory=list)

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
    datasets: Unique[Name] = Field(default_factory=list)


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
