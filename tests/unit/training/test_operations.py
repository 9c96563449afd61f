"""Operations of a step, counted from shapes, against those that PyTorch counts; and activations that are computed again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import toy
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mdc.data.loader.batch import CaptionBatch
from mdc.models.recomputing import recompute_layers
from mdc.plan.config.backbones import OnTokens
from mdc.plan.config.pretrain import Method
from mdc.plan.processes.group import Group
from mdc.training.objectives.objective import Objective

STORED = OnTokens.model_validate(
    {
        "label": "",
        "image_size": 16,
        "frozen": {"job": "encoders/e", "config_sha256": "0", "image_size": 16, "tokens": 5, "width": 24},
        "decoder": {"width": 32, "layers": 3, "heads": 2},
    }
)
MCS = {"guidance": {"kind": "mcs", "degraded": 0.5, "mask_rate": 0.5}}
DIFFUSION = toy.ALL_METHODS["mcd"]
METHODS = {**toy.ALL_METHODS, "mcd_mcs": Method.model_validate(DIFFUSION.model_dump(exclude_none=True) | MCS)}
BACKBONES = {"trained": toy.BACKBONE, "stored": STORED}


def objective_of(method: str, on: str, precision: str = "fp32", recompute: bool = False) -> Any:
    entry, backbone = METHODS[method], BACKBONES[on]
    model = toy.build_model(entry, backbone, toy.PROTOCOL, toy.V, 77, seed=0)
    more = {"length": 8} if entry.objective == "mask_and_replace" else {}
    if recompute:
        recompute_layers(model)
    return toy.build_objective(model, entry, toy.PROTOCOL, toy.MASK, 8, precision, **more)


def batch_of(on: str) -> CaptionBatch:
    draws = torch.Generator().manual_seed(1)
    found = toy.batch(8)
    stored = torch.randn(8, 5, 24, generator=draws).half()
    return CaptionBatch(
        **{
            **vars(found),
            "images": found.images if on == "trained" else stored,
            "replacement": torch.rand(found.uniforms.shape, generator=draws),
            "condition": torch.rand(8, 6, generator=draws),
        }
    )


def _in_place(_: Any, left: Any, right: Any, **__: Any) -> int:
    return int(2 * left[0] * left[1] * right[1])


def counted(objective: Objective, prepared: Any) -> int:
    """What PyTorch counts of a step; ``addmm_``, which it does not know, as a product."""
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: _in_place})
    with counter:
        objective.backward(prepared)
    return int(counter.get_total_flops())


GRID = [
    *((method, "trained") for method in ("clip", "arc", "mdc", "mcd", "lstm")),
    *((method, "stored") for method in ("arc", "mdc", "mcd", "mcd_mcs", "lstm")),
]


@pytest.mark.parametrize(
    ("parts", "recompute", "precision"), [(1, False, "fp32"), (3, False, "fp32"), (1, True, "bf16")]
)
@pytest.mark.parametrize(("method", "on"), GRID)
def test_equal_to_what_pytorch_counts(method: str, on: str, parts: int, recompute: bool, precision: str) -> None:
    """To the last operation, where attention is made of plain products."""
    objective = objective_of(method, on, precision, recompute)
    prepared = objective.prepare(batch_of(on), parts)
    found = objective.operations(prepared, BACKBONES[on], recompute)
    with sdpa_kernel(SDPBackend.MATH):
        assert sum(found) == counted(objective, prepared)
    # an LSTM on stored tokens has no layers
    layers = (method, on) != ("lstm", "stored")
    assert bool(found.again) == ((recompute and layers) or (method == "clip" and parts > 1))


class _OneOfTwo(Group):
    """The first of two processes that have the same batch."""

    def __init__(self) -> None:
        super().__init__(0, 2)

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def gather(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.cat([tensor, tensor])


@pytest.mark.parametrize("parts", [1, 3])
def test_a_process_contrasts_its_own_with_everyones(parts: int) -> None:
    objective = toy.build_objective(
        objective_of("clip", "trained").model, METHODS["clip"], toy.PROTOCOL, toy.MASK, 16, "fp32", group=_OneOfTwo()
    )
    prepared = objective.prepare(batch_of("trained"), parts)
    with sdpa_kernel(SDPBackend.MATH):
        assert sum(objective.operations(prepared, toy.BACKBONE)) == counted(objective, prepared)


def test_what_is_computed_again_is_not_needed() -> None:
    objective = objective_of("mdc", "trained")
    prepared = objective.prepare(batch_of("trained"))
    plain = objective.operations(prepared, toy.BACKBONE)
    more = objective.operations(prepared, toy.BACKBONE, recompute=True)
    assert plain.again == 0 and more.needed == plain.needed
    assert plain.needed / 5 < more.again < plain.needed / 3, "less than one more forward pass"


def gradients(method: str, backbone: Any, recompute: bool) -> tuple[dict[str, torch.Tensor], int]:
    """A step's gradients, and how many numbers the backward pass was left."""
    model = toy.model(method, backbone=backbone)
    if recompute:
        recompute_layers(model)
    objective = toy.objective(method, model)
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        toy.backward(objective, toy.batch(8))
    return toy.gradients(model), sum(kept.values())


@pytest.mark.parametrize("backbone", [toy.BACKBONE, toy.CONVOLUTIONAL], ids=["transformer", "convolutional"])
@pytest.mark.parametrize("method", ["mdc", "arc", "clip"])
def test_recomputing_changes_no_bit_of_a_gradient_and_keeps_less(method: str, backbone: Any) -> None:
    (plain, memory), (again, less) = gradients(method, backbone, False), gradients(method, backbone, True)
    assert toy.same_tensors(plain, again) and any(name.startswith("encoder.tower") for name in plain)
    assert less < memory / (2 if backbone is toy.BACKBONE else 1)
