"""What the verbs that make data and models are asked: one typed job per verb."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from mdc.plan.config.backbones import FrozenTokens, JobBackbone, TrainedBackbone
from mdc.plan.config.caption import Captioning, Writing
from mdc.plan.config.caption_table import OpenClip
from mdc.plan.config.choice_sources import ChoiceSource
from mdc.plan.config.data import ClassCaptions, Dataset
from mdc.plan.config.distortion import AtLevel
from mdc.plan.config.judge import ByClipScore, ByEndpoint
from mdc.plan.config.params import ProtocolData, ProtocolPretrain, ProtocolProbe
from mdc.plan.config.pretrain import Method, Recipe
from mdc.plan.config.scale import Features, Head, Probe
from mdc.plan.config.score import OpenClipModel, Scoring
from mdc.plan.config.sources import CaptionList, CorpusSource, ProbeSource
from mdc.plan.config.types import Name, Names, NonNegative, Positive, Share, Strict
from mdc.plan.jobs.job import Job

# --- data ---------------------------------------------------------------------------------------------------------------


class _OfDatasetJob(Job):
    """Of a dataset. ``entry``: what the registry says of it as far as it decides what is obtained; None for a user's own."""

    name: Name
    dataset: Dataset
    entry: dict[str, Any] | None


class ObtainJob(_OfDatasetJob):
    """Bring a dataset to its place. ``download``: how its URLs are fetched, None if it is not fetched by URLs."""

    verb: Literal["obtain"]
    download: dict[str, Any] | None


class PlanDownloadJob(_OfDatasetJob):
    """Fix what will be asked for of a list of URLs, and in which order; ``download`` as in :class:`ObtainJob`."""

    verb: Literal["plan-download"]
    download: dict[str, Any]


class DownloadJob(_OfDatasetJob):
    """Download a dataset's parts ``group``, ``group`` + ``groups``, …, those of a plan or the files of a mirror; ``download`` as
    in :class:`ObtainJob`."""

    verb: Literal["download"]
    download: dict[str, Any] | None
    group: NonNegative
    groups: Positive


class _SetJob(Job):
    """Write a set of shards from its source."""

    name: Name
    samples_per_shard: Positive
    max_skipped: Share


class CorpusPartsJob(Job):
    """Write a source's parts ``group``, ``group`` + ``groups``, … as shards. ``name``: the folder that all groups fill."""

    verb: Literal["corpus-parts"]
    name: str
    source: CorpusSource
    protocol: ProtocolData
    group: NonNegative
    groups: Positive


class CorpusJob(_SetJob):
    """If ``inputs`` name parts, the corpus's shards are these parts, and ``samples_per_shard`` decides nothing."""

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
    """``kind`` full: CLIP's own pieces; corpus: the pieces that the ``corpora`` and the ``choices`` use."""

    verb: Literal["vocabulary"]
    name: Name
    kind: Literal["full", "corpus"]
    corpora: list[Name]
    choices: list[Name]


class FrequenciesJob(Job):
    """Of the training captions of the corpus that ``inputs`` names, as the context cuts them."""

    verb: Literal["frequencies"]
    protocol: ProtocolData


# --- models -------------------------------------------------------------------------------------------------------------


class Protocol(Strict):
    data: ProtocolData
    pretrain: ProtocolPretrain


class Start(Strict):
    """What a finetuned run goes on from: the ``weights`` of the job ``run``, whose configuration has that hash. ``patience`` and
    ``canvas`` as in :class:`mdc.plan.config.caption.Finetune`."""

    run: str
    config_sha256: str
    weights: Literal["last", "best"]
    patience: Positive
    canvas: Annotated[int, Field(ge=2)] | None


class PretrainJob(Job):
    """One run. ``backbone`` and ``method`` have their keys as labels, and a pooling is the probe's: neither decides it.

    ``start``: of a finetuned run alone. The configuration of any other does not have the key.
    """

    verb: Literal["pretrain"]
    corpus: Name
    vocabulary: Name
    backbone_name: str
    method_name: str
    seed: NonNegative
    backbone: JobBackbone
    method: Method
    recipe: Recipe
    protocol: Protocol
    start: Start | None = None


class _ScoringJob(Job):
    """Scores of one run under its ``weights``; its own configuration says what it is, and the hash pins that."""

    run: str
    run_config_sha256: str
    weights: Literal["last", "best"]
    scoring: Scoring


class ChoicesJob(Job):
    """All options of ``sets`` under one model: a run of ours, or an open_clip model, which has no training here.

    ``estimators``: those that the model has. ``context_length``: of the protocol.
    """

    verb: Literal["score-choices"]
    sets: Names
    scoring: Scoring
    estimators: Names
    context_length: Annotated[int, Field(ge=3)]
    run: str | None
    run_config_sha256: str | None
    weights: Literal["last", "best"] | None
    open_clip: OpenClipModel | None


class RetrievalJob(_ScoringJob):
    """So many held-out pairs of the run's corpus, each image against each caption."""

    verb: Literal["score-pairs"]
    estimators: Names
    pairs: Positive


class ZeroShotJob(_ScoringJob):
    """Zero-shot classification of ``probes``, each with its classes' captions.

    ``images``: so many test images of each, drawn at random; None: all.
    """

    verb: Literal["score-classes"]
    estimators: Names
    probes: Annotated[dict[Name, ClassCaptions], Field(min_length=1)]
    images: Positive | None


class PositionsJob(_ScoringJob):
    """What the image tells about each token of held-out captions; see :class:`mdc.plan.config.tables.PositionFigure`."""

    verb: Literal["score-positions"]
    captions: Positive
    gradient_captions: Positive
    gradient_draws: Positive


class Policy(Strict):
    """How a system of Table 3 writes, whether it sees the image that it captions or another one, and what is done to that."""

    write: Writing
    images: Literal["own", "other"]
    distortion: AtLevel | None = None


class CocaModel(Strict):
    """open_clip's CoCa (:class:`mdc.plan.config.caption_table.Coca`), for the row ``system``."""

    system: Name
    model: str
    weights: str | None
    beams: Positive
    most: Positive


class ClipRun(Strict):
    """A CLIP run whose configuration has that hash."""

    run: str
    config_sha256: str


class Floor(Strict):
    """What needs no image: the most frequent training caption of ``corpus``, for the row ``system``."""

    system: Name
    corpus: Name


class _OfCaptionsJob(Job):
    """Of the first ``images`` of a corpus's ``split``."""

    corpus: Name
    split: Literal["train", "val", "test"]
    images: Annotated[int, Field(ge=2)]


class CaptionsJob(_OfCaptionsJob):
    """Captions by one run, of each of ``policies`` {system: how}.

    Without a run it is a model of others (``coca``), or the ``floor``. ``seed`` draws the other images. ``guide``: what the
    policies that write with one ask.
    """

    verb: Literal["write-captions"]
    run: str | None
    run_config_sha256: str | None
    weights: Literal["last", "best"] | None
    policies: dict[Name, Policy]
    floor: Floor | None
    coca: CocaModel | None
    captioning: Captioning
    seed: NonNegative
    guide: ClipRun | None = None


class CaptionMetricsJob(_OfCaptionsJob):
    """What is measured of ``captions`` {job: hash of its configuration}, those of one seed of all systems of a dataset.

    ``training``: the corpus whose training captions may have been repeated. ``left_out``: metrics that are not wanted. ``clip``
    or ``open_clip``: what CLIPScore is by, if it is measured. ``context_length``: of the protocol. ``instances``: MSCOCO's
    file of the images' objects, if there is one.
    """

    verb: Literal["measure-captions"]
    captions: Annotated[dict[str, str], Field(min_length=1)]
    training: Name
    left_out: list[str]
    instances: str | None
    clip: ClipRun | None
    open_clip: OpenClip | None
    context_length: Annotated[int, Field(ge=3)]
    captioning: Captioning


class JudgeJob(_OfCaptionsJob):
    """Contests {name: systems} between captions of the jobs ``captions`` {job: hash of its configuration}, of one ``seed``.

    ``by``: who judges; if it is CLIPScore, those of the job ``metrics``, whose configuration has that hash. ``order_seed`` draws
    the letters, for each seed its own.
    """

    verb: Literal["judge-captions"]
    seed: NonNegative
    captions: Annotated[dict[str, str], Field(min_length=1)]
    contests: Annotated[dict[Name, list[Name]], Field(min_length=1)]
    by: Annotated[ByClipScore | ByEndpoint, Field(discriminator="kind")]
    metrics: dict[str, str]
    order_seed: NonNegative


class ProbeJob(Job):
    """All probes of one encoder by one ``head``, without one linearly, whose ``recipe`` is longer. Without a run it is the
    untrained control, ``seed``'s initial weights, or, if ``backbone`` says so, a frozen encoder. ``snapshot``: not of the run's
    last weights, but of those after this share of its steps."""

    verb: Literal["probe"]
    probes: Names
    recipe: Probe | Features
    head: Head | None = None
    protocol: ProtocolProbe
    backbone_name: str
    backbone: TrainedBackbone | FrozenTokens
    seed: NonNegative
    pooling: Literal["patch_mean", "cls"]
    run: str | None  # the run's job
    run_config_sha256: str | None
    snapshot: Annotated[float, Field(gt=0, lt=1)] | None = None
