"""The training loop: it learns, it resumes to the bit, accumulation changes nothing, and it stops on nonsense."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import toy
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from mdc.config import Recipe
from mdc.models.build import build_model
from mdc.objectives.objective import build_objective
from mdc.processes.lock import locked
from mdc.records import UserError, read_json_lines
from mdc.training.checkpoint import LATEST, PREVIOUS, load_weights, save_weights
from mdc.training.optimizer import build_optimizer, learning_rate
from mdc.training.trainer import train

CPU = torch.device("cpu")


class Killed(Exception):
    """Stands for a kill: nothing of the trainer runs after it."""


def _train(
    method: str,
    state: Path,
    steps: int,
    recipe: Recipe | None = None,
    kill_at: int | None = None,
    spoil_at: int | None = None,
    same_batch: bool = False,
    validate: Any = None,
) -> torch.nn.Module:
    torch.set_num_threads(1)
    recipe = recipe or toy.recipe()
    model = build_model(toy.METHODS[method], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed=0)
    objective = build_objective(model, toy.METHODS[method], toy.PROTOCOL, toy.MASK, 8, recipe.precision)

    def batches(start: int) -> Iterator[dict[str, Any]]:
        for step in itertools.count(start):
            if step == kill_at:
                raise Killed
            batch = toy.batch(8, seed=0 if same_batch else step)
            if same_batch:  # the pairs stay, the noise is new
                noise = torch.Generator().manual_seed(step)
                batch["uniforms"] = torch.rand(batch["uniforms"].shape, generator=noise)
            if step == spoil_at:
                with torch.no_grad():
                    next(model.parameters()).fill_(math.nan)
            yield batch

    train(model, objective, batches, steps, recipe, toy.PROTOCOL, toy.RUNTIME, state, "config", "toy", CPU, validate)
    return model


@pytest.mark.parametrize("method", ["clip", "arc", "mdc"])
def test_overfits_eight_pairs(method: str, tmp_path: Path) -> None:
    recipe = toy.recipe(lr=5e-3, weight_decay=0.0, warmup_steps=10)
    _train(method, tmp_path, 250, recipe, same_batch=True)
    losses = [line["loss"] for line in read_json_lines(tmp_path / "log.jsonl")]
    assert losses[-1] < 0.05 < losses[0], (losses[0], losses[-1])


@pytest.mark.parametrize("method", ["clip", "arc", "mdc"])
def test_a_killed_run_resumes_to_the_bit(method: str, tmp_path: Path) -> None:
    whole = _train(method, tmp_path / "whole", 12).state_dict()
    for kill_at in (3, 7, 11):  # before, between and after the checkpoints at 5 and 10
        state = tmp_path / f"kill{kill_at}"
        with pytest.raises(Killed):
            _train(method, state, 12, kill_at=kill_at)
        resumed = _train(method, state, 12).state_dict()
        assert all(torch.equal(whole[name], resumed[name]) for name in whole)
        steps = [line["step"] for line in read_json_lines(state / "log.jsonl")]
        assert steps == list(range(1, 13)), "the log has each step once"


def test_damaged_latest_state_falls_back_to_the_one_before(tmp_path: Path) -> None:
    whole = _train("mdc", tmp_path / "whole", 12).state_dict()
    state = tmp_path / "cut"
    with pytest.raises(Killed):
        _train("mdc", state, 12, kill_at=11)
    previous = (state / PREVIOUS).read_bytes()
    flipped = [lambda d, at=at: d[:at] + bytes([d[at] ^ 1]) + d[at + 1 :] for at in (-1, -5000, -100_000)]
    for spoil in (lambda d: d[: len(d) // 2], lambda d: b"", lambda d: b"not safetensors at all", *flipped):
        data = (state / LATEST).read_bytes()
        (state / LATEST).write_bytes(spoil(data))
        resumed = _train("mdc", state, 12).state_dict()
        assert all(torch.equal(whole[name], resumed[name]) for name in whole)
        # as after the kill: resuming wrote newer states
        (state / LATEST).write_bytes(data)
        (state / PREVIOUS).write_bytes(previous)


def test_state_of_another_configuration_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        _train("mdc", tmp_path, 12, kill_at=11)
    tensors = load_file(tmp_path / LATEST)
    with safe_open(str(tmp_path / LATEST), framework="pt") as file:
        told = json.loads(file.metadata()["mdc"])
    told["position"]["config_sha256"] = "other"
    save_file(tensors, tmp_path / LATEST, metadata={"mdc": json.dumps(told)})
    (tmp_path / PREVIOUS).unlink()
    whole = _train("mdc", tmp_path / "whole", 12).state_dict()
    fresh = _train("mdc", tmp_path, 12).state_dict()
    assert all(torch.equal(whole[name], fresh[name]) for name in whole)


@pytest.mark.parametrize("method", ["clip", "arc", "mdc"])
def test_accumulation_changes_nothing_but_memory(method: str, tmp_path: Path) -> None:
    whole = _train(method, tmp_path / "one", 5, toy.recipe()).state_dict()
    parts = _train(method, tmp_path / "four", 5, toy.recipe(accumulation=4)).state_dict()
    for name in whole:
        assert torch.allclose(whole[name], parts[name], atol=2e-4), name


def test_non_finite_loss_stops_with_step_keys_and_hint_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        _train("mdc", tmp_path, 12, spoil_at=7)
    message = str(error.value)
    assert "step 7" in message and "sample0, sample1" in message and "hint" in message
    weights = load_file(tmp_path / LATEST)
    assert all(torch.isfinite(t.float()).all() for t in weights.values())
    whole = _train("mdc", tmp_path / "whole", 12).state_dict()
    resumed = _train("mdc", tmp_path, 12).state_dict()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_validation_is_called_and_logged(tmp_path: Path) -> None:
    called = []

    def validate() -> dict[str, float]:
        called.append(1)
        return {"loss": 1.5}

    _train("arc", tmp_path, 7, toy.recipe(validate_every=3), validate=validate)
    lines = [line for line in read_json_lines(tmp_path / "log.jsonl") if "validation_loss" in line]
    assert [line["step"] for line in lines] == [3, 6, 7] and len(called) == 3


def test_bf16_trains(tmp_path: Path) -> None:
    model = _train("mdc", tmp_path, 60, toy.recipe(precision="bf16"), same_batch=True)
    losses = [line["loss"] for line in read_json_lines(tmp_path / "log.jsonl")]
    assert losses[-1] < 0.7 * losses[0]
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_learning_rate_warms_up_and_follows_a_cosine() -> None:
    rates = [learning_rate(step, 100, 2.0, 10, 0.0) for step in range(100)]
    assert rates[0] == pytest.approx(0.2) and rates[9] == pytest.approx(2.0) and rates[10] == pytest.approx(2.0)
    assert rates[55] == pytest.approx(1.0)
    assert all(a > b for a, b in itertools.pairwise(rates[10:]))
    assert learning_rate(100, 100, 2.0, 10, 0.0) == pytest.approx(0.0)


def test_only_matrices_decay() -> None:
    model = build_model(toy.METHODS["clip"], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed=0)
    optimizer = build_optimizer(model, toy.recipe(), toy.PROTOCOL)
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        exempt = parameter.ndim < 2
        assert decays[id(parameter)] == (0.0 if exempt else 0.1), name
    assert decays[id(model.logit_scale)] == 0.0
    assert optimizer.defaults["eps"] == 1e-6 and optimizer.defaults["fused"]


def test_two_processes_cannot_train_one_run(tmp_path: Path) -> None:
    import os

    with locked(tmp_path), pytest.raises(UserError, match=f"process {os.getpid()} is training"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_weights_files_load_without_pickle_and_bad_ones_say_so(tmp_path: Path) -> None:
    model = build_model(toy.METHODS["arc"], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed=0)
    path = tmp_path / "checkpoint.safetensors"
    save_weights(path, model, {"format": "mdc-weights-1"})
    encoder = load_weights(path, "encoder.")
    assert all(torch.equal(encoder[k], v) for k, v in model.encoder.state_dict().items())
    with pytest.raises(UserError, match="no such checkpoint"):
        load_weights(tmp_path / "none")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserError, match="not a readable safetensors"):
        load_weights(path)
    torch.save({"x": torch.zeros(1)}, path)
    with pytest.raises(UserError, match="not a readable safetensors"):
        load_weights(path)


def test_weights_files_have_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests/support'); import toy; from pathlib import Path\n"
        "from mdc.models.build import build_model; from mdc.training.checkpoint import save_weights\n"
        "model = build_model(toy.METHODS['arc'], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed=0)\n"
        "save_weights(Path(sys.argv[1]), model, {'a': '1', 'b': '2', 'c': '3', 'd': '4'})"
    )
    for name in "xyz":
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], check=True)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes() == (tmp_path / "z").read_bytes()
