"""The parameters of masked methods: MDC, its ablations, BERT-r and parallel decoding differ in these values alone."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from mdc.plan.config.method import Method
from mdc.plan.config.types import Range, Share


class MaskedMethod(Method):
    """A method that predicts masked tokens; its captions are scored and generated as MDC's.

    ``t_range``: t, the share of tokens that is masked, is drawn from [low, high]; [r, r] is a fixed ratio. ``weight``: the
    paper's 1/t, or none. ``normaliser``: the loss is divided by the valid or the masked tokens of the global batch.
    """

    t_range: Range[Share]
    weight: Literal["inverse_t", "none"]
    normaliser: Literal["valid_tokens", "masked_tokens"]

    abilities: ClassVar = {
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
    def estimators(self) -> tuple[str, ...]:
        """The paper's own first; a model of one mask ratio has no bound."""
        low, high = self.t_range
        if low == high == 1:
            return ("parallel",)
        if low == high:
            return ("fixed_ratio", "pseudo_likelihood")
        within = () if (low, high) == (0, 1) else ("monte_carlo_range",)
        return ("monte_carlo", "heuristic", *within, "parallel")


class Masked(MaskedMethod):
    """MDC, its ablations, BERT-r and parallel decoding."""

    objective: Literal["masked"]

    abilities: ClassVar = {**MaskedMethod.abilities, "train": "mdc.methods.masked.loss"}


METHOD = Masked
