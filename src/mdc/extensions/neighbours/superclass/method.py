"""The parameters of SuperClass, which has none of its own."""

from typing import Any, ClassVar, Literal, Self

from mdc.plan.config.method import Method


class SuperClass(Method):
    objective: Literal["superclass"]

    family = "sets of tokens"
    loss_per = "pair"
    abilities: ClassVar = {
        "train": "mdc.extensions.neighbours.superclass.loss",
        "score": "mdc.extensions.neighbours.superclass.score",
    }

    def needed(self, plan: Any, run: Any) -> tuple[Self, list[str]]:
        from mdc.extensions.neighbours.jobs import frequencies

        return self, [frequencies(plan, plan.corpus_of(run)).job]

    @property
    def reads_patches(self) -> bool:
        return True

    @property
    def estimators(self) -> tuple[str, ...]:
        return ("bag_of_words",)


METHOD = SuperClass
