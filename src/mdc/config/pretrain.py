"""Pretraining: backbones, methods, the recipe, and which runs differ from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from mdc.config.problems import first_problem
from mdc.config.types import Name, NonNegative, Positive, Share, Strict, Threads, known


class Decoder(Strict):
    """Text decoder (MDC, ARC) and, without cross-attention, CLIP's text encoder."""

    width: Positive
    layers: Positive
    heads: Positive

    @model_validator(mode="after")
    def _heads(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} must be a multiple of heads {self.heads}")
        return self


class Backbone(Strict):
    """A vision transformer and the decoder that goes with it (paper, section 4.1)."""

    label: str
    image_size: Positive
    patch_size: Positive
    width: Positive
    layers: Positive
    heads: Positive
    embed_dim: Positive
    decoder: Decoder

    @model_validator(mode="after")
    def _shape(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} must be a multiple of heads {self.heads}")
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} must be a multiple of patch_size {self.patch_size}")
        return self


class Method(Strict):
    """What is learnt from a caption. MDC, its ablations and BERT-r are one masked objective with different values."""

    label: str
    objective: Literal["masked", "autoregressive", "contrastive"]
    pooling: Literal["patch_mean", "cls"]
    t_range: tuple[Share, Share] | None = None
    weight: Literal["inverse_t", "none"] | None = None
    normaliser: Literal["valid_tokens", "masked_tokens"] | None = None
    batch_factor: Positive = 1
    ranked: bool = True

    @model_validator(mode="before")
    @classmethod
    def _list_is_a_pair(cls, value: Any) -> Any:
        # YAML has lists only; strict mode would refuse one where a tuple is declared
        if isinstance(value, dict) and isinstance(value.get("t_range"), list):
            value = {**value, "t_range": tuple(value["t_range"])}
        return value

    @model_validator(mode="after")
    def _masked(self) -> Self:
        masked_only = {"t_range": self.t_range, "weight": self.weight, "normaliser": self.normaliser}
        for key, value in masked_only.items():
            if (self.objective == "masked") != (value is not None):
                need = "needs" if value is None else "does not take"
                raise ValueError(f"objective {self.objective} {need} {key}")
        if self.t_range is not None:
            low, high = self.t_range
            if low > high:
                raise ValueError(f"t_range [{low}, {high}] is reversed; write [low, high] with 0 <= low <= high <= 1")
            if high == 0:
                raise ValueError("t_range [0, 0] masks nothing; its upper end must be above 0")
        return self

    @property
    def fixed_ratio(self) -> float | None:
        """The share of every caption that is masked, if it is the same for all."""
        return self.t_range[0] if self.t_range is not None and self.t_range[0] == self.t_range[1] else None


class Recipe(Strict):
    """Optimisation of a run; overrides may change any key for some runs."""

    epochs: Positive
    batch_size: Positive
    accumulation: Positive
    processes: Positive
    lr: Annotated[float, Field(gt=0, lt=1)]
    warmup_steps: NonNegative
    weight_decay: Annotated[float, Field(ge=0, lt=1)]
    beta1: Annotated[float, Field(ge=0, lt=1)]
    beta2: Annotated[float, Field(ge=0, lt=1)]
    clip_norm: Annotated[float, Field(gt=0)] | None
    precision: Literal["fp32", "bf16"]
    compile: bool
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]
    validate_every: Positive

    @model_validator(mode="after")
    def _parts(self) -> Self:
        if self.batch_size % (self.accumulation * self.processes):
            raise ValueError(
                f"batch_size {self.batch_size} must be a multiple of accumulation times processes "
                f"({self.accumulation} · {self.processes})"
            )
        return self


class Runtime(Strict):
    """What changes how a run proceeds, never what it produces; changing it reruns nothing."""

    workers: NonNegative
    log_every: Positive
    checkpoint_every: Positive


class When(Strict):
    """Which runs an override is for: every key that is given must match."""

    corpus: list[Name] | None = None
    backbone: list[Name] | None = None
    method: list[Name] | None = None

    def matches(self, corpus: str, backbone: str, method: str) -> bool:
        pairs = ((self.corpus, corpus), (self.backbone, backbone), (self.method, method))
        return all(allowed is None or value in allowed for allowed, value in pairs)


class Override(Strict):
    when: When
    set: dict[str, Any]


class Pretrain(Strict):
    backbones: dict[Name, Backbone]
    seeds: Annotated[list[NonNegative], Field(min_length=1)]
    recipe: Recipe
    runtime: Runtime
    overrides: list[Override] = Field(default_factory=list)

    @model_validator(mode="after")
    def _overrides(self) -> Self:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds {self.seeds} repeat one")
        for number, override in enumerate(self.overrides):
            for name in override.when.backbone or []:
                known(f"overrides[{number}].when.backbone", name, self.backbones, "backbone")
            try:
                Recipe.model_validate({**self.recipe.model_dump(), **override.set})
            except ValidationError as error:
                raise ValueError(f"overrides[{number}].set: {first_problem(error)}") from None
        return self
