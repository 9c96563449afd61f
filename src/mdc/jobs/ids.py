"""The names of encoders. An id is a path: ``runs/<id>`` and ``probe/<id>`` are the jobs that belong to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Run:
    """A pretraining run. ``system`` is what all its seeds have in common: a row of a table."""

    corpus: str
    backbone: str
    method: str
    seed: int

    @property
    def system(self) -> str:
        return f"{self.corpus}/{self.backbone}/{self.method}"

    @property
    def id(self) -> str:
        return f"{self.system}/s{self.seed}"


@dataclass(frozen=True, order=True)
class Untrained:
    """The control of every run with this backbone, pooling and seed: its own initial weights."""

    backbone: str
    pooling: str
    seed: int

    @property
    def system(self) -> str:
        return f"untrained/{self.backbone}/{self.pooling}"

    @property
    def id(self) -> str:
        return f"{self.system}/s{self.seed}"
