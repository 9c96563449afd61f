"""The typed jobs of `mdc make` for captions: Table 3, tables and figures of a part of other captions, and examples."""

from typing import Annotated, Literal

from pydantic import Field

from mdc.plan.config.distortion import Kind
from mdc.plan.config.types import NonNegative, Positive, Strict
from mdc.plan.jobs.shown import ArtefactJob, Labelled, Pair, System, SystemsJob


class CostJob(ArtefactJob):
    """The cost of trainings and captions. ``systems``: their records are runs; ``written``: theirs are jobs of captions."""

    systems: Annotated[list[System], Field(min_length=1)]
    written: list[System]
    seeds: Annotated[list[NonNegative], Field(min_length=1)]


Part = Literal["paper", "more", "truth", "words"]


class CaptionColumn(Labelled):
    """A metric. ``part``: its part of Table 3."""

    part: Part


class ShownContest(Strict):
    """A contest on one dataset, called ``name`` in its ``records``, one per seed; ``label``: its column."""

    name: str
    label: str
    dataset: str
    systems: Annotated[list[str], Field(min_length=2)]
    records: Annotated[list[str], Field(min_length=1)]


class Chosen(Strict):
    """The choice of the best of ``systems`` {system: its records, one per seed} by the primary column on another dataset, called
    ``label``."""

    label: str
    systems: Annotated[dict[str, list[str]], Field(min_length=1)]


class OverDataset(Labelled):
    """A dataset with ``images`` captioned images, by runs on the corpus of the job ``trained_on``."""

    trained_on: str
    images: Positive


class Over(Strict):
    """``pairs`` of systems' names, the first minus the second, over ``datasets`` that are splits of the same images; those
    ``beside`` them are compared alone."""

    pairs: Annotated[list[Pair], Field(min_length=1)]
    datasets: Annotated[list[OverDataset], Field(min_length=2)]
    beside: list[OverDataset]


class CaptionTableJob(SystemsJob):
    """Table 3, and tables of captions like it. ``judge``: the judge of its contests. ``clip``: the model of CLIPScore, "" if it
    is not measured. ``choose``: the choice of the best system, which a note below the table names."""

    columns: Annotated[list[CaptionColumn], Field(min_length=1)]
    clip: str
    judge: str
    contests: list[ShownContest]
    choose: Chosen | None
    over: Over | None = None


class Curve(Labelled):
    """Systems' keys with the ``scales`` of their guidance, in the order of scales; the ``method`` of their runs."""

    method: str
    systems: Annotated[list[str], Field(min_length=2)]
    scales: list[float]


class GuidanceFigureJob(CaptionTableJob):
    """CLIPScore over each reference-based metric. ``between``: pairs of curves that are compared at equal CIDEr."""

    curves: Annotated[list[Curve], Field(min_length=1)]
    between: list[Pair]


class Worsening(Labelled):
    """A system's keys under one ``kind`` of distortion, called ``kind_label``, by a ``method`` on a ``backbone``, from none to
    the strongest. ``control``: its mismatched-image control, above whose quality its own counts; None if the scale has none."""

    kind: Kind
    kind_label: str
    method: str
    backbone: str
    systems: Annotated[list[str], Field(min_length=2)]
    control: str | None


class RobustnessFigureJob(CaptionTableJob):
    """Degradation of captions under distortions, one curve per system and kind. ``between``: pairs of systems whose kept quality
    is compared; ``claimed``: the kinds with the claim that the first keeps more."""

    curves: Annotated[list[Worsening], Field(min_length=1)]
    between: list[Pair]
    claimed: list[Kind]


class ShownCaptions(Labelled):
    """A system whose captions Figure 6 shows. ``record``: the job of its captions; ``system``: its name there.

    ``reveals``: its tokens are not generated from left to right, so their order is shown too. ``pictured``: it is also in the
    picture, not only on the page.
    """

    record: str
    system: str
    reveals: bool
    pictured: bool = True


class CaptionExamples(Labelled):
    """Images of one dataset. ``corpus``: the job of its shards."""

    corpus: str
    split: Literal["train", "val", "test"]
    systems: Annotated[list[ShownCaptions], Field(min_length=1)]


class CaptionFigureJob(ArtefactJob):
    """Figure 6: ``examples`` images of each dataset, drawn with ``seed``, with captions by all systems' first seeds."""

    datasets: Annotated[list[CaptionExamples], Field(min_length=1)]
    examples: Positive
    seed: NonNegative
