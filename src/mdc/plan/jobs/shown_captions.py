"""What `mdc make` is asked of captions: Table 3, the tables and figures that show a part of other captions, and examples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mdc.plan.config.distortion import Kind
from mdc.plan.config.types import NonNegative, Positive, Strict
from mdc.plan.jobs.shown import ArtefactJob, Labelled, Pair, System, SystemsJob


class CaptionedSystem(System):
    """A row of Table 3 on one dataset (``corpus``). ``system``: its name in the records. ``length``,
    ``decoding``: what its columns say.

    ``tuned``: its finetuning, "" of a run that was pretrained alone; ``weights``: its last or its best ones, "" of what no run of
    ours wrote; ``blind``: it captions another image than it should.
    """

    system: str
    length: str
    decoding: str
    tuned: str
    weights: Literal["last", "best", ""]
    blind: bool


class CostJob(ArtefactJob):
    """What trainings and captions cost. ``systems``: their records are runs; ``written``: theirs are jobs of captions."""

    plan: Literal["cost"]
    systems: Annotated[list[System], Field(min_length=1)]
    written: list[CaptionedSystem]


class CaptionColumn(Labelled):
    """A metric. ``part``: the part of Table 3 that it stands in."""

    part: Literal["paper", "more", "truth", "words"]


class ShownContest(Strict):
    """A contest on one dataset, called ``name`` in its ``records``, one a seed; ``label``: the column that shows it."""

    name: str
    label: str
    dataset: str
    systems: Annotated[list[str], Field(min_length=2)]
    records: Annotated[list[str], Field(min_length=1)]


class Chosen(Strict):
    """The best of ``systems`` by the primary column on other images, called ``label``, of which ``records`` tell, one a seed."""

    label: str
    systems: Annotated[dict[str, list[str]], Field(min_length=1)]


class OverDataset(Labelled):
    """A dataset of which ``images`` are captioned, by runs on the corpus whose job is ``trained_on``."""

    trained_on: str
    images: Positive


class Over(Strict):
    """``pairs`` of systems' names, the first minus the second, over ``datasets`` that are splits of the same images; what stands
    ``beside`` them is compared alone."""

    pairs: Annotated[list[Pair], Field(min_length=1)]
    datasets: Annotated[list[OverDataset], Field(min_length=2)]
    beside: list[OverDataset]


class CaptionTableJob(SystemsJob):
    """Table 3, and tables of captions like it; a metric that is not available here is told in its place. ``judge``: what its
    contests are judged by.

    ``clip``: what CLIPScore is by, "" if it is not measured. ``choose``: of what the best is told below the table.
    """

    plan: Literal["captions", "caption_view"]
    systems: Annotated[list[CaptionedSystem], Field(min_length=1)]
    columns: Annotated[list[CaptionColumn], Field(min_length=1)]
    clip: str
    judge: str
    contests: list[ShownContest]
    choose: Chosen | None
    over: Over | None = None


class Curve(Labelled):
    """Systems' keys with the ``scales`` of their guidance, in the order of scales."""

    systems: Annotated[list[str], Field(min_length=2)]
    scales: list[float]


class GuidanceFigureJob(CaptionTableJob):
    """CLIPScore over each metric against references. ``between``: pairs of curves that are compared at equal CIDEr."""

    plan: Literal["guidance"]  # type: ignore[assignment]
    curves: Annotated[list[Curve], Field(min_length=1)]
    between: list[Pair]


class Worsening(Labelled):
    """A system's keys under one ``kind`` of distortion, called ``kind_label``, by a ``method`` on a ``backbone``, from
    none to the strongest. ``control``: the system on other images, above whose quality its own counts; None if the
    scale has none."""

    kind: Kind
    kind_label: str
    method: str
    backbone: str
    systems: Annotated[list[str], Field(min_length=2)]
    control: str | None


class RobustnessFigureJob(CaptionTableJob):
    """How captions become worse as images do, a curve a system and kind. ``between``: pairs of systems whose kept quality is
    compared; ``claimed``: the kinds on which it is claimed that the first keeps more."""

    plan: Literal["robustness"]  # type: ignore[assignment]
    curves: Annotated[list[Worsening], Field(min_length=1)]
    between: list[Pair]
    claimed: list[Kind]


class ShownCaptions(Labelled):
    """A system whose captions Figure 6 shows. ``record``: the job of its captions; ``system``: its name there.

    ``reveals``: its words come in an order of their own, which is shown too. ``pictured``: it stands in the picture too, not
    on the page alone.
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

    plan: Literal["caption_examples", "caption_examples_of"]
    datasets: Annotated[list[CaptionExamples], Field(min_length=1)]
    examples: Positive
    seed: NonNegative
