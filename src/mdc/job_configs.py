"""What a job's resolved configuration (a file under ``results/<scale>/configs``) must hold for its verb to start.

:mod:`mdc.jobs` makes these files from validated parameters, so a good one passes by construction. The check is for a
file that was edited, cut short, or made by another version: it ends in one line instead of a traceback.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mdc.config import (
    Backbone,
    CaptionList,
    ChoiceSource,
    CorpusSource,
    Dataset,
    Download,
    DownloadRuntime,
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
    RecipeTable,
    Share,
    SidePair,
    first_problem,
    sides_stand,
)
from mdc.records import UserError

Pooling = Literal["patch_mean", "cls"]


class _Part(BaseModel):
    """Of a configuration, what the verb reads; there may be more."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


def _backbone(values: dict[str, Any]) -> dict[str, Any]:
    Backbone.model_validate({**values, "label": ""})
    return values


def _method(values: dict[str, Any]) -> dict[str, Any]:
    Method.model_validate({**values, "label": "", "pooling": "patch_mean"})
    return values


# of the shaping settings' class, the part that a job gets apart
_ANY_RUNTIME = DownloadRuntime(
    processes=1, threads=1, timeout=1.0, deadline=1.0, retries=0, allow_addresses=[], use_proxy=False
)


class _Job(_Part):
    job: str
    verb: str
    scale: str
    fingerprint: str


def _download(values: dict[str, Any]) -> dict[str, Any]:
    Download.model_validate({**values, "runtime": _ANY_RUNTIME})
    return values


class _Obtain(_Job):
    name: Name
    dataset: Dataset
    download: Annotated[dict[str, Any], AfterValidator(_download)] | None


class _Corpus(_Job):
    name: Name
    source: CorpusSource
    samples_per_shard: Positive
    max_skipped: Share
    protocol: ProtocolData


class _ProbeSet(_Job):
    name: Name
    source: ProbeSource
    samples_per_shard: Positive
    max_skipped: Share


class _ChoiceSet(_Job):
    name: Name
    source: ChoiceSource
    samples_per_shard: Positive
    max_skipped: Share


class _Texts(_Job):
    name: Name
    source: CaptionList
    protocol: ProtocolData


class _Vocabulary(_Job):
    kind: Literal["full", "corpus"]
    corpora: list[Name]


class _Protocol(_Part):
    data: ProtocolData
    pretrain: ProtocolPretrain


class _Pretrain(_Job):
    corpus: Name
    backbone_name: str
    method_name: str
    seed: NonNegative
    backbone: Annotated[dict[str, Any], AfterValidator(_backbone)]
    method: Annotated[dict[str, Any], AfterValidator(_method)]
    recipe: Recipe
    protocol: _Protocol


class _Probe(_Job):
    probes: Names
    recipe: Probe
    protocol: ProtocolProbe
    backbone_name: str
    backbone: Annotated[dict[str, Any], AfterValidator(_backbone)]
    seed: NonNegative
    corpus: str | None
    method_name: str
    pooling: Pooling
    run_config_sha256: str | None = None


class _Labelled(_Part):
    key: str
    label: str


class _TableCorpus(_Labelled):
    methods: Names


class _TableMethod(_Part):
    label: str
    pooling: Pooling
    grey: bool


class _ProbeTable(_Job):
    table: Annotated[str, Field(pattern=r"^(table|figure)[0-9]+$")]
    scale_label: str
    corpora: Annotated[list[_TableCorpus], Field(min_length=1)]
    backbones: Annotated[list[_Labelled], Field(min_length=1)]
    methods: dict[str, _TableMethod]
    probes: Annotated[list[_Labelled], Field(min_length=1)]
    seeds: Annotated[list[NonNegative], Field(min_length=1)]
    bootstrap: Annotated[int, Field(ge=100, lt=2**31)]
    expected: dict[str, str]
    contrasts: list[SidePair]

    @model_validator(mode="after")
    def _methods_are_there(self) -> Self:
        for corpus in self.corpora:
            for name in corpus.methods:
                if name not in self.methods:
                    raise ValueError(f"corpora: {corpus.key} names the method {name!r}, which methods lacks")
        sides_stand(self.contrasts, {corpus.key: corpus.methods for corpus in self.corpora})
        if self.table != "table1" and any("/" in name for pair in self.contrasts for name in pair):
            raise ValueError("contrasts: only table1 compares corpora")
        return self


_Range = Annotated[list[Share], Field(min_length=2, max_length=2)]


class _RatioMethod(_TableMethod):
    t_range: _Range | None


class _RatioFigure(_ProbeTable):
    methods: dict[str, _RatioMethod]  # type: ignore[assignment]


class _Labels(_Part):
    corpora: dict[str, str]
    backbones: dict[str, str]
    methods: dict[str, str]


class _LossCurves(_Job):
    scale_label: str
    runs: list[str]
    labels: _Labels
    objectives: dict[str, str]


class _Schedule(_Part):
    t_range: _Range


class _Schedules(_Job):
    table: str
    scale_label: str
    runs: Annotated[list[str], Field(min_length=1)]
    labels: _Labels
    schedules: Annotated[dict[str, _Schedule], Field(min_length=1)]
    reference: str
    warmup: dict[str, NonNegative]
    clip_norm: dict[str, float | None]
    seeds: Annotated[list[NonNegative], Field(min_length=1)]

    @model_validator(mode="after")
    def _all_are_told(self) -> Self:
        if self.reference not in self.schedules:
            raise ValueError(f"reference: {self.reference!r} is none of schedules")
        for name in self.schedules:
            if name not in self.warmup:
                raise ValueError(f"warmup: lacks {name}")
        for run in self.runs:
            if run not in self.clip_norm:
                raise ValueError(f"clip_norm: lacks {run}")
        return self


class _Figure3(_Job):
    scale_label: str
    corpora: Annotated[list[_Labelled], Field(min_length=1)]
    texts: list[_Labelled]
    context_length: Annotated[int, Field(ge=3)]
    split: str


class _Table9(_Job):
    scale_label: str


class _RecipeRun(_Part):
    label: str
    objective: Literal["masked", "autoregressive", "contrastive"]
    ranked: bool
    training: dict[str, Any]


class _RecipeCorpus(_Part):
    label: str
    runs: Annotated[list[_RecipeRun], Field(min_length=1)]


class _RecipeTable(_Part):
    key: RecipeTable
    backbone: str
    corpora: Annotated[list[_RecipeCorpus], Field(min_length=1)]


class _Recipes(_Job):
    scale_label: str
    tables: Annotated[list[_RecipeTable], Field(min_length=1)]


_OF_VERB: dict[str, type[_Job]] = {
    "obtain": _Obtain,
    "corpus": _Corpus,
    "probe-set": _ProbeSet,
    "choice-set": _ChoiceSet,
    "texts": _Texts,
    "vocabulary": _Vocabulary,
    "pretrain": _Pretrain,
    "probe": _Probe,
    "table1": _ProbeTable,
    "method-table": _ProbeTable,
    "mask-ratios": _RatioFigure,
    "pair-counts": _ProbeTable,
    "schedules": _Schedules,
    "loss-curves": _LossCurves,
    "caption-lengths": _Figure3,
    "table9": _Table9,
    "recipes": _Recipes,
}


def check_job_config(config: dict[str, Any], verb: str, path: str) -> None:
    """UserError, naming the file ``path`` and its first problem, unless ``config`` is one of ``mdc <verb>``."""
    if config.get("verb") != verb:
        raise UserError(f"{path}: not a configuration of `mdc {verb}`; `mdc config JOB` prints one")
    try:
        _OF_VERB[verb].model_validate(config)
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error)}; `mdc config JOB` prints a good one") from None
