"""The parameters of mask-and-replace diffusion."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mdc.extensions.mc_diffusion.kinds import WordsName
from mdc.plan.config.decoding import Decoding
from mdc.plan.config.kinds.backbones import FrozenBackbone
from mdc.plan.config.kinds.known import AnyBackbone
from mdc.plan.config.method import Method
from mdc.plan.config.types import NonNegative, Positive, SomeUnique, Strict
from mdc.plan.records import UserError


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


_Scale = Annotated[float, Field(ge=0, le=100)]


class Diffusing(Decoding):
    """Sampling from a model of mask-and-replace diffusion in ``steps`` steps; None: one for each of its diffusion steps, as in
    the paper (docs/mc-diffusion.md).

    ``policy``: posterior samples from p(x_s | x_t); best_first fixes the most confident positions at each step. ``guidance``: the
    scale s; 1 is none. ``orientation``: s multiplies the full condition (cfg) or the degraded one (as_printed).
    ``condition_mask``: the degradation is drawn per_step, or once per_image. ``seed``: of all draws.
    """

    kind: Literal["diffuse"]
    steps: Positive | None = None
    policy: Literal["posterior", "best_first"] = "posterior"
    guidance: _Scale = 1.0
    orientation: Literal["cfg", "as_printed"] = "cfg"
    condition_mask: Literal["per_step", "per_image"] = "per_step"
    seed: NonNegative = 0

    in_words = "diffusion"
    cli_options = ("steps", "guidance")
    cli_policies = ("posterior", "best_first")

    @property
    def shown_as(self) -> str:
        return "drawn" if self.policy == "posterior" else "best first"

    @classmethod
    def usual(cls, method: Any, room: int, canvas: int | None, options: Mapping[str, Any]) -> Self:
        return cls(kind="diffuse", **{"steps": min(25, method.diffusion_steps), **options})


class SweptDiffusing(Diffusing):
    """Diffusion with one ``guidance`` scale or several, one system for each."""

    guidance: _Scale | SomeUnique[_Scale] = 1.0  # type: ignore[assignment]


class MaskAndReplace(Method):
    """``diffusion_steps`` T; the share ``replaced`` of tokens that are replaced by another class at T (the others are [MASK]);
    ``auxiliary``: the weight λ of the auxiliary loss; ``guidance``: how it is trained for guidance, if it is; ``words``: a key of
    the scale's ``words``, whose embeddings of BPE tokens the decoder uses, frozen. ``words_sha256``: of a job, the configuration
    hash of the job that imports them."""

    objective: Literal["mask_and_replace"]
    diffusion_steps: Annotated[int, Field(ge=2)]
    replaced: Annotated[float, Field(ge=0, lt=1)]
    auxiliary: Annotated[float, Field(ge=0)] = 0.0
    guidance: Guidance | None = None
    words: WordsName | None = None
    words_sha256: str | None = None

    family = "mask-and-replace"
    abilities: ClassVar = {
        "train": "mdc.extensions.mc_diffusion.mask_and_replace.loss",
        "generate": "mdc.extensions.mc_diffusion.mask_and_replace.generate",
    }
    decoding = "diffuse"
    decodings: ClassVar = {"diffuse": (Diffusing, SweptDiffusing)}
    finetunes = False
    gone = ("recipe.auxiliary",)
    by_run = ("auxiliary", "words")

    def misfits(self, name: str, backbone: AnyBackbone, place: str) -> Iterator[str]:
        yield from super().misfits(name, backbone, place)
        if self.guidance is not None and not isinstance(backbone, FrozenBackbone):
            yield f"{place}: trains its own encoder, and {name} learns guidance, whose condition must be a frozen encoder's"

    def needed(self, plan: Any, run: Any) -> tuple[Self, list[str]]:
        from mdc.extensions.mc_diffusion.jobs import words

        if self.words is None:
            return self, []
        imported, decoder = words(plan, self.words), plan.scale.training.backbones[run.backbone].decoder
        if imported.entry.width != decoder.width:
            raise UserError(
                f"{plan.file}: run {run.id}: words.{self.words}.width = {imported.entry.width}, and "
                f"pretrain.backbones.{run.backbone}.decoder.width is {decoder.width}"
            )
        return self.but(words_sha256=imported.sha256), [imported.job]

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
