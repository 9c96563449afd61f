"""What each verb is asked: one typed job a verb, as it stands in ``results/<scale>/configs/<job>.json``.

:mod:`mdc.jobs.plan` makes them from validated parameters; a verb reads its own back with :func:`read_job`. A file that was
edited, cut short or made by another version ends in one line. Everything that decides a job's result stands in here, and
nothing else does: what only says how fast a job goes is no part of it. No fingerprint covers this module, because values
are compared as values; so nothing here may compute a result.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from mdc.config import (
    Backbone,
    CaptionList,
    ChoiceSource,
    CorpusSource,
    Dataset,
    Method,
    Name,
    Names,
    NonNegative,
    Positive,
    Probe,
    ProbeSource,
    ProtocolData,
    ProtocolPretrain,
    ProtocolProbe,
    Recipe,
    Share,
    first_problem,
)
from mdc.records import UserError, read_json, sha256_json


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


#: a job's name is a path below the scale's folder
JobName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*$")]


class Job(_Part):
    """What all jobs have. ``inputs``: the jobs whose manifests it reads. ``fingerprint``: of the code that it runs."""

    job: JobName
    verb: str
    scale: Name
    fingerprint: str
    inputs: list[JobName]

    def config(self) -> dict[str, Any]:
        """As JSON has it: what records hold and hashes are taken of."""
        return self.model_dump(mode="json", by_alias=True)

    @cached_property
    def sha256(self) -> str:
        """Of the whole configuration."""
        return sha256_json(self.config())


# --- data ---------------------------------------------------------------------------------------------------------------


class ObtainJob(Job):
    """Bring a dataset to its place. ``download``: how its URLs are fetched, None if it is not fetched by URLs.

    ``entry``: what the registry says of it as far as it decides what is obtained; None for a dataset of the user's own.
    """

    verb: Literal["obtain"]
    name: Name
    dataset: Dataset
    download: dict[str, Any] | None
    entry: dict[str, Any] | None


class _SetJob(Job):
    """Write a set of shards from its source."""

    name: Name
    samples_per_shard: Positive
    max_skipped: Share


class CorpusJob(_SetJob):
    verb: Literal["corpus"]
    source: CorpusSource
    protocol: ProtocolData


class ProbeSetJob(_SetJob):
    verb: Literal["probe-set"]
    source: ProbeSource


class ChoiceSetJob(_SetJob):
    verb: Literal["choice-set"]
    source: ChoiceSource


class TextsJob(Job):
    verb: Literal["texts"]
    name: Name
    source: CaptionList
    protocol: ProtocolData


class VocabularyJob(Job):
    """``kind`` full: CLIP's own pieces; corpus: the pieces that the ``corpora`` use."""

    verb: Literal["vocabulary"]
    name: Name
    kind: Literal["full", "corpus"]
    corpora: list[Name]


# --- models -------------------------------------------------------------------------------------------------------------


class Protocol(_Part):
    data: ProtocolData
    pretrain: ProtocolPretrain


class PretrainJob(Job):
    """One run. ``backbone`` and ``method`` have their keys as labels, and a pooling is the probe's: neither decides it."""

    verb: Literal["pretrain"]
    corpus: Name
    vocabulary: Name
    backbone_name: str
    method_name: str
    seed: NonNegative
    backbone: Backbone
    method: Method
    recipe: Recipe
    protocol: Protocol

    #: of the recipe, what changes how a run proceeds and its result by rounding at most: a killed run resumes with other values
    TEMPO: ClassVar[tuple[str, ...]] = ("processes", "accumulation", "threads", "device", "compile", "validate_every")

    def decisive(self) -> dict[str, Any]:
        """What a resumable state belongs to: the configuration without ``TEMPO``."""
        found = self.config()
        found["recipe"] = {key: value for key, value in found["recipe"].items() if key not in self.TEMPO}
        return found


class ProbeJob(Job):
    """All probes of one encoder. Without a run it is the untrained control: ``seed``'s initial weights."""

    verb: Literal["probe"]
    probes: Names
    recipe: Probe
    protocol: ProtocolProbe
    backbone_name: str
    backbone: Backbone
    seed: NonNegative
    pooling: Literal["patch_mean", "cls"]
    run: str | None  # the run's job
    run_config_sha256: str | None


# --- tables and figures -------------------------------------------------------------------------------------------------


class ArtefactJob(Job):
    """A table or figure. ``expected``: for each job that it is made from, the hash of the configuration asked of it now."""

    verb: Literal["make"]
    artefact: str
    plan: str
    scale_label: str
    expected: dict[str, str]


class Labelled(_Part):
    key: str
    label: str


class System(_Part):
    """One row: what is measured, by which records, against which control. A run may stand in several rows.

    ``key`` tells it from the others (``corpus/backbone/method`` for a method of ours). ``runs`` names what was measured,
    one a seed, as the csv files show it; ``records`` the jobs that measured it, in the same order; ``estimator`` how.
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


class Statistics(_Part):
    """PROTOCOL "Statistics": of intervals and tests, the decision is made once for all artefacts."""

    level: Annotated[float, Field(gt=0, lt=1)]
    comparable: Annotated[float, Field(gt=0)]  # points
    power: Annotated[float, Field(gt=0, lt=1)]
    bootstrap: Annotated[int, Field(ge=100, lt=2**31)]


Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


class ProbingJob(ArtefactJob):
    """A table or figure of systems by columns. The systems and the contrasts stand in the order shown.

    ``contrasts``: pairs of systems' keys, the first minus the second, shown with their intervals. ``primary``: at most
    six of these, whose verdict on the column ``primary_column`` ("average" or a column's key) was named beforehand.
    """

    plan: Literal["probing"]
    systems: Annotated[list[System], Field(min_length=1)]
    columns: Annotated[list[Labelled], Field(min_length=1)]
    contrasts: list[Pair]
    primary: Annotated[list[Pair], Field(max_length=6)]
    primary_column: str
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
        if self.primary_column not in ("average", *(column.key for column in self.columns)):
            raise ValueError(f"primary_column: {self.primary_column} is none of the columns")
        return self


class ShownRun(_Part):
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
    """The logs of the runs of one table, in its order; ``reference``: the method that the others are held against."""

    plan: Literal["schedules"]
    table: str
    runs: Annotated[list[ShownRun], Field(min_length=1)]
    reference: str
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


class Licence(_Part):
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
    entries: Annotated[list[Licence], Field(min_length=1)]


class Training(_Part):
    """Of a run's recipe, what Tables 6 to 8 show."""

    optimizer: str
    lr: Annotated[float, Field(ge=0)]
    warmup_steps: NonNegative
    weight_decay: Annotated[float, Field(ge=0)]
    beta1: Share
    beta2: Share
    batch_size: Positive
    lr_schedule: str
    epochs: Positive
    clip_norm: float | None


class RecipeRun(_Part):
    label: str
    objective: str
    ranked: bool
    training: Training


class RecipeCorpus(_Part):
    label: str
    runs: Annotated[list[RecipeRun], Field(min_length=1)]


class RecipesJob(ArtefactJob):
    """How the runs of one backbone are trained."""

    plan: Literal["recipes"]
    backbone: str
    corpora: Annotated[list[RecipeCorpus], Field(min_length=1)]


# --- reading ------------------------------------------------------------------------------------------------------------

AnyArtefact = Annotated[
    ProbingJob | LossesJob | SchedulesJob | LengthsJob | LicencesJob | RecipesJob, Field(discriminator="plan")
]
_OF_VERB: dict[str, TypeAdapter[Any]] = {
    "obtain": TypeAdapter(ObtainJob),
    "corpus": TypeAdapter(CorpusJob),
    "probe-set": TypeAdapter(ProbeSetJob),
    "choice-set": TypeAdapter(ChoiceSetJob),
    "texts": TypeAdapter(TextsJob),
    "vocabulary": TypeAdapter(VocabularyJob),
    "pretrain": TypeAdapter(PretrainJob),
    "probe": TypeAdapter(ProbeJob),
    "make": TypeAdapter(AnyArtefact),
}


def read_job(path: str | Path, verb: str) -> Any:
    """The typed job of ``verb`` in a file; UserError, naming the file and its first problem, if it holds none."""
    config = read_json(path)
    if config.get("verb") != verb:
        raise UserError(f"{path}: not a configuration of `mdc {verb}`; `mdc config JOB` prints one")
    return as_job(config, verb, str(path))


def as_job(config: dict[str, Any], verb: str, where: str) -> Any:
    """``config`` as the typed job of ``verb``; UserError that begins with ``where`` if it is none."""
    try:
        # as JSON: there a list is a tuple's own form, which a strict class otherwise refuses
        return _OF_VERB[verb].validate_json(json.dumps(config))
    except ValidationError as error:
        raise UserError(f"{where}: {first_problem(error)}; `mdc config JOB` prints a good one") from None
