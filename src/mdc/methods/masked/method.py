"""The parameters of masked methods: MDC, its ablations, BERT-r and parallel decoding differ in these values alone."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.method import Method
from mdc.plan.config.types import Range, Share


class Masked(Method):
    """``t_range``: t, the share of tokens that is masked, is drawn from [low, high]; [r, r] is a fixed ratio. ``weight``: the
    paper's 1/t, or none. ``normaliser``: the loss is divided by the valid or the masked tokens of the global batch.

    ``timed``: the decoder is conditioned on t. ``patches_kept``: the share of patch tokens that it reads in training.
    """

    objective: Literal["masked"]
    t_range: Range[Share]
    weight: Literal["inverse_t", "none"]
    normaliser: Literal["valid_tokens", "masked_tokens"]
    timed: bool = False
    patches_kept: Annotated[float, Field(gt=0, lt=1)] | None = None

    abilities: ClassVar = {
        "train": "mdc.methods.masked.loss",
        "score": "mdc.methods.masked.score",
        "generate": "mdc.methods.masked.generate",
        "positions": "mdc.methods.masked.positions",
    }
    decoding = "unmask"

    @model_validator(mode="after")
    def _rising(self) -> Self:
        low, high = self.t_range
        if low > high:
            raise ValueError(f"t_range [{low}, {high}] is reversed; write [low, high] with 0 <= low <= high <= 1")
        if high == 0:
            raise ValueError("t_range [0, 0] masks nothing; its upper end must be above 0")
        return self

    @property
    def masked_share(self) -> tuple[float, float] | None:
        return self.t_range

    @property
    def reads_patches(self) -> bool:
        return self.patches_kept is not None

    @property
    def estimators(self) -> tuple[str, ...]:
        """The paper's own first; a model of one mask ratio has no bound."""
        low, high = self.t_range
        if low == high == 1:
            return ("parallel",)
        if low == high:
            return ("fixed_ratio", "pseudo_likelihood")
        within = () if (low, high) == (0, 1) else ("monte_carlo_range",)
        return ("monte_carlo", "heuristic", *within, "parallel")


METHOD = Masked
