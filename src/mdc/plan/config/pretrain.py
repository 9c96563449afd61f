"""Pretraining: the recipe, and overrides for some runs."""

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

from mdc.plan.config.kinds.known import AnyBackbone
from mdc.plan.config.methods import BY_RUN
from mdc.plan.config.problems import first_problem, short
from mdc.plan.config.references import BackboneName, CorpusName, MethodName, ProbeName, TrainedOn
from mdc.plan.config.types import Name, NonNegative, Positive, Strict, Threads, increasing


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


Rate = Annotated[float, Field(gt=0, lt=1)]


class Optimisation(Strict):
    """The keys of a recipe in the paper's Tables 6 to 8. ``lr``: None where it is selected (:class:`LrSelection`)."""

    epochs: Positive
    batch_size: Positive
    lr: Rate | None = None
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
    ``clip_norm``. ``average``: of the weights. ``reduce``: the dtype of gradients in the all-reduce, by default their own.
    ``activation_checkpointing``: activations are recomputed in the backward pass. ``order``: of an epoch's samples, a global
    permutation or shard by shard. ``kernel``: false computes a captioner's loss on CUDA by PyTorch's operations instead of our
    Triton kernel.
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


class LrSelection(Strict):
    """How the learning rate of each method is chosen, alike for all: of ``grid`` the rate with the best mean over ``seeds``, by
    the linear probe of the set ``by`` on ``held_out`` of its training items, on which that probe is not fitted.

    No table shows these items, and no run of a table has these seeds. Rates are chosen for each corpus and backbone.
    """

    grid: Annotated[list[Rate], Field(min_length=3), AfterValidator(increasing)]
    seeds: Annotated[list[NonNegative], Field(min_length=1)]
    by: ProbeName
    held_out: Positive


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
    """``set``: keys of the recipe, and keys of a method that it may set (:attr:`mdc.plan.config.method.Method.by_run`)."""

    when: When
    set: dict[str, Any]

    @property
    def recipe(self) -> dict[str, Any]:
        """The keys of the recipe."""
        return {key: value for key, value in self.set.items() if key not in BY_RUN}

    @property
    def method(self) -> dict[str, Any]:
        """The keys of the method."""
        return {key: value for key, value in self.set.items() if key in BY_RUN}


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
    """``lr_selection``: instead of the recipe's ``lr``. ``variants``: for a corpus, several values of one key of the recipe, as
    ``{dense: {epochs: [2, 4]}}``. Tables use each as a corpus CORPUS_VALUE (``dense_4``). ``overrides`` may name it, too, and
    have priority."""

    backbones: dict[Name, AnyBackbone]
    seeds: Annotated[list[NonNegative], Field(min_length=1)]
    recipe: Recipe
    lr_selection: LrSelection | None = None
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
    def _rates(self) -> Self:
        selection = self.lr_selection
        if selection is None:
            if self.recipe.lr is None:
                raise ValueError("recipe.lr: this key is missing; give a rate, or lr_selection, by which one is chosen")
            return self
        if both := sorted({*selection.seeds} & {*self.seeds}):
            raise ValueError(
                f"lr_selection.seeds: {both[0]} is also one of seeds, from which claims are made; use others"
            )
        sets: list[tuple[str, dict[str, Any]]]
        sets = [("recipe", {"lr": self.recipe.lr} if self.recipe.lr is not None else {})]
        sets += [(f"variants.{corpus}", axis) for corpus, axis in self.variants.items()]
        sets += [(f"overrides[{number}].set", override.set) for number, override in enumerate(self.overrides)]
        for where, changes in sets:
            if "lr" in changes:
                raise ValueError(f"{where}.lr: lr_selection chooses the rate of every run; leave it out")
        return self

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
            self._check_recipe(f"overrides[{number}].set", override.recipe)
        return self

    def _check_recipe(self, where: str, changes: dict[str, Any]) -> None:
        values = {**self.recipe.model_dump(), **changes}
        try:
            Recipe.model_validate(values)
        except ValidationError as error:
            raise ValueError(f"{where}: {first_problem(error, values)}") from None
