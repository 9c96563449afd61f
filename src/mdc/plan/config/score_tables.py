"""The parameters of tables and figures that are made from scores of captions."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from mdc.plan.config.probe_tables import OfMethods
from mdc.plan.config.references import (
    BackboneNames,
)
from mdc.plan.config.types import (
    Claims,
    Pairs,
    Scored,
    SomeUnique,
    unknown,
)


class OfScores(OfMethods):
    """A table of scores: its runs, their weights, and the claims.

    ``weights``: a run's last, its best on held-out pairs, or both. ``contrasts`` and ``primary``:
    pairs of corpus/method/estimator, the first minus the second, on the first of ``backbones`` and of ``weights``; at most
    six are primary and get a verdict.
    """

    backbones: Annotated[BackboneNames, Field(max_length=1)]
    weights: SomeUnique[Literal["last", "best"]] = Field(default=["last"])
    contrasts: Pairs[Scored] = Field(default_factory=list)
    primary: Claims[Scored] = Field(default_factory=list)

    sections: ClassVar[tuple[str, ...]] = ("pretrain", "score")

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        yield from super().misfits(params, where)
        yield from cannot_score(params, self.corpora, where)
        sides = [
            f"{corpus}/{name}/{estimator}"
            for corpus, listed in self.corpora.items()
            for name in listed
            for estimator in params.methods[name].estimators
        ]
        for key, pairs in (("contrasts", self.contrasts), ("primary", self.primary)):
            named = [*chain.from_iterable(pairs)]
            yield from unknown(f"{where}.{key}", named, sides, "corpus/method/estimator of this table")


def cannot_score(params: Any, corpora: Mapping[str, list[str]], where: str) -> Iterator[str]:
    """A line for each method of ``corpora`` that has no estimator."""
    for corpus, listed in corpora.items():
        for name in (name for name in listed if not params.methods[name].estimators):
            yield f"{where}.corpora.{corpus}: {name} ({params.methods[name].objective}) cannot score captions"
