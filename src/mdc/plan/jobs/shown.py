"""What `mdc make` is asked: a typed job for each plan of a table or figure, and the rows and runs that these name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.params import ProtocolStatistics
from mdc.plan.config.pretrain import Optimisation
from mdc.plan.config.types import NonNegative, Order, Positive, Share, Strict
from mdc.plan.jobs.job import Job


class ArtefactJob(Job):
    """A table or figure. ``files``: what it leaves besides its record. ``expected``: for each job that it is made from, the hash
    of the configuration asked of it now. ``kind``, ``title``: of one that the scale has under a name of its own."""

    verb: Literal["make"]
    artefact: str
    kind: str | None = None
    title: str | None = None
    files: list[str] = Field(default_factory=list)
    plan: str
    scale_label: str
    expected: dict[str, str]


class Statistics(ProtocolStatistics):
    """How an artefact's claims are tested. ``order``: as its block in the scale says, see
    :func:`mdc.report.statistics.claims.decide`."""

    order: Order = "holm"


class Labelled(Strict):
    key: str
    label: str


class System(Strict):
    """One row: what is measured, by which records, against which control. A run may stand in several rows.

    ``key`` tells it from the others (``corpus/backbone/method`` for a method of ours). ``runs`` names what was measured,
    one for each seed, as the csv files show it; ``records`` the jobs that measured it, in the same order; ``estimator`` how.
    ``control``: the key of the system that its gain is over. ``corpus``, ``backbone`` and ``method`` are keys beside the
    labels that its row shows; without a corpus the row also says its pooling, and stands for every corpus of a table
    that has a column a corpus. ``ranked`` False: shown in grey. ``reference``: shown in italics and never ranked.
    ``note``: a whole sentence about it, which stands below its table.
    """

    key: str
    corpus: Labelled | None
    backbone: Labelled
    method: Labelled
    pooling: str
    runs: Annotated[list[str], Field(min_length=1)]
    records: Annotated[list[str], Field(min_length=1)]
    estimator: str = "linear probe"
    control: str | None = None
    ranked: bool = True
    reference: bool = False
    t_range: tuple[Share, Share] | None = None
    note: str = ""


Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


class SystemsJob(ArtefactJob):
    """A table or figure of systems by columns. The systems and the contrasts stand in the order shown.

    ``contrasts``: pairs of systems' keys, the first minus the second, shown with their intervals. ``primary``: at most
    six of these, whose verdict on the column ``primary_metric`` ("average" or a column's key) was named beforehand.
    ``reported_separately``: the keys of columns that the average does not count. ``notes``: whole sentences about columns,
    which are shown below the table.
    """

    systems: Annotated[Sequence[System], Field(min_length=1)]
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
                raise ValueError(f"systems: {system.key} is held against {system.control}, which is none of them")
            for record in system.records:
                if record not in self.expected:
                    raise ValueError(f"systems: {system.key} needs {record}, which expected lacks")
        for name, pairs in (("contrasts", self.contrasts), ("primary", self.primary)):
            for side in (side for pair in pairs for side in pair):
                if side not in keys:
                    raise ValueError(f"{name}: {side} is none of the systems")
        if any(pair not in self.contrasts for pair in self.primary):
            raise ValueError("primary: each is one of contrasts")
        if self.primary_metric not in ("average", *(column.key for column in self.columns)):
            raise ValueError(f"primary_metric: {self.primary_metric} is none of the columns")
        return self


class ScoredSystem(System):
    """Scores of one model by one estimator. ``weights``: of a run, the last or the best ones, None of a model of others.

    ``per_token``: the per-token mean instead of the sum. ``control``: the system with other images in the place of its own.
    ``shown``: which images it is scored against, or what else decides: ``own``; ``mismatched``, the log of the mean
    probability under other images, and ``mismatched_mean``, the mean of the scores; ``constant``, an image of the mean
    colour; ``shorter``, fewer BPE tokens win, whatever the model; ``prior_subtracted``, own minus α times mismatched, with α
    chosen on the held-out pairs of the jobs ``held_out``, one for each seed; ``debiased``, own minus the log of the mean
    probability under training images.
    """

    weights: Literal["last", "best"] | None
    per_token: bool
    shown: Literal["own", "mismatched", "mismatched_mean", "constant", "shorter", "prior_subtracted", "debiased"]
    held_out: list[str] = Field(default_factory=list)


class ShownColumn(Labelled):
    """A column of Table 2, as :class:`mdc.plan.config.score_tables.ChoiceColumn` has it."""

    sets: list[str]
    parts: Literal["sets", "groups"]
    min_items: Positive
    omit: list[str]
    ties: Literal["shared", "right", "wrong"] = "shared"
    score: Literal["text", "image", "group"] | None = None


class ChoiceTableJob(SystemsJob):
    """Table 2. ``samples``, ``others``: masks of the estimators that draw them, and other images of an item.

    ``sets``: what the choice sets are called.
    """

    plan: Literal["choices"]
    systems: Annotated[list[ScoredSystem], Field(min_length=1)]
    columns: Annotated[list[ShownColumn], Field(min_length=1)]
    language_prior_weights: list[float]
    samples: Positive
    others: Positive
    sets: list[Labelled]


class RetrievalTableJob(SystemsJob):
    """Retrieval among ``pairs`` held-out pairs; a column's key says the direction and the number of answers, as ``text_5``."""

    plan: Literal["retrieval"]
    systems: Annotated[list[ScoredSystem], Field(min_length=1)]
    columns: Annotated[list[Labelled], Field(min_length=1)]
    language_prior_weights: list[float]
    samples: Positive
    pairs: Positive


class ZeroShotTableJob(SystemsJob):
    """Zero-shot classification; a column is a probe. ``samples``: masks of the estimators that draw them."""

    plan: Literal["zero_shot"]
    systems: Annotated[list[ScoredSystem], Field(min_length=1)]
    columns: Annotated[list[Labelled], Field(min_length=1)]
    samples: Positive


class ZeroShotRows(Strict):
    """What of :class:`ZeroShotTableJob` a table of heads shows besides."""

    systems: Annotated[list[ScoredSystem], Field(min_length=1)]
    columns: Annotated[list[Labelled], Field(min_length=1)]
    samples: Positive


class ProbingJob(SystemsJob):
    """Linear probes. ``trends``: of a figure over numbers of pairs, the methods whose trend on the primary column was claimed.
    ``zero_shot``: of a table of heads, what its rows find zero-shot."""

    plan: Literal["probing"]
    systems: Annotated[list[System], Field(min_length=1)]
    columns: Annotated[list[Labelled], Field(min_length=1)]
    trends: list[str]
    zero_shot: ZeroShotRows | None = None


class ConvergenceJob(ProbingJob):
    """Linear probes of snapshots. ``shares``: of each system of a corpus, after which share of its steps it is."""

    plan: Literal["convergence"]  # type: ignore[assignment]
    shares: dict[str, Annotated[float, Field(gt=0, le=1)]]


class PositionSystem(Strict):
    """A method of a corpus with all its seeds. ``t_range``: from which a masked method's t is drawn in training, None for any
    other. ``reverse``: it reads from right to left."""

    key: str
    corpus: Labelled
    method: Labelled
    t_range: tuple[float, float] | None
    reverse: bool
    records: Annotated[list[str], Field(min_length=1)]


class PositionsFigureJob(ArtefactJob):
    """What the image tells about a token, by its position; see :class:`mdc.plan.config.score_tables.PositionFigure`.

    ``reference``: the method that the others of its corpus are held against; ``primary``: systems' keys, and
    ``function_words`` pairs of them.
    """

    plan: Literal["positions"]
    backbone: str
    systems: Annotated[list[PositionSystem], Field(min_length=1)]
    reference: str
    primary: list[str]
    function_words: list[list[str]] = Field(default_factory=list)
    seeds: Annotated[list[NonNegative], Field(min_length=1)]
    bins: Positive
    margin: Annotated[float, Field(gt=0)]
    samples: Positive
    others: Positive
    statistics: Statistics


class ShownRun(Strict):
    """A run whose log is drawn. ``job``: its name as ``expected`` has it."""

    job: str
    corpus: Labelled
    backbone: Labelled
    method: Labelled
    objective: str
    seed: NonNegative
    t_range: tuple[Share, Share] | None
    warmup_steps: NonNegative
    clip_norm: float | None


class LossesJob(ArtefactJob):
    """The logs of all runs."""

    plan: Literal["losses"]
    runs: Annotated[list[ShownRun], Field(min_length=1)]


class SchedulesJob(ArtefactJob):
    """The logs of the runs of one table, in its order; ``reference``: the method that the others are held against.

    ``primary``: as corpus/method, the schedules of which it was claimed beforehand that they vary more.
    """

    plan: Literal["schedules"]
    runs: Annotated[list[ShownRun], Field(min_length=1)]
    reference: str
    primary: Annotated[list[str], Field(max_length=3)]
    statistics: Statistics

    @model_validator(mode="after")
    def _reference(self) -> Self:
        if self.reference not in {run.method.key for run in self.runs}:
            raise ValueError(f"reference: no run is of {self.reference}")
        return self


class CaptionSet(Labelled):
    """A corpus, or a list of captions alone. ``job``: its name, whose index holds the lengths of its ``split``."""

    job: str
    split: str


class LengthsJob(ArtefactJob):
    """The lengths of the captions of several sets."""

    plan: Literal["lengths"]
    sets: Annotated[list[CaptionSet], Field(min_length=1)]
    context_length: Annotated[int, Field(ge=3)]


class Licence(Strict):
    """What the registry says of a dataset. ``items``: how many a split has."""

    name: str
    label: str
    used_for: list[str]
    licence: str
    licence_note: str
    citation: str
    reference: str
    url: str
    origin: str
    items: list[tuple[str, NonNegative]]
    size_bytes: NonNegative | None
    paper_label: str | None
    note: str


class LicencesJob(ArtefactJob):
    """``entries``: what the registry says, in its order."""

    plan: Literal["licences"]
    entries: list[Licence]


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

    plan: Literal["recipes"]
    backbone: str
    corpora: Annotated[list[RecipeCorpus], Field(min_length=1)]
