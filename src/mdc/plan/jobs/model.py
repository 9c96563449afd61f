"""The typed jobs of data, runs and evaluations, one class per verb."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.captions import OpenClip
from mdc.plan.config.data import ClassCaptions, Dataset
from mdc.plan.config.decoding import Captioning
from mdc.plan.config.judge import ByClipScore, ByEndpoint
from mdc.plan.config.kinds.backbones import FrozenTokens
from mdc.plan.config.kinds.encoders import Encode
from mdc.plan.config.kinds.heads import Features, Probe
from mdc.plan.config.kinds.known import (
    AnyBehind,
    AnyChoice,
    AnyCorpus,
    AnyDistortion,
    AnyEncoder,
    AnyHead,
    AnyProbe,
    JobBackbone,
    TrainedBackbone,
)
from mdc.plan.config.kinds.sources import CaptionList
from mdc.plan.config.methods import AnyDecoding, AnyMethod
from mdc.plan.config.params import ProtocolData, ProtocolPretrain, ProtocolProbe
from mdc.plan.config.pretrain import Recipe
from mdc.plan.config.score import OpenClipModel, Scoring
from mdc.plan.config.types import Name, Names, NonNegative, Positive, Share, Strict
from mdc.plan.jobs.job import Job


class EncoderJob(Job):
    """Import the weights of an encoder as safetensors. ``behind``: what an encoder of the scale itself is made from."""

    verb: Literal["import-encoder"]
    name: Name
    entry: AnyEncoder
    behind: AnyBehind | None = None


class EncodedJob(Job):
    """The outputs for a corpus's images of the encoder of the job ``encoder`` with this configuration hash."""

    verb: Literal["encode-corpus"]
    corpus: Name
    encoder: str
    encoder_config_sha256: str
    splits: list[Literal["train", "val"]]
    encode: Encode


# --- data ---------------------------------------------------------------------------------------------------------------


class _OfDatasetJob(Job):
    """A job of a dataset. ``entry``: the registry's values that decide what is obtained; None for a user's own dataset."""

    name: Name
    dataset: Dataset
    entry: dict[str, Any] | None


class ObtainJob(_OfDatasetJob):
    """Obtain a dataset. ``download``: how its URLs are downloaded, None if it is not a list of URLs."""

    verb: Literal["obtain"]
    download: dict[str, Any] | None


class PlanDownloadJob(_OfDatasetJob):
    """Choose which URLs of a list are requested, and in which order; ``download`` as in :class:`ObtainJob`."""

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
    """Write a source's parts as shards, for all corpora that read it in the same way."""

    verb: Literal["corpus-parts"]
    name: str
    source: AnyCorpus
    protocol: ProtocolData


class CorpusJob(_SetJob):
    """If ``inputs`` name parts, these are the corpus's shards, and ``samples_per_shard`` is not used."""

    verb: Literal["corpus"]
    source: AnyCorpus
    protocol: ProtocolData


class ProbeSetJob(_SetJob):
    verb: Literal["probe-set"]
    source: AnyProbe


class ChoiceSetJob(_SetJob):
    verb: Literal["choice-set"]
    source: AnyChoice


class TextsJob(Job):
    verb: Literal["texts"]
    name: Name
    source: CaptionList
    protocol: ProtocolData


class VocabularyJob(Job):
    """``kind`` full: all of CLIP's tokens; corpus: the tokens that the ``corpora`` and the ``choices`` use."""

    verb: Literal["vocabulary"]
    name: Name
    kind: Literal["full", "corpus"]
    corpora: list[Name]
    choices: list[Name]


class OverlapJob(Job):
    """The images of a ``split`` of the set of the job ``test`` that are also in the training split of a ``corpus``."""

    verb: Literal["overlap"]
    corpus: Name
    test: str
    split: Literal["train", "val", "test"]


# --- models -------------------------------------------------------------------------------------------------------------


class Protocol(Strict):
    data: ProtocolData
    pretrain: ProtocolPretrain


class Start(Strict):
    """The start of a finetuned run: the ``weights`` of the job ``run`` with this configuration hash. ``patience`` and ``canvas``
    as in :class:`mdc.plan.config.captions.Finetune`."""

    run: str
    config_sha256: str
    weights: Literal["last", "best"]
    patience: Positive
    canvas: Annotated[int, Field(ge=2)] | None


class Selected(Strict):
    """The learning rate that the selection ``job`` with this configuration hash chooses."""

    job: str
    config_sha256: str


class PretrainJob(Job):
    """One run. Labels of ``backbone`` and ``method`` are empty, and the pooling is fixed: they are used only later.

    ``start``: for a finetuned run. ``lr``: where the recipe leaves the rate to a selection. The configuration of any other omits
    these keys.
    """

    verb: Literal["pretrain"]
    corpus: Name
    vocabulary: Name
    backbone_name: str
    method_name: str
    seed: NonNegative
    backbone: JobBackbone
    method: AnyMethod
    recipe: Recipe
    protocol: Protocol
    start: Start | None = None
    lr: Selected | None = None

    @model_validator(mode="after")
    def _rate(self) -> Self:
        if (self.lr is None) == (self.recipe.lr is None):
            raise ValueError("recipe.lr: must be given, if and only if no selection chooses the rate (lr)")
        return self


class SelectLrJob(Job):
    """The choice of a method's learning rate. ``tried``: a rate, and its probe jobs with the hashes of their configurations, one
    for each seed; ``by``: their probe."""

    verb: Literal["select-lr"]
    by: Name
    tried: list[tuple[float, dict[str, str]]]


class _ScoringJob(Job):
    """Scores by one run with its ``weights``; the hash pins the run's configuration."""

    run: str
    run_config_sha256: str
    weights: Literal["last", "best"]
    scoring: Scoring


class ChoicesJob(Job):
    """Scores of all options of ``sets`` by one model: a run, or an open_clip model.

    ``estimators``: those of the model. ``context_length``: of the protocol.
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
    """Scores of ``pairs`` held-out pairs of the run's corpus, each image against each caption."""

    verb: Literal["score-pairs"]
    estimators: Names
    pairs: Positive


class ZeroShotJob(_ScoringJob):
    """Zero-shot classification of ``probes``, each with its classes' captions. ``images``: the number of random test images of
    each; None: all."""

    verb: Literal["score-classes"]
    estimators: Names
    probes: Annotated[dict[Name, ClassCaptions], Field(min_length=1)]
    images: Positive | None


class PositionsJob(_ScoringJob):
    """The image's information about each token of held-out captions; see :class:`mdc.report.figures.positions.Block`."""

    verb: Literal["score-positions"]
    captions: Positive
    gradient_captions: Positive
    gradient_draws: Positive


class Policy(Strict):
    """A system of Table 3: its decoding, whether it sees its own or a mismatched image, and the distortion of that."""

    decode: AnyDecoding
    images: Literal["own", "other"]
    distortion: AnyDistortion | None = None


class CocaModel(Strict):
    """open_clip's CoCa (:class:`mdc.plan.config.captions.Coca`), for the row ``system``."""

    system: Name
    model: str
    weights: str | None
    num_beams: Positive
    max_tokens: Positive


class ClipRun(Strict):
    """A CLIP run with this configuration hash."""

    run: str
    config_sha256: str


class MostFrequent(Strict):
    """The most-frequent-caption baseline: the most frequent training caption of ``corpus``, for the row ``system``."""

    system: Name
    corpus: Name


class _OfCaptionsJob(Job):
    """A job about the first ``images`` of a corpus's ``split``."""

    corpus: Name
    split: Literal["train", "val", "test"]
    images: Annotated[int, Field(ge=2)]


class CaptionsJob(_OfCaptionsJob):
    """Captions by one run, by each of ``policies`` {system: policy}.

    Without a run it is an external model (``coca``), or the baseline of the most frequent caption (``most_frequent``).
    ``seed``: of the choice of mismatched images. ``guide``: the CLIP of guided policies.
    """

    verb: Literal["write-captions"]
    run: str | None
    run_config_sha256: str | None
    weights: Literal["last", "best"] | None
    policies: dict[Name, Policy]
    most_frequent: MostFrequent | None
    coca: CocaModel | None
    captioning: Captioning
    seed: NonNegative
    guide: ClipRun | None = None


class CaptionMetricsJob(_OfCaptionsJob):
    """Metrics of the captions of the job ``captions``; the hash pins its configuration.

    ``training``: the corpus whose training captions are searched for copies. ``skip_metrics``: metrics that are not measured.
    ``clip`` or ``open_clip``: the model of CLIPScore, if it is measured. ``context_length``: of the protocol. ``instances``:
    MSCOCO's file of the images' objects, if there is one.
    """

    verb: Literal["measure-captions"]
    captions: str
    captions_config_sha256: str
    training: Name
    skip_metrics: list[str]
    instances: str | None
    clip: ClipRun | None
    open_clip: OpenClip | None
    context_length: Annotated[int, Field(ge=3)]
    captioning: Captioning


class JudgeJob(_OfCaptionsJob):
    """Contests {name: systems} between captions of the jobs ``captions`` {job: hash of its configuration}, of one ``seed``.

    ``by``: the judge; CLIPScore is read from the jobs ``metrics``, as ``captions``. ``order_seed``: of the assignment
    of letters, which also depends on ``seed``.
    """

    verb: Literal["judge-captions"]
    seed: NonNegative
    captions: Annotated[dict[str, str], Field(min_length=1)]
    contests: Annotated[dict[Name, list[Name]], Field(min_length=1)]
    by: Annotated[ByClipScore | ByEndpoint, Field(discriminator="kind")]
    metrics: dict[str, str]
    order_seed: NonNegative


class ProbeJob(Job):
    """All probes of one encoder by one ``head``, by default linear, whose ``recipe`` has more keys. Without a run it is the
    untrained control, the initial weights of ``seed``, or a frozen encoder, if ``backbone`` is one. ``snapshot``: probe the
    weights after this share of the run's steps instead of the last. ``held_out``: test on so many random training items, on which
    no probe is then fitted, instead of the test split."""

    verb: Literal["probe"]
    probes: Names
    recipe: Probe | Features
    head: AnyHead | None = None
    protocol: ProtocolProbe
    backbone_name: str
    backbone: TrainedBackbone | FrozenTokens
    seed: NonNegative
    pooling: Literal["patch_mean", "cls"]
    run: str | None  # the run's job
    run_config_sha256: str | None
    snapshot: Annotated[float, Field(gt=0, lt=1)] | None = None
    held_out: Positive | None = None
