"""What the verbs that make data and models are asked: one typed job a verb."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

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
)
from mdc.jobs.job import Job, Part

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


class Protocol(Part):
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
