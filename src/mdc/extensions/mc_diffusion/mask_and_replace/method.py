"""The parameters of mask-and-replace diffusion."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.backbones import AnyBackbone, FrozenBackbone
from mdc.plan.config.caption import Decoding, Diffusing
from mdc.plan.config.method import Method
from mdc.plan.config.types import Strict


class Guidance(Strict):
    """Training for guidance: the condition is degraded in a share ``degraded`` of samples.

    ``cfg``: every vector of the condition becomes zeros. ``mcs``: each becomes [MASK], a learnt vector, with the probability
    ``mask_rate``.
    """

    kind: Literal["cfg", "mcs"]
    degraded: Annotated[float, Field(gt=0, lt=1)]
    mask_rate: Annotated[float, Field(gt=0, le=1)] | None = None

    @model_validator(mode="after")
    def _rate(self) -> Self:
        if (self.kind == "mcs") != (self.mask_rate is not None):
            need = "needs" if self.mask_rate is None else "does not take"
            raise ValueError(f"guidance of kind {self.kind} {need} mask_rate")
        return self


class MaskAndReplace(Method):
    """``diffusion_steps`` T; the share ``replaced`` of tokens that are replaced by another class at T (the others are [MASK]);
    ``guidance``: how it is trained for guidance, if it is."""

    objective: Literal["mask_and_replace"]
    diffusion_steps: Annotated[int, Field(ge=2)]
    replaced: Annotated[float, Field(ge=0, lt=1)]
    guidance: Guidance | None = None

    family = "mask-and-replace"
    abilities: ClassVar = {
        "train": "mdc.extensions.mc_diffusion.mask_and_replace.loss",
        "generate": "mdc.extensions.mc_diffusion.mask_and_replace.generate",
    }
    decoding = "diffuse"
    takes_words = True

    def misfits(self, name: str, backbone: AnyBackbone, place: str) -> Iterator[str]:
        yield from super().misfits(name, backbone, place)
        if self.guidance is not None and not isinstance(backbone, FrozenBackbone):
            yield f"{place}: trains its own encoder, and {name} learns guidance, whose condition must be a frozen encoder's"

    def refusal(self, name: str, policy: Decoding, context_length: int) -> str | None:
        if not isinstance(policy, Diffusing):
            return super().refusal(name, policy, context_length)
        if policy.steps is not None and policy.steps > self.diffusion_steps:
            return f"{policy.steps} steps: {name} has {self.diffusion_steps} at most"
        none = 1 if policy.orientation == "cfg" else 0
        if policy.guidance != none and self.guidance is None:
            only = "1" if none else "0 as_printed"
            return f"{name} is not trained for guidance; only the scale {only} is possible"
        return None


METHOD = MaskAndReplace
