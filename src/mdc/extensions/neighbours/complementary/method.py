"""The parameters of complementary masks, which have none of their own: t is drawn from [0, 1], and tokens weigh 1/t."""

from typing import ClassVar, Literal

from mdc.plan.config.method import Method


class Complementary(Method):
    objective: Literal["complementary"]

    gone = ("method.t_range", "method.weight", "method.normaliser")
    abilities: ClassVar = {
        "train": "mdc.extensions.neighbours.complementary.loss",
        "score": "mdc.methods.masked.score",
        "generate": "mdc.methods.masked.generate",
        "positions": "mdc.methods.masked.positions",
    }
    decoding = "unmask"

    @property
    def masked_share(self) -> tuple[float, float] | None:
        return (0.0, 1.0)

    @property
    def estimators(self) -> tuple[str, ...]:
        return ("monte_carlo", "heuristic", "parallel")


METHOD = Complementary
