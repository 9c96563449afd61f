"""The parameters of tables and figures that are made from scores of captions."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.choice_sources import PAIRED
from mdc.plan.config.probe_tables import OfMethods
from mdc.plan.config.references import (
    BackboneName,
    BackboneNames,
    ChoicesNames,
    MethodName,
    Methods,
    OwnSide,
    Ref,
)
from mdc.plan.config.score import OpenClipModel
from mdc.plan.config.types import (
    MOST_CLAIMS,
    Claims,
    Name,
    Pairs,
    Positive,
    Scored,
    Side,
    SomeUnique,
    Strict,
    Unique,
    equal_labels,
    unknown,
    within,
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


class ChoiceColumn(Strict):
    """A column of Table 2: ``sets`` of data.choices, averaged as their benchmark does
    (:class:`mdc.plan.config.choice_sources.Parts`). ``ties``: a tie among k best options counts 1/k (shared), or as by an argmax
    if the right option comes first (right) or last (wrong); the average leaves out columns of the latter two.

    ``score``: Winoground's, for sets whose items have two images and two captions: whether each image's own caption scores higher
    (text), each caption's own image (image), or both (group). The average leaves out such a column too, and ties do not count.
    """

    label: str
    sets: ChoicesNames
    ties: Literal["shared", "right", "wrong"] = "shared"
    score: Literal["text", "image", "group"] | None = None

    @model_validator(mode="after")
    def _no_ties(self) -> Self:
        if self.score is not None and self.ties != "shared":
            raise ValueError(f"ties = {self.ties}: goes with no score of pairs, in which an equal score is not higher")
        return self


class ChoiceTable(OfScores):
    """Table 2: compositionality. ``open_clip``: external models as rows. ``language_prior_weights``: the candidates for the
    weight α of the mismatched-image score that is subtracted, chosen on held-out pairs. ``also``: runs on other backbones as
    rows, {backbone: {corpus: methods}}; comparisons are on ``backbones``."""

    also: dict[BackboneName, Methods] = Field(default_factory=dict)
    columns: Annotated[dict[Name, ChoiceColumn], Field(min_length=1)]
    open_clip: dict[Name, OpenClipModel] = Field(default_factory=dict)
    language_prior_weights: Annotated[list[Annotated[float, Field(ge=0, le=2)]], Field(min_length=2)]

    @property
    def trained(self) -> dict[str, dict[str, list[str]]]:
        return super().trained | self.also

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        for name in (name for name in self.also if name in self.backbones):
            yield f"{where}.also: {name} is already in backbones"
        yield from self._columns_of_pairs(params, where)
        yield from super().misfits(params, where)
        yield from equal_labels(f"{where}.columns", {key: column.label for key, column in self.columns.items()})

    def _columns_of_pairs(self, params: Any, where: str) -> Iterator[str]:
        """Winoground's scores need sets whose items have two images, and another column for the average."""
        scored = {key: column for key, column in self.columns.items() if column.score is not None}
        for key, column in scored.items():
            for name in column.sets:
                source = params.data.choices[name].source
                if not isinstance(source, PAIRED):
                    said = f"items of two images and two captions, and data.choices.{name} is of the kind {source.kind}"
                    yield f"{where}.columns.{key}.score = {column.score}: needs {said}"
        if len(scored) == len(self.columns):
            yield f"{where}.columns: all have a score of pairs, of which there is no average; name another column too"

    @property
    def sets(self) -> list[str]:
        """The choice sets of all columns, each once."""
        return list(dict.fromkeys(name for column in self.columns.values() for name in column.sets))


class PositionFigure(OfMethods):
    """The image's information about a token, by position, on ``captions`` held-out captions of each corpus.

    ``gradient_captions`` of them, with ``gradient_draws`` masks each, measure the learning signal. ``bins``: of relative
    position. ``margin``: the equivalence margin in nats. ``primary``: methods (corpus/method), with the claim that their decrease
    from the first to the last third of a caption is smaller than that of the corpus's ``reference``. ``function_words``: pairs of
    methods of one corpus of the built-in world, with the claim that function words have a larger share of the first one's
    learning signal.
    """

    backbones: Annotated[BackboneNames, Field(max_length=1)]
    reference: MethodName
    captions: Annotated[int, Field(ge=10)]
    gradient_captions: Positive
    gradient_draws: Positive
    bins: Annotated[int, Field(ge=3, le=50)]
    margin: Annotated[float, Field(gt=0)]
    primary: Annotated[
        Unique[Annotated[Side, Ref("compared", "method that is held against the reference")]],
        Field(max_length=MOST_CLAIMS),
    ] = Field(default_factory=list)
    function_words: Annotated[Pairs[OwnSide], within("corpora, whose captions differ")] = Field(default_factory=list)

    sections: ClassVar[tuple[str, ...]] = ("pretrain", "score")

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        yield from super().misfits(params, where)
        for corpus, listed in self.corpora.items():
            for name in (name for name in listed if "positions" not in params.methods[name].abilities):
                yield f"{where}.corpora.{corpus}: {name} ({params.methods[name].objective}) predicts no tokens"

    @property
    def compared(self) -> dict[str, str]:
        """The sides of ``primary``: every method but the reference."""
        return {side: method for side, method in self.sides.items() if method != self.reference}

    @model_validator(mode="after")
    def _claims(self) -> Self:
        if (count := len(self.primary) + len(self.function_words)) > MOST_CLAIMS:
            raise ValueError(f"primary and function_words are {count} claims, allowed: {MOST_CLAIMS}; name fewer")
        for corpus, methods in self.corpora.items():
            if self.reference not in methods:
                raise ValueError(
                    f"corpora.{corpus}: lacks {self.reference}, which the others are held against (reference)"
                )
        return self
