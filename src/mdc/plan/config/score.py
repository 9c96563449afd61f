"""How captions are scored, and the external models in Table 2."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.types import NonNegative, Positive, Strict, Threads


class Scoring(Strict):
    """How scores are computed (docs/scoring.md).

    ``samples``: masks of each Monte Carlo estimator, in 16 groups. ``mismatched``: number of mismatched images that each item's
    captions are also scored against. ``batch_tokens``: tokens per batch, limited by memory. ``processes``: that share a job, one
    GPU each; they change no result.
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
    """A CLIP that open_clip loads: ``model`` is one of its names, with ``weights`` by name or as a file under MDC_DATA; or
    ``local-dir:FOLDER`` or ``hf-hub:NAME``, without ``weights``."""

    label: str
    model: str
    weights: str | None = None

    @model_validator(mode="after")
    def _weights(self) -> Self:
        own_weights(self.model, self.weights)
        return self


def own_weights(model: str, weights: str | None) -> None:
    """ValueError for a name of open_clip without weights, or for a folder or a model of the hub with weights.

    open_clip itself would use random weights in the first case and ignore the weights in the second.
    """
    own = model.startswith(("local-dir:", "hf-hub:"))
    if own != (weights is None):
        rule = "brings its own weights, so leave this key out" if own else "needs weights: a name or a file"
        raise ValueError(f"weights = {weights}: {model} {rule}")
