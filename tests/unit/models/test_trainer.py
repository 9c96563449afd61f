"""The training loop: it learns, it resumes to the bit, accumulation changes nothing, and it stops on nonsense."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import toy
from safetensors.torch import load_file, save_file

from mdc.config import Average, Recipe
from mdc.loader.batch import CaptionBatch
from mdc.models.weights import load_weights, save_weights
from mdc.processes.interrupts import Interrupted
from mdc.processes.lock import locked
from mdc.records import UserError, read_json_lines
from mdc.training.average import AveragedWeights
from mdc.training.optimizer import build_optimizer, learning_rate
from mdc.training.state import LATEST, PREVIOUS

CPU = torch.device("cpu")


def _same_pairs(step: int, _: Any) -> CaptionBatch:
    """The pairs stay, the noise is new."""
    batch = toy.batch(8)
    batch.uniforms.copy_(torch.rand(batch.uniforms.shape, generator=torch.Generator().manual_seed(step)))
    return batch


def test_overfits_eight_pairs(tmp_path: Path) -> None:
    """Through the whole loop; test_methods has every method learn by its objective alone."""
    recipe = toy.recipe(lr=5e-3, weight_decay=0.0, warmup_steps=10)
    toy.trained(tmp_path, "mdc", 250, recipe, batch_of=_same_pairs)
    losses = [line["loss"] for line in read_json_lines(tmp_path / "log.jsonl")]
    assert losses[-1] < 0.05 < losses[0], (losses[0], losses[-1])


@pytest.mark.parametrize("method", ["clip", "arc", "mdc", "lstm"])
def test_a_killed_run_resumes_to_the_bit(method: str, tmp_path: Path) -> None:
    whole = toy.trained(tmp_path / "whole", method, 12).weights
    for kill_at in (3, 7, 11):  # before, between and after the checkpoints at 5 and 10
        state = tmp_path / f"kill{kill_at}"
        with pytest.raises(toy.Killed):
            toy.trained(state, method, 12, kill_at=kill_at)
        resumed = toy.trained(state, method, 12).weights
        assert toy.same_tensors(whole, resumed)
        steps = [line["step"] for line in read_json_lines(state / "log.jsonl")]
        assert steps == list(range(1, 13)), "the log has each step once"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_what_it_saved_and_resumes_to_the_bit(
    number: signal.Signals, whole: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    """Between two states that time would have asked for; the step under way is finished."""
    before = signal.getsignal(number)
    for signal_at, done in ((2, 3), (6, 7), (11, 12)):

        def signalled(step: int, _: Any, at: int = signal_at) -> CaptionBatch:
            if step == at:
                signal.raise_signal(number)
            return toy.batch(8, seed=step)

        with pytest.raises(Interrupted, match=f"{number.name}; saved at step {done} of 12") as left:
            toy.trained(tmp_path / str(done), batch_of=signalled)
        assert left.value.number == number and signal.getsignal(number) is before
        resumed = toy.trained(tmp_path / str(done), kill_at=None if done < 12 else 12).weights
        assert toy.same_tensors(whole, resumed)
        assert [line["step"] for line in read_json_lines(tmp_path / str(done) / "log.jsonl")] == list(range(1, 13))


def test_damaged_latest_state_falls_back_to_the_one_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = toy.trained(tmp_path / "whole").weights
    state = tmp_path / "cut"
    with pytest.raises(toy.Killed):
        toy.trained(state, kill_at=11)
    previous = (state / PREVIOUS).read_bytes()
    flipped = [lambda d, at=at: d[:at] + bytes([d[at] ^ 1]) + d[at + 1 :] for at in (-1, -5000, -100_000)]
    for spoil in (lambda d: d[: len(d) // 2], lambda d: b"", lambda d: b"not safetensors at all", *flipped):
        data = (state / LATEST).read_bytes()
        (state / LATEST).write_bytes(spoiled := spoil(data))
        resumed = toy.trained(state).weights
        assert f"it now lies at {state / 'state.damaged'}" in capsys.readouterr().err
        assert (state / "state.damaged").read_bytes() == spoiled, "nothing is lost"
        assert toy.same_tensors(whole, resumed)
        # as after the kill: resuming wrote newer states
        (state / LATEST).write_bytes(data)
        (state / PREVIOUS).write_bytes(previous)


def test_a_state_that_cannot_be_read_at_this_moment_is_neither_lost_nor_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _killed(tmp_path)
    before = (tmp_path / LATEST).read_bytes()

    def fails(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("mdc.training.state.safe_open", fails)
        with pytest.raises(OSError, match="Input/output"):
            toy.trained(tmp_path)
    assert (tmp_path / LATEST).read_bytes() == before


# --- whose a state is ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The weights of twelve uninterrupted steps."""
    return toy.trained(tmp_path_factory.mktemp("whole")).weights


def _killed(state: Path, at: int = 7, recipe: Recipe | None = None, **changes: Any) -> None:
    with pytest.raises(toy.Killed):
        toy.trained(state, by=recipe, kill_at=at, **changes)


def _aside(state: Path) -> list[Path]:
    return sorted(state.parent.glob(f"{state.name}.set-aside-*"))


@pytest.mark.parametrize(
    ("key", "value", "equal"),
    [
        ("processes", 2, True),  # here the split is the loader's work: see test_processes for real ones
        ("accumulation", 4, False),
        ("threads", 2, False),
        ("device", "auto", True),
        ("compile", True, True),  # likewise: the models are compiled before the loop
        ("recompute", True, True),
    ],
)
def test_a_run_resumes_whatever_changes_but_its_tempo(
    key: str, value: Any, equal: bool, whole: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    _killed(state)
    first = (state / "log.jsonl").read_text().splitlines()
    found = toy.trained(state, by=toy.recipe(**{key: value}))
    resumed, segments = found.weights, found.segments
    tolerance = 0.0 if equal else 2e-4
    assert all(torch.allclose(whole[name], resumed[name], rtol=0, atol=tolerance) for name in whole)
    assert not _aside(state), "it is this run's own state"
    lines = (state / "log.jsonl").read_text().splitlines()
    assert lines[:5] == first[:5], "the first five steps were not computed again"
    assert [(one["first_step"], one["last_step"]) for one in segments] == (
        [(1, 5), (6, 12)] if key != "device" else [(1, 12)]
    )
    if key != "device":  # what was found counts, not what was asked for: both are this CPU
        assert [one.get(key) for one in segments] == [getattr(toy.recipe(), key), value]
    assert all(one["device"] == "cpu" and one["torch"] == torch.__version__ for one in segments)


def test_segments_with_the_same_setting_are_one_and_there_and_back_again_is_three(tmp_path: Path) -> None:
    state = tmp_path / "state"
    for at in (7, 8, 11):
        _killed(state, at)
    for threads in (1, 2):  # killed while it wrote its results
        (one,) = toy.trained(state, by=toy.recipe(threads=threads)).segments
        assert (one["first_step"], one["last_step"], one["threads"]) == (1, 12, 1)
    state = tmp_path / "other"
    _killed(state)
    _killed(state, 11, toy.recipe(accumulation=2))
    segments = toy.trained(state).segments
    assert [(one["last_step"], one["accumulation"]) for one in segments] == [(5, 1), (10, 2), (12, 1)]


CHANGES = {
    "recipe.lr (0.003 there, 0.001 here)": {"by": toy.recipe(lr=1e-3)},
    "seed (0 there, 1 here)": {"seed": 1},
    "the code": {"fingerprint": "g"},
    "the input data/corpora/other": {"inputs": ["data/corpora/toy", "data/vocabularies/toy", "data/corpora/other"]},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_state_of_another_run_is_set_aside_and_can_be_put_back(
    what: str, whole: dict[str, torch.Tensor], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    _killed(state)
    kept = {path.name: path.read_bytes() for path in state.iterdir() if path.is_file()}
    capfd.readouterr()
    other = toy.trained(state, **CHANGES[what])
    (aside,) = _aside(state)
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "set aside" in line]
    assert what in line and str(state) in line and str(aside) in line and "begins at step 0" in line
    assert {path.name: path.read_bytes() for path in aside.iterdir() if path.is_file()} == kept
    assert [one["step"] for one in read_json_lines(state / "log.jsonl")] == list(range(1, 13))
    fresh = toy.trained(tmp_path / "fresh", **CHANGES[what]).weights
    assert toy.same_tensors(fresh, other.weights)
    # put back, it is this run's again
    shutil.rmtree(state)
    aside.rename(state)
    resumed = toy.trained(state).weights
    assert toy.same_tensors(whole, resumed)
    assert [one["step"] for one in read_json_lines(state / "log.jsonl")] == list(range(1, 13))


def test_nothing_that_was_set_aside_is_overwritten(tmp_path: Path) -> None:
    state, kept = tmp_path / "state", []
    for lr in (1e-3, 2e-3, 1e-3, 2e-3):
        _killed(state, recipe=toy.recipe(lr=lr))
        kept.append((state / LATEST).read_bytes())
    assert len(_aside(state)) == 3
    assert sorted((path / LATEST).read_bytes() for path in _aside(state)) == sorted(kept[:3])


def test_a_kill_while_a_state_is_set_aside_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each of the renames."""
    for renames in range(1, 5):
        state = tmp_path / str(renames) / "state"
        _killed(state, 11)
        kept = {path.name: path.read_bytes() for path in state.iterdir() if path.is_file()}
        assert {LATEST, PREVIOUS, "log.jsonl"} <= kept.keys()
        left = [renames]

        def counted(path: Path, target: Path, rename: Any = Path.rename, left: list[int] = left) -> Path:
            if left[0] == 0:
                raise toy.Killed
            left[0] -= 1
            return rename(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", counted)
            if renames < 4:  # the log, TensorBoard's folder, two states
                with pytest.raises(toy.Killed):
                    toy.trained(state, by=toy.recipe(lr=1e-3))
        toy.trained(state, by=toy.recipe(lr=1e-3))
        (aside,) = _aside(state)
        assert {path.name: path.read_bytes() for path in aside.iterdir() if path.is_file()} == kept


def test_a_state_of_an_earlier_version_is_set_aside(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    state.mkdir()
    told = json.dumps({"position": {"step": 5, "config_sha256": "x"}, "sha256": "y"})
    save_file({"model.x": torch.zeros(1)}, state / LATEST, metadata={"mdc": told})
    toy.trained(state, "mdc", 6)
    assert "did not note whose it is" in capfd.readouterr().err and len(_aside(state)) == 1


@pytest.mark.parametrize("method", ["clip", "arc", "mdc", "lstm"])
def test_accumulation_changes_nothing_but_memory(method: str, tmp_path: Path) -> None:
    whole = toy.trained(tmp_path / "one", method, 5, toy.recipe()).weights
    parts = toy.trained(tmp_path / "four", method, 5, toy.recipe(accumulation=4)).weights
    for name in whole:
        assert torch.allclose(whole[name], parts[name], atol=2e-4), name


def test_non_finite_loss_stops_with_step_keys_and_hint_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    def spoiling(step: int, model: torch.nn.Module) -> CaptionBatch:
        if step == 7:
            with torch.no_grad():
                next(model.parameters()).fill_(math.nan)
        return toy.batch(8, seed=step)

    with pytest.raises(UserError) as error:
        toy.trained(tmp_path, batch_of=spoiling)
    message = str(error.value)
    assert "step 7" in message and "sample0, sample1" in message and "hint" in message
    weights = load_file(tmp_path / LATEST)
    assert all(torch.isfinite(t.float()).all() for t in weights.values())
    whole = toy.trained(tmp_path / "whole").weights
    resumed = toy.trained(tmp_path).weights
    assert toy.same_tensors(whole, resumed)


def test_bf16_trains(tmp_path: Path) -> None:
    model = toy.trained(tmp_path, "mdc", 60, toy.recipe(precision="bf16"), batch_of=_same_pairs).model
    losses = [line["loss"] for line in read_json_lines(tmp_path / "log.jsonl")]
    assert losses[-1] < 0.7 * losses[0]
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_learning_rate_warms_up_and_follows_a_cosine_or_stays() -> None:
    rates = [learning_rate(step, 100, 2.0, 10, 0.0) for step in range(101)]
    assert rates[0] == pytest.approx(0.2) and rates[9] == pytest.approx(2.0) and rates[10] == pytest.approx(2.0)
    assert rates[55] == pytest.approx(1.0) and rates[100] == pytest.approx(0.0)
    assert all(a > b for a, b in itertools.pairwise(rates[10:]))
    constant = [learning_rate(step, 100, 2.0, 10, 0.0, constant=True) for step in range(100)]
    assert constant[:9] == rates[:9] and constant[9:] == [2.0] * 91


def test_gradients_are_clipped_for_so_many_steps(tmp_path: Path) -> None:
    """A run that clips for its first three steps is one that always clips, up to the third, and then one that goes on without."""
    tight = {"clip_norm": 1e-3, "warmup_steps": 1}
    always, some, never = (
        toy.trained(tmp_path / name, "mdc", 4, toy.recipe(**tight, **more)).weights
        for name, more in (("always", {}), ("some", {"clip_steps": 3}), ("never", {"clip_steps": 1}))
    )
    ended = toy.trained(tmp_path / "four", "mdc", 4, toy.recipe(**tight, clip_steps=4)).weights
    assert toy.same_tensors(always, ended), "four steps of four are all of them"
    assert not toy.same_tensors(always, some)
    assert not toy.same_tensors(some, never)


def test_the_average_of_weights_is_what_its_formula_says() -> None:
    """Every third step it keeps min(0.6, (1 + n) / (10 + n)) of itself at its n-th update, by hand in float64."""
    model = torch.nn.Linear(3, 2)
    average = AveragedWeights(model, Average(decay=0.6, every=3))
    expected = {name: p.detach().double() for name, p in model.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    for step in range(1, 61):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        average.after_step(step)
        if step % 3 == 0:
            kept = min(0.6, (1 + step // 3) / (10 + step // 3))
            for name, parameter in model.named_parameters():
                expected[name] = kept * expected[name] + (1 - kept) * parameter.detach().double()
    last = {name: p.detach().clone() for name, p in model.named_parameters()}
    with average.shown():
        for name, parameter in model.named_parameters():
            assert torch.allclose(parameter.double(), expected[name], atol=1e-5)
            assert not torch.allclose(parameter, last[name], atol=1e-2)
    assert all(torch.equal(parameter, last[name]) for name, parameter in model.named_parameters())
    average.settle()
    assert all(torch.allclose(p.double(), expected[name], atol=1e-5) for name, p in model.named_parameters())


def test_only_matrices_decay() -> None:
    model = toy.model("clip")
    optimizer = build_optimizer(model, toy.recipe(), toy.PROTOCOL)
    decays = {id(p): group.weight_decay for group in optimizer.groups for p in group.parameters}
    for name, parameter in model.named_parameters():
        exempt = parameter.ndim < 2
        assert decays[id(parameter)] == (0.0 if exempt else 0.1), name
    assert decays[id(model.logit_scale)] == 0.0
    recipe = toy.recipe()
    assert optimizer.eps == toy.PROTOCOL.adam_eps == 1e-6 and optimizer.betas == (recipe.beta1, recipe.beta2)


def test_two_processes_cannot_train_one_run(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UserError, match=f"process {os.getpid()} is training"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_weights_files_load_without_pickle_and_bad_ones_say_so(tmp_path: Path) -> None:
    model = toy.model("arc")
    path = tmp_path / "checkpoint.safetensors"
    save_weights(path, model, {"format": "mdc-weights-1"})
    encoder = load_weights(path, "encoder.")
    assert all(torch.equal(encoder[k], v) for k, v in model.encoder.state_dict().items())
    with pytest.raises(UserError, match="no such checkpoint"):
        load_weights(tmp_path / "none")
    torch.save({"x": torch.zeros(1)}, path)
    with pytest.raises(UserError, match="not a readable safetensors"):
        load_weights(path)


def test_weights_files_have_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests/support'); import toy; from pathlib import Path\n"
        "from mdc.models.weights import save_weights\n"
        "model = toy.model('arc')\n"
        "save_weights(Path(sys.argv[1]), model, {'a': '1', 'b': '2', 'c': '3', 'd': '4'})"
    )
    for name in "12":
        call = [sys.executable, "-c", code, str(tmp_path / name)]
        subprocess.run(call, check=True, env={**os.environ, "PYTHONHASHSEED": name})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
