"""Pretraining: methods, the recipe, and overrides for some runs."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from mdc.plan.config.backbones import AnyBackbone
from mdc.plan.config.problems import first_problem, short
from mdc.plan.config.references import BackboneName, CorpusName, MethodName, TrainedOn
from mdc.plan.config.types import Name, NonNegative, Positive, Range, Share, Strict, Threads, increasing
from mdc.plan.parts import OBJECTIVES, family_of


def _objective(name: str) -> str:
    if name not in OBJECTIVES:
        raise ValueError(f"no objective is named '{name}'; allowed: {', '.join(OBJECTIVES)}")
    return name


class Guidance(Strict):
    """Training for guidance (MC-Diffusion): the condition is degraded in a share ``degraded`` of samples.

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


#: by family: the keys that its objectives need, and no other takes
_NEEDS = {
    "masked": ("t_range", "weight", "normaliser"),
    "mask_and_replace": ("diffusion_steps", "replaced"),
    "recurrent": ("doubly_stochastic",),
}
#: by key: the objectives that take it; a new key of a method that is in none of these three is refused for every objective
_TAKES = {
    "direction": ("autoregressive",),
    "layers": ("autoregressive",),
    "guidance": ("mask_and_replace",),
    "timed": ("masked",),
    "patches_kept": ("masked", "autoregressive"),
}
_ANY = {"label", "objective", "pooling", "steps", "batch_factor", "ranked"}


class Method(Strict):
    """An objective with its values. MDC, its ablations and BERT-r are one masked objective with different values.

    ``direction: right_to_left``: an autoregressive method that predicts a caption's tokens from the last to the first.

    For mask-and-replace diffusion: ``diffusion_steps`` T, the share ``replaced`` of tokens that are replaced by another class at
    T (the others are [MASK]), and ``guidance``. For an LSTM with soft attention: the weight λ of the ``doubly_stochastic`` term.

    ``timed``: a masked method's decoder is conditioned on t. ``patches_kept``: the share of patch tokens that a decoder reads in
    training. ``layers``: ``half`` is an autoregressive decoder of half the layers. ``steps``: ``half`` is half the epochs.
    """

    label: str
    objective: Annotated[str, AfterValidator(_objective)]
    pooling: Literal["patch_mean", "cls"]
    t_range: Range[Share] | None = None
    weight: Literal["inverse_t", "none"] | None = None
    normaliser: Literal["valid_tokens", "masked_tokens"] | None = None
    direction: Literal["right_to_left"] | None = None
    diffusion_steps: Annotated[int, Field(ge=2)] | None = None
    replaced: Annotated[float, Field(ge=0, lt=1)] | None = None
    guidance: Guidance | None = None
    doubly_stochastic: Annotated[float, Field(ge=0)] | None = None
    timed: bool = False
    patches_kept: Annotated[float, Field(gt=0, lt=1)] | None = None
    layers: Literal["half"] | None = None
    steps: Literal["half"] | None = None
    batch_factor: Positive = 1
    ranked: bool = True

    @model_validator(mode="after")
    def _masked(self) -> Self:
        for family, keys in _NEEDS.items():
            for key in keys:
                value = getattr(self, key)
                if (family_of(self.objective) == family) != (value is not None):
                    need = "needs" if value is None else "does not take"
                    raise ValueError(f"objective {self.objective} {need} {key}")
        elsewhere = _ANY.union(*_NEEDS.values())
        for key in type(self).model_fields:
            if key not in elsewhere and getattr(self, key) and self.objective not in _TAKES.get(key, ()):
                raise ValueError(f"objective {self.objective} does not take {key}")
        values = self.t_range, self.weight, self.normaliser
        if self.objective == "complementary" and values != ((0.0, 1.0), "inverse_t", "valid_tokens"):
            raise ValueError(
                "objective complementary needs t_range [0.0, 1.0], weight inverse_t and normaliser valid_tokens"
            )
        if self.t_range is not None:
            low, high = self.t_range
            if low > high:
                raise ValueError(f"t_range [{low}, {high}] is reversed; write [low, high] with 0 <= low <= high <= 1")
            if high == 0:
                raise ValueError("t_range [0, 0] masks nothing; its upper end must be above 0")
        return self

    @property
    def fixed_ratio(self) -> float | None:
        """The mask ratio, if it is the same for all captions; otherwise None."""
        return self.t_range[0] if self.t_range is not None and self.t_range[0] == self.t_range[1] else None

    @property
    def usual_pooling(self) -> Literal["patch_mean", "cls"]:
        """The feature that probes see unless ``pooling`` says otherwise: a run's own configuration has no pooling."""
        return "cls" if self.objective == "contrastive" else "patch_mean"


class Average(Strict):
    """Exponential moving average of the weights, updated every ``every`` steps with ``decay``, less at the beginning
    (:mod:`mdc.training.average`). A run with one validates and saves the average."""

    decay: Annotated[float, Field(gt=0, lt=1)]
    every: Positive


class Buffer(Strict):
    """Size of the shuffle buffer, in samples."""

    buffer: Positive


class Blocks(Strict):
    """An epoch reads the shards in random order, and shuffles their samples within a buffer."""

    blocks: Buffer


def _which_order(value: Any) -> str:
    return "blocks" if isinstance(value, dict | Blocks) else "global"


def _an_order(value: Any) -> Any:
    if value != "global" and not isinstance(value, dict | Blocks):
        raise ValueError("neither global nor blocks: {buffer: 10000}")
    return value


AnyOrder = Annotated[
    Annotated[Literal["global"], Tag("global")] | Annotated[Blocks, Tag("blocks")],
    Discriminator(_which_order),
    BeforeValidator(_an_order),
]


class Optimisation(Strict):
    """The keys of a recipe in the paper's Tables 6 to 8."""

    epochs: Positive
    batch_size: Positive
    lr: Annotated[float, Field(gt=0, lt=1)]
    warmup_steps: NonNegative
    weight_decay: Annotated[float, Field(ge=0, lt=1)]
    beta1: Annotated[float, Field(ge=0, lt=1)]
    beta2: Annotated[float, Field(ge=0, lt=1)]
    clip_norm: Annotated[float, Field(gt=0)] | None


def snapshot_name(share: float) -> str:
    """The part of a name that says after which share of its steps a run's weights are meant."""
    return f"at-{share:g}"


def _names_differ(shares: list[float]) -> list[float]:
    if len(set(map(snapshot_name, shares))) < len(shares):
        raise ValueError(f"{shares}: two of them have the same name; six digits of a share count")
    return shares


class Recipe(Optimisation):
    """How a run is optimised. Overrides may change any key for some runs.

    ``snapshots``: the shares of its steps after which a run saves its weights, besides the last and the best on held-out pairs.
    ``lr_schedule``: ``constant`` after the warm-up instead of the protocol's cosine. ``clip_steps``: the number of steps with
    ``clip_norm``. ``average``: of the weights. ``auxiliary``: for mask-and-replace diffusion, the weight λ of predicting the
    caption itself. ``reduce``: the dtype of gradients in the all-reduce, by default their own. ``activation_checkpointing``:
    activations are recomputed in the backward pass. ``order``: of an epoch's samples, a global permutation or shard by shard.
    ``kernel``: false computes a captioner's loss on CUDA by PyTorch's operations instead of our Triton kernel.
    """

    accumulation: Positive
    processes: Positive
    precision: Literal["fp32", "bf16"]
    compile: bool
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]
    validate_every: Positive
    snapshots: Annotated[
        list[Annotated[float, Field(gt=0, lt=1)]], AfterValidator(increasing), AfterValidator(_names_differ)
    ] = Field(default_factory=list)
    lr_schedule: Literal["constant"] | None = None
    clip_steps: Positive | None = None
    average: Average | None = None
    auxiliary: Annotated[float, Field(ge=0)] | None = None
    reduce: Literal["bf16"] | None = None
    activation_checkpointing: Literal[True] | None = None
    kernel: Literal[False] | None = None
    order: AnyOrder = "global"

    @model_validator(mode="after")
    def _parts(self) -> Self:
        if self.batch_size % (self.accumulation * self.processes):
            raise ValueError(
                f"batch_size {self.batch_size} must be a multiple of accumulation times processes "
                f"({self.accumulation} · {self.processes})"
            )
        return self


class Runtime(Strict):
    """How a run proceeds. These keys never change a result, so a change reruns nothing.

    ``save_every``: minimal seconds between resumable states; longer where saving would take more than 2 % of the run's time. 0: a
    state after every step.
    """

    workers: NonNegative
    log_every: Positive
    save_every: NonNegative = 60


class When(Strict):
    """The runs that an override applies to. Every key that is set must match."""

    corpus: list[TrainedOn] | None = None
    backbone: list[BackboneName] | None = None
    method: list[MethodName] | None = None

    def matches(self, corpus: str, backbone: str, method: str) -> bool:
        pairs = ((self.corpus, corpus), (self.backbone, backbone), (self.method, method))
        return all(allowed is None or value in allowed for allowed, value in pairs)


class Override(Strict):
    when: When
    set: dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """A ``corpus`` whose runs have another ``value`` of one ``key`` of the recipe."""

    corpus: str
    key: str
    value: Any

    def label(self, corpus: str) -> str:
        """Its label, from the corpus's label ``corpus``."""
        if self.key == "epochs":
            return f"{corpus}, {self.value} epoch{'s' * (self.value != 1)}"
        return f"{corpus}, {self.key} {self.value:g}"


def variant_name(corpus: str, value: float) -> str:
    """The variant's name in tables."""
    return f"{corpus}_{value:g}".replace(".", "_")


class Pretrain(Strict):
    """``variants``: for a corpus, several values of one key of the recipe, as ``{dense: {epochs: [2, 4]}}``. Tables use each as a
    corpus CORPUS_VALUE (``dense_4``). ``overrides`` may name it, too, and have priority."""

    backbones: dict[Name, AnyBackbone]
    seeds: Annotated[list[NonNegative], Field(min_length=1)]
    recipe: Recipe
    runtime: Runtime
    variants: dict[
        CorpusName, Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1, max_length=1)]
    ] = Field(default_factory=dict)
    overrides: list[Override] = Field(default_factory=list)

    @cached_property
    def varied(self) -> dict[str, Variant]:
        """Every variant, by its name in tables."""
        return {
            variant_name(corpus, value): Variant(corpus, key, value)
            for corpus, axis in self.variants.items()
            for key, values in axis.items()
            for value in values
        }

    @model_validator(mode="after")
    def _variants(self) -> Self:
        for corpus, axis in self.variants.items():
            for key, values in axis.items():
                for value in values:
                    self._check_recipe(f"variants.{corpus}", {key: value})
                    if not isinstance(value, int | float) or isinstance(value, bool):
                        raise ValueError(f"variants.{corpus}.{key} = {short(value)}: only numbers make variants")
                if len({variant_name(corpus, value) for value in values}) < len(values):
                    raise ValueError(f"variants.{corpus}.{key} = {short(values)}: two of them have the same name")
        return self

    @model_validator(mode="after")
    def _overrides(self) -> Self:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds {self.seeds} repeat one")
        for number, override in enumerate(self.overrides):
            self._check_recipe(f"overrides[{number}].set", override.set)
        return self

    def _check_recipe(self, where: str, changes: dict[str, Any]) -> None:
        values = {**self.recipe.model_dump(), **changes}
        try:
            Recipe.model_validate(values)
        except ValidationError as error:
            raise ValueError(f"{where}: {first_problem(error, values)}") from None
