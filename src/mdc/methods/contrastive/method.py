"""The parameters of CLIP, which has none of its own."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from mdc.plan.config.kinds.backbones import FrozenBackbone
from mdc.plan.config.kinds.known import AnyBackbone
from mdc.plan.config.method import Method


class Contrastive(Method):
    objective: Literal["contrastive"]

    family = "contrastive"
    loss_per = "pair"
    abilities: ClassVar = {"train": "mdc.methods.contrastive.loss", "score": "mdc.methods.contrastive.score"}
    usual_pooling = "cls"
    embeds_captions = True

    @property
    def estimators(self) -> tuple[str, ...]:
        return ("cosine",)

    def misfits(self, name: str, backbone: AnyBackbone, place: str) -> Iterator[str]:
        if isinstance(backbone, FrozenBackbone):
            yield f"{place}: {name} trains its encoder and cannot use this backbone, whose encoder is frozen"


METHOD = Contrastive
