"""The tables and figures of a scale, one class for each. All are optional; what a scale does not name is not made."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from mdc.config.types import Name, Names, Side, SidePair, Strict, each_once, pairs_once, sides_stand


class ProbeTable(Strict):
    """The runs in a table of linear probes, and the differences between them that it shows.

    ``contrasts``: pairs, the first minus the second: of methods within a corpus and backbone (where both stand), or, as
    ``[dense/mdc, single/mdc]``, of encoders of two corpora within a backbone. ``primary``: at most six comparisons, as
    ``[dense/mdc, dense/arc]``, on the first of ``backbones``, which alone get a verdict (docs/statistics.md).
    """

    corpora: Annotated[dict[Name, Names], Field(min_length=1)]
    backbones: Names
    probes: Names
    contrasts: list[SidePair] = Field(default_factory=list)
    primary: Annotated[list[SidePair], Field(max_length=6)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _sides_stand(self) -> Self:
        sides_stand("contrasts", self.contrasts, self.corpora)
        sides_stand("primary", self.primary, self.corpora)
        pairs_once("contrasts", self.contrasts)
        pairs_once("primary", self.primary)
        for pair in self.primary:
            if "/" not in pair[0]:
                raise ValueError(f"primary: [{', '.join(pair)}] must name both sides as corpus/method")
        return self


class MethodTable(ProbeTable):
    """A table of one backbone: a row for each method, a group of columns for each corpus, comparisons within a corpus."""

    backbones: Annotated[Names, Field(max_length=1)]

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

    corpora: Annotated[dict[Name, Names], Field(min_length=2)]
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


class Figure3(Strict):
    """Figure 3: the corpora, the sets of captions without images (``texts``), or both, whose caption lengths are drawn."""

    corpora: Annotated[list[Name], AfterValidator(each_once)] = Field(default_factory=list)
    texts: Annotated[list[Name], AfterValidator(each_once)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_at_least(self) -> Self:
        if not self.corpora and not self.texts:
            raise ValueError("corpora and texts are both empty; name a corpus (data.corpora) or captions (data.texts)")
        return self


class RecipeTable(Strict):
    """Tables 6 to 8: how Table 1's runs of one backbone are trained."""

    backbone: Name


class LossFigure(Strict):
    """The logs of all runs that the scale's tables and figures need. ``corpora`` and ``backbones`` can add more runs."""

    corpora: dict[Name, Names] = Field(default_factory=dict)
    backbones: list[Name] = Field(default_factory=list)

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if bool(self.corpora) != bool(self.backbones):
            raise ValueError("corpora and backbones go together: name both, or neither")
        return self


class ScheduleFigure(Strict):
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


class Plain(Strict):
    """A table or figure that has nothing to choose: name it with {}."""


class Tables(Strict):
    table1: ProbeTable | None = None
    table4: MethodTable | None = None
    table5: ScheduleTable | None = None
    table6: RecipeTable | None = None
    table7: RecipeTable | None = None
    table8: RecipeTable | None = None
    table9: Plain | None = None
    figure3: Figure3 | None = None
    figure4: RatioFigure | None = None
    figure5: PairsFigure | None = None
    figure_loss: LossFigure | None = None
    figure_schedules: ScheduleFigure | None = None

    def named(self) -> dict[str, Strict]:
        """What the scale names, in the order of the classes above."""
        return {name: table for name in type(self).model_fields if (table := getattr(self, name)) is not None}

    def training(self) -> dict[str, ProbeTable | LossFigure | RecipeTable]:
        """Of these, those that speak of runs."""
        kinds = ProbeTable | LossFigure | RecipeTable
        return {name: table for name, table in self.named().items() if isinstance(table, kinds)}

    def probing(self) -> dict[str, ProbeTable]:
        """Of these, the tables and figures of linear probes."""
        return {name: table for name, table in self.named().items() if isinstance(table, ProbeTable)}
