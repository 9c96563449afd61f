"""The typed jobs of `mdc make`, one class for each plan of a table or figure, with their rows and runs."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.choice_sources import Parts
from mdc.plan.config.params import ProtocolStatistics
from mdc.plan.config.pretrain import Optimisation
from mdc.plan.config.score_tables import ChoiceColumn
from mdc.plan.config.types import NonNegative, Order, Positive, Share, Strict
from mdc.plan.jobs.job import Job


class Seen(Strict):
    """The job that looks for the images of a ``test`` set among those that ``systems`` (their keys) were trained on, a corpus
    called ``training``. ``records``: the jobs whose items of the set ``name`` are those that are tested. ``columns``: the keys of
    those that the set decides; empty: all."""

    job: str
    training: str
    test: str
    name: str
    records: list[str]
    columns: list[str]
    systems: list[str]


class ArtefactJob(Job):
    """A table or figure. ``files``: its files besides its record. ``expected``: input job → the hash of its current
    configuration. ``kind``, ``title``: of one that the scale has under its own name. ``unknown``: the labels of external models,
    of which it is not known whether they were trained on test images (``seen``). ``more``: what it alone
    needs."""

    verb: Literal["make"]
    artefact: str
    kind: str | None = None
    title: str | None = None
    files: list[str] = Field(default_factory=list)
    scale_label: str
    expected: dict[str, str]
    seen: list[Seen] = Field(default_factory=list)
    unknown: list[str] = Field(default_factory=list)
    more: dict[str, Any] = Field(default_factory=dict)


class Statistics(ProtocolStatistics):
    """How an artefact's claims are tested. ``order``: see :func:`mdc.report.statistics.claims.decide`."""

    order: Order = "holm"


class Labelled(Strict):
    """``listed``: of a corpus that is the beginning of a list, so many rows of it; its label is then followed by the number of
    pairs that it had (:func:`mdc.report.make.make`)."""

    key: str
    label: str
    listed: int | None = None


class System(Strict):
    """One row of any table or figure: its runs, their records, and its control. A run may be in several rows.

    ``key``: unique (``corpus/backbone/method`` for a method of ours). ``runs``: the measured runs, one for each seed;
    ``records``: the jobs that measured them, in the same order; ``estimator``: how. ``control``: the key of the system that its
    gain is over. ``corpus``, ``backbone``, ``method``: keys with the labels of its row; without a corpus the row also shows its
    pooling, and applies to every corpus of a table with a column per corpus. ``ranked`` False: shown in grey. ``reference``:
    shown in italics and never ranked. ``note``: a sentence about it below its table. ``weights``: a run's last or best; None if
    that is no choice, as for an external model. ``t_range``: of t in a masked method's training. ``reverse``: it predicts from
    right to left.

    Of scores: ``per_token``: the per-token mean instead of the sum. ``shown``: the score: ``own``, given the item's image;
    ``mismatched``, the log of the mean probability given mismatched images, and ``mismatched_mean``, the mean of these scores;
    ``constant``, given an image of the mean colour; ``shorter``, fewer BPE tokens win, whatever the model; ``prior_subtracted``,
    own minus α times mismatched, with α chosen on the held-out pairs of the jobs ``held_out``, one for each seed; ``debiased``,
    own minus the log of the mean probability given training images.

    Of captions: ``method``'s key is its name in records. ``length``, ``decoding``: its cells in these columns. ``tuned``: its
    finetuning, "" if it is only pretrained. ``is_control``: a mismatched-image control, or the most-frequent-caption baseline.
    """

    key: str
    corpus: Labelled | None
    backbone: Labelled
    method: Labelled
    runs: Annotated[list[str], Field(min_length=1)]
    records: Annotated[list[str], Field(min_length=1)]
    pooling: str = ""
    estimator: str = "linear probe"
    control: str | None = None
    ranked: bool = True
    reference: bool = False
    note: str = ""
    weights: Literal["last", "best"] | None = None
    t_range: tuple[Share, Share] | None = None
    reverse: bool = False
    per_token: bool = False
    shown: Literal["own", "mismatched", "mismatched_mean", "constant", "shorter", "prior_subtracted", "debiased"] = (
        "own"
    )
    held_out: list[str] = Field(default_factory=list)
    length: str = ""
    decoding: str = ""
    tuned: str = ""
    is_control: bool = False


Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


class SystemsJob(ArtefactJob):
    """A table or figure of systems by columns. The systems and the contrasts are in the order shown.

    ``contrasts``: pairs of systems' keys, the first minus the second, shown with their intervals. ``primary``: at most six of
    these, preregistered, with a verdict on the column ``primary_metric`` ("average" or a column's key). ``reported_separately``:
    the keys of columns that the average leaves out. ``notes``: sentences about columns below the table.
    """

    systems: Annotated[list[System], Field(min_length=1)]
    columns: Annotated[Sequence[Labelled], Field(min_length=1)]
    contrasts: list[Pair]
    primary: Annotated[list[Pair], Field(max_length=6)]
    primary_metric: str
    reported_separately: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    seeds: Annotated[list[NonNegative], Field(min_length=1)]
    statistics: Statistics

    @model_validator(mode="after")
    def _all_are_there(self) -> Self:
        keys = {system.key for system in self.systems}
        if len(keys) != len(self.systems):
            raise ValueError("systems: two have the same key")
        for system in self.systems:
            if not len(system.runs) == len(system.records) == len(self.seeds):
                raise ValueError(f"systems: {system.key} needs a run and a record for each of {len(self.seeds)} seeds")
            if system.control is not None and system.control not in keys:
                raise ValueError(f"systems: {system.key} has the control {system.control}, which is none of them")
            for record in system.records:
                if record not in self.expected:
                    raise ValueError(f"systems: {system.key} needs {record}, which expected lacks")
        for name, pairs in (("contrasts", self.contrasts), ("primary", self.primary)):
            for side in (side for pair in pairs for side in pair):
                if side not in keys:
                    raise ValueError(f"{name}: {side} is none of the systems")
        if any(pair[::-1] in self.primary for pair in self.primary):
            raise ValueError("primary: a difference is claimed in both directions")
        if any(pair not in self.contrasts for pair in self.primary):
            raise ValueError("primary: each is one of contrasts")
        if self.primary_metric not in ("average", *(column.key for column in self.columns)):
            raise ValueError(f"primary_metric: {self.primary_metric} is none of the columns")
        return self


class ShownColumn(Labelled, ChoiceColumn, Parts):
    """A column of Table 2."""


class ChoiceTableJob(SystemsJob):
    """Table 2. ``samples``: masks of the Monte Carlo estimators. ``others``: mismatched images of an item. ``sets``: the choice
    sets with their labels."""

    columns: Annotated[list[ShownColumn], Field(min_length=1)]
    language_prior_weights: list[float]
    samples: Positive
    others: Positive
    sets: list[Labelled]


class RetrievalTableJob(SystemsJob):
    """Retrieval among ``pairs`` held-out pairs; a column's key is the direction and the k of R@k, as ``text_5``."""

    language_prior_weights: list[float]
    samples: Positive
    pairs: Positive


class ZeroShotTableJob(SystemsJob):
    """Zero-shot classification; a column is a probe. ``samples``: masks of the Monte Carlo estimators."""

    samples: Positive


class ZeroShotRows(Strict):
    """The part of :class:`ZeroShotTableJob` in a table of heads."""

    systems: Annotated[list[System], Field(min_length=1)]
    columns: Annotated[list[Labelled], Field(min_length=1)]
    samples: Positive


class ProbingJob(SystemsJob):
    """Linear probes. ``trends``: in a figure over numbers of pairs, the methods with a claim about their trend on the primary
    column. ``zero_shot``: in a table of heads, its zero-shot columns."""

    trends: list[str]
    zero_shot: ZeroShotRows | None = None


class ConvergenceJob(ProbingJob):
    """Linear probes of snapshots. ``shares``: system → its share of the training steps."""

    shares: dict[str, Annotated[float, Field(gt=0, le=1)]]


class PositionsFigureJob(ArtefactJob):
    """The image's information about a token, by position; see :class:`mdc.plan.config.score_tables.PositionFigure`.

    ``reference``: the method that the others of its corpus are compared with. ``primary``: systems' keys; ``function_words``:
    pairs of them.
    """

    systems: Annotated[list[System], Field(min_length=1)]
    reference: str
    primary: list[str]
    function_words: list[list[str]] = Field(default_factory=list)
    seeds: Annotated[list[NonNegative], Field(min_length=1)]
    bins: Positive
    margin: Annotated[float, Field(gt=0)]
    statistics: Statistics


class ShownRun(Strict):
    """A run whose log is plotted. ``job``: its name in ``expected``."""

    job: str
    corpus: Labelled
    backbone: Labelled
    method: Labelled
    objective: str
    seed: NonNegative
    t_range: tuple[Share, Share] | None


class LossesJob(ArtefactJob):
    """The logs of all runs."""

    runs: Annotated[list[ShownRun], Field(min_length=1)]


class RecipeRun(Strict):
    label: str
    objective: str
    ranked: bool
    optimizer: str
    lr_schedule: str
    recipe: Optimisation


class RecipeCorpus(Strict):
    label: str
    runs: Annotated[list[RecipeRun], Field(min_length=1)]


class RecipesJob(ArtefactJob):
    """How the runs of one backbone are trained."""

    backbone: str
    corpora: Annotated[list[RecipeCorpus], Field(min_length=1)]
