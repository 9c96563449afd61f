"""How captions are scored, and which models Table 2 shows besides the runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mdc.config.types import NonNegative, Positive, Strict, Threads


class Scoring(Strict):
    """How scores are computed (docs/scoring.md).

    ``samples``: masks of each estimator that draws them, in 16 groups. ``mismatched``: other images that each item's
    captions are scored against as well. ``batch_tokens``: tokens that are computed at a time, a matter of memory.
    ``processes``: that share a job, one GPU each; they change no result.
    """

    samples: Annotated[int, Field(ge=16, le=2**20, multiple_of=16)]
    mismatched: Positive
    seed: NonNegative
    batch_tokens: Annotated[int, Field(ge=128)]
    precision: Literal["fp32", "bf16"]
    processes: Positive
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]


class OpenClipModel(Strict):
    """A CLIP that open_clip loads: ``model`` is one of its names or ``local-dir:FOLDER``, ``weights`` a name, a file, or none."""

    label: str
    model: str
    weights: str | None = None
