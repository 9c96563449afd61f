"""Tiny models and batches for tests."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from mdc.data.loader.batch import CaptionBatch
from mdc.models.build import ModelSetup, build
from mdc.models.encoder import build_encoder
from mdc.models.image_text import ImageText
from mdc.models.pixel_encoder import PixelEncoder
from mdc.models.visual_context import count_of_tokens
from mdc.plan import parts
from mdc.plan.config.kinds.backbones import Backbone, Decoder
from mdc.plan.config.kinds.heads import Probe
from mdc.plan.config.method import Method
from mdc.plan.config.methods import method as made
from mdc.plan.config.params import ProtocolData, ProtocolPretrain, ProtocolProbe
from mdc.plan.config.pretrain import Recipe, Runtime
from mdc.plan.jobs.model import PretrainJob, ProbeJob, Protocol
from mdc.plan.processes.group import NOTHING
from mdc.training.objectives.objective import Objective, Setup
from mdc.training.state import Saver, States, decisive

CPU = torch.device("cpu")
V = 40  # predictable tokens; SOT and EOT are the last two of them
SOT, EOT, MASK = V - 2, V - 1, V

BACKBONE = Backbone(
    label="toy",
    image_size=16,
    patch_size=8,
    width=32,
    layers=2,
    heads=2,
    embed_dim=16,
    decoder=Decoder(width=32, layers=2, heads=2),
)


def _of_extension(name: str, objective: str, **values: Any) -> dict[str, Method]:
    """A method, or none if its extension is left out."""
    there = objective in parts.METHODS
    return {name: made(label=name, objective=objective, pooling="patch_mean", **values)} if there else {}


MASKED: dict[str, Any] = {"t_range": (0.5, 1.0), "weight": "inverse_t", "normaliser": "valid_tokens"}
METHODS = {
    "clip": made(label="CLIP", objective="contrastive", pooling="cls"),
    "arc": made(label="ARC", objective="autoregressive", pooling="patch_mean"),
    "mdc": made(label="MDC", objective="masked", pooling="patch_mean", **MASKED),
    **_of_extension("lstm", "recurrent", doubly_stochastic=0.7),
}

#: methods of the paper's neighbours
NEIGHBOURS = {
    **_of_extension("cappa", "cappa"),
    **_of_extension("bicaptioning", "bicaptioning"),
    **_of_extension("superclass", "superclass"),
    **_of_extension("complementary", "complementary"),
    **_of_extension("dropped", "dropped", patches_kept=0.5, **MASKED),
    **_of_extension("timed", "timed", **MASKED),
}

#: a caption of a toy batch has 15 places after SOT, which this one fills up
ALL_METHODS = {
    **METHODS,
    **NEIGHBOURS,
    **_of_extension("mcd", "mask_and_replace", diffusion_steps=10, replaced=0.1),
}

PROTOCOL = ProtocolPretrain(
    optimizer="AdamW",
    lr_schedule="cosine",
    least_t=1e-3,
    t_draw="stratified",
    adam_eps=1e-6,
    final_lr=0.0,
    temperature=0.07,
    max_logit_scale=100.0,
    clip_text_attention="causal",
    mask_duplicates_over=0.05,
    crop_scale=(0.9, 1.0),
    crop_ratio=(0.75, 4 / 3),
)

RUNTIME = Runtime(workers=0, log_every=1)


class FifthSteps(Saver):
    """Saves after every fifth step, so that a state can be older than what was killed; in the place of the trainer's."""

    _asked = 0

    def due(self) -> bool:
        self._asked += 1
        return self._asked % 5 == 0


def recipe(**changes: Any) -> Recipe:
    values: dict[str, Any] = {
        "epochs": 1,
        "batch_size": 8,
        "accumulation": 1,
        "processes": 1,
        "lr": 3e-3,
        "warmup_steps": 2,
        "weight_decay": 0.1,
        "beta1": 0.9,
        "beta2": 0.98,
        "clip_norm": 1.0,
        "precision": "fp32",
        "compile": False,
        "threads": 1,
        "device": "cpu",
        "validate_every": 1000,
    }
    return Recipe(**(values | changes))


def build_model(*arguments: Any, **named: Any) -> Any:
    """The model of a method."""
    return build(ModelSetup(*arguments, **named))


def model(method: str | Method, seed: int = 0, context: int = 77, backbone: Any = BACKBONE) -> Any:
    """Of a method above or any other."""
    entry = ALL_METHODS[method] if isinstance(method, str) else method
    return build_model(entry, backbone, PROTOCOL, V, context, seed)


def assert_same_start(backbone: Backbone) -> None:
    """All methods start from the same encoder of a ``backbone``, and from their seed alone."""
    seed = 5
    start = build_encoder(backbone, seed).state_dict()
    assert not same_tensors(build_encoder(backbone, seed + 1).state_dict(), start)
    for method in ALL_METHODS:
        torch.manual_seed(seed + 100)
        before = torch.get_rng_state()
        built_of = model(method, seed, backbone=backbone)
        assert torch.equal(torch.get_rng_state(), before), "the global generator is left alone"
        assert same_tensors(built_of.encoder.state_dict(), start)
        torch.manual_seed(seed + 200)
        assert same_tensors(built_of.state_dict(), model(method, seed, backbone=backbone).state_dict())
    other_words = build_model(METHODS["mdc"], backbone, PROTOCOL, V + 9, 77, seed)
    assert same_tensors(other_words.encoder.state_dict(), start)


def scorer(method: str, of: Any, *settings: Any) -> Any:
    """What scores captions by a model ``of`` a method above; ``settings``: [MASK]'s id, precision, device, batch_tokens."""
    return ALL_METHODS[method].load("score").Scorer(of, *settings)


def writer(method: str, of: Any, *settings: Any) -> Any:
    """The same for captions; ``settings``: vocabulary, precision, device, batch_tokens."""
    return ALL_METHODS[method].load("generate").Writer(of, *settings)


def perturbed(method: str, seed: int = 0, by: float = 0.1) -> Any:
    """A model whose predictions differ from token to token, as a trained one's do."""
    found, generator = model(method, seed, context=16), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * by)
    return found.eval()


def build_objective(model: ImageText, method: Method, *arguments: Any, **named: Any) -> Objective:
    """The objective of a method, by its module."""
    own = {name: named.pop(name) for name in ("duplicate_share", "group") if name in named}
    built: Objective = method.load("train").build_objective(model, Setup(method, *arguments, **own), **named)
    return built


def objective(method: str | Method, of: ImageText, precision: str = "fp32", **more: Any) -> Objective:
    """Of a model of that method, for batches of eight."""
    entry = ALL_METHODS[method] if isinstance(method, str) else method
    places = {"length": 15} if entry.objective == "mask_and_replace" else {}
    return build_objective(of, entry, PROTOCOL, MASK, 8, precision, **places, **more)


def gradients(of: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in of.named_parameters() if p.grad is not None}


def backward(
    objective: Objective, batch: CaptionBatch, parts: int = 1, device: torch.device | None = None
) -> dict[str, torch.Tensor]:
    """A step's gradients as the trainer has them made; what was measured."""
    prepared = objective.prepare(batch, parts)
    there = prepared if device is None else tree_map_only(Tensor, lambda tensor: tensor.to(device), prepared)
    return objective.backward(there)


def job(method: Method, recipe: Recipe, **changes: Any) -> PretrainJob:
    """A run of the toy backbone."""
    return PretrainJob(
        **{
            "job": "runs/toy/toy/method/s0",
            "verb": "pretrain",
            "scale": "toy",
            "fingerprint": "f",
            "inputs": ["data/corpora/toy", "data/vocabularies/toy"],
            "corpus": "toy",
            "vocabulary": "toy",
            "backbone_name": "toy",
            "method_name": "method",
            "seed": 0,
            "backbone": BACKBONE,
            "method": method,
            "recipe": recipe,
            "protocol": Protocol(data=ProtocolData(context_length=77), pretrain=PROTOCOL),
            **changes,
        }
    )


def probe_job(lr: float = 0.1, **changes: Any) -> ProbeJob:
    """The probes of an encoder; without a ``run`` of the untrained one."""
    values: dict[str, Any] = {
        "job": "probe/untrained/toy/patch_mean/s0",
        "verb": "probe",
        "scale": "toy",
        "fingerprint": "f",
        "inputs": ["data/probes/light"],
        "probes": ["light"],
        "recipe": Probe(
            lr=lr, epochs=5, batch_size=16, seed=0, feature_batch=32, precision="fp32", threads=1, device="cpu"
        ),
        "protocol": ProtocolProbe(normalise=False, weight_decay=0.0),
        "backbone_name": "toy",
        "backbone": BACKBONE,
        "seed": 0,
        "pooling": "patch_mean",
        "run": None,
        "run_config_sha256": None,
        **changes,
    }
    if values["run"]:
        values["inputs"] = [*values["inputs"], values["run"]]
    return ProbeJob(**values)


def states(folder: Path, of: PretrainJob) -> States:
    """The states of a run whose inputs nobody reads."""
    return States(folder, {"config": decisive(of.config()), "inputs": dict.fromkeys(of.inputs, "0" * 64)})


@dataclass(frozen=True)
class Data:
    """Batches made as they are asked for: ``batches(k)`` yields those of steps k, k + 1, …"""

    steps: int
    batches: Callable[[int], Iterable[CaptionBatch]]


class Killed(Exception):
    """Stands for a kill: nothing of the trainer runs after it."""


@dataclass(frozen=True)
class Trained:
    """``segments``: what the steps were computed with; ``asked``: the steps whose batches were asked for."""

    model: Any
    segments: list[Any]
    asked: list[int]
    weights: dict[str, torch.Tensor]


def trained(
    state: Path,
    method: str | Method = "mdc",
    steps: int = 12,
    by: Recipe | None = None,
    *,
    kill_at: int | None = None,
    batch_of: Callable[[int, Any], CaptionBatch] = lambda step, _: batch(8, seed=step, draws=True),
    validate: Callable[[], dict[str, float]] | None = None,
    runtime: Runtime = RUNTIME,
    profile: Any = NOTHING,
    device: torch.device = CPU,
    begins: Callable[[torch.nn.Module], object] = id,
    least_seconds: float | None = None,
    **changes: Any,
) -> Trained:
    """A run of so many steps by the recipe ``by``, whose states and log lie in ``state``; ``changes`` are of its job.

    ``begins`` may change the model that nobody has trained. ``batch_of(step, model)``: the batch of a step; at the step
    ``kill_at`` the run is killed in the place of it.
    """
    from mdc.training.trainer import Training, train

    entry, chosen = ALL_METHODS[method] if isinstance(method, str) else method, by or recipe()
    torch.set_num_threads(chosen.threads)
    net, asked = model(entry).to(device), list[int]()
    begins(net)
    made = objective(entry, net, chosen.precision)

    def batches(start: int) -> Iterable[CaptionBatch]:
        for step in range(start, steps):
            if step == kill_at:
                raise Killed
            asked.append(step)
            yield batch_of(step, net)

    asked_of = job(entry, chosen, **changes)
    kept = states(state, asked_of)
    with patch("mdc.training.trainer.Saver", FifthSteps):
        done = train(
            Training(asked_of, net, made, Data(steps, batches), device, validate, least_seconds=least_seconds),
            kept,
            runtime,
            profile=profile,
        )
    return Trained(net, done.segments, asked, net.state_dict())


def batch(size: int = 8, seed: int = 0, longest: int = 14, width: int = 16, draws: bool = False) -> CaptionBatch:
    """A random batch as the loader yields it: captions of different lengths, none twice; ``draws``: also those that the loader
    makes for some methods alone."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(4, longest + 1, (size,), generator=generator)
    tokens = torch.randint(0, SOT, (size, width), generator=generator)
    for row, length in enumerate(lengths.tolist()):
        tokens[row, 0] = SOT
        tokens[row, length - 1 :] = EOT
    return CaptionBatch(
        images=torch.randint(0, 256, (size, 3, 16, 16), generator=generator, dtype=torch.uint8),
        keys=[f"sample{i}" for i in range(size)],
        tokens=tokens,
        lengths=lengths,
        jitter=torch.rand(size, generator=generator),
        uniforms=torch.rand(size, width, generator=generator),
        place=torch.arange(size),
        caption_hash=torch.arange(size),
        token_draws=torch.rand(size, width, generator=generator) if draws else None,
        image_draws=torch.rand(size, 1 + count_of_tokens(BACKBONE), generator=generator) if draws else None,
    )


@contextmanager
def in_double() -> Iterator[None]:
    """Pixels in float64."""

    def prepared(self: PixelEncoder, images: torch.Tensor) -> torch.Tensor:
        return images.double() * self.pixel_scale - self.pixel_shift

    with patch.object(PixelEncoder, "prepared", prepared):
        yield


def same_tensors(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    """Whether two state dictionaries hold the same names and the same bits."""
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
