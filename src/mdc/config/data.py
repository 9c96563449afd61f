"""The data of a scale: corpora, probe sets, and how they are cut into shards."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from mdc.config.sources import CorpusSource, ProbeSource
from mdc.config.types import Name, Positive, Share, Strict, known


class Corpus(Strict):
    label: str
    source: CorpusSource


class ProbeSet(Strict):
    label: str
    source: ProbeSource


class Data(Strict):
    vocabulary: Literal["full", "corpus"]
    samples_per_shard: Positive
    max_skipped: Share
    corpora: dict[Name, Corpus]
    probes: dict[Name, ProbeSet]
    primary_probe: Name

    @model_validator(mode="after")
    def _primary(self) -> Self:
        known("primary_probe", self.primary_probe, self.probes, "probe")
        if "untrained" in self.corpora:
            raise ValueError("corpora.untrained: this name is taken by the untrained controls; choose another")
        return self
