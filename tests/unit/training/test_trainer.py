"""The training loop: it resumes to the bit, it stops on nonsense, and its states are complete; its average and its AdamW."""

import itertools
import math
import os
import signal
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import toy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mdc.data.loader.batch import CaptionBatch
from mdc.models.weights import save_weights
from mdc.plan.config.pretrain import Average, Recipe
from mdc.plan.jobs.model import Start
from mdc.plan.processes.interrupts import Interrupted
from mdc.plan.processes.lock import locked
from mdc.plan.records import UserError, read_json_lines
from mdc.training.average import AveragedWeights
from mdc.training.kept import KeptWeights
from mdc.training.state import LATEST, PREVIOUS, Position, Saver, States, decisive
from mdc.training.trainer import build_optimizer, learning_rate

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The weights of twelve uninterrupted steps."""
    return toy.trained(tmp_path_factory.mktemp("whole")).weights


def _killed(state: Path, at: int = 7, recipe: Recipe | None = None) -> None:
    with pytest.raises(toy.Killed):
        toy.trained(state, by=recipe, kill_at=at)


def _steps(state: Path) -> list[int]:
    return [line["step"] for line in read_json_lines(state / "log.jsonl") if "loss" in line]


def _curve(state: Path) -> list[int]:
    board = EventAccumulator(str(state / "tensorboard"))
    board.Reload()
    return [event.step for event in board.Scalars("loss")]


@pytest.mark.parametrize(
    ("method", "kills"),
    [("mdc", [3, 7, 11]), *((name, [7]) for name in ("arc", "clip", "lstm", "mcd", *toy.NEIGHBOURS))],
)
def test_a_killed_run_resumes_to_the_bit(method: str, kills: list[int], tmp_path: Path) -> None:
    """The final weights and the best, which are averages in MC-Diffusion's recipe."""
    by = toy.recipe(validate_every=5, average={"decay": 0.9, "every": 1} if method == "mcd" else None)
    losses = itertools.count(0, -1)

    def trained(state: Path, kill_at: int | None = None) -> dict[str, torch.Tensor]:
        return toy.trained(state, method, 12, by, kill_at=kill_at, validate=lambda: {"loss": next(losses)}).weights

    whole = trained(tmp_path / "whole")
    for kill_at in kills:  # before, between and after the checkpoints at 5 and 10
        state = tmp_path / f"kill{kill_at}"
        with pytest.raises(toy.Killed):
            trained(state, kill_at)
        assert toy.same_tensors(whole, trained(state))
        assert _steps(state) == _curve(state) == list(range(1, 13)), "log and curve have each step once"
        best, again = (sorted(folder.rglob("best-*")) for folder in (tmp_path / "whole", state))
        assert [one.read_bytes() for one in best] == [one.read_bytes() for one in again] and best


@pytest.mark.parametrize(("number", "at"), [(signal.SIGINT, 2), (signal.SIGTERM, 6), (signal.SIGINT, 11)])
def test_an_interrupted_run_says_what_it_saved_and_resumes_to_the_bit(
    number: signal.Signals, at: int, whole: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    """Between two states that time would have asked for; the step under way is finished."""
    before = signal.getsignal(number)

    def signalled(step: int, _: Any) -> CaptionBatch:
        if step == at:
            signal.raise_signal(number)
        return toy.batch(8, seed=step)

    with pytest.raises(Interrupted, match=f"{number.name}; saved at step {at + 1} of 12") as left:
        toy.trained(tmp_path, batch_of=signalled)
    assert left.value.number == number and signal.getsignal(number) is before
    assert toy.same_tensors(whole, toy.trained(tmp_path, kill_at=12).weights)
    assert _steps(tmp_path) == list(range(1, 13))


def test_damaged_latest_state_falls_back_to_the_one_before(
    whole: dict[str, torch.Tensor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "cut"
    _killed(state, 11)
    previous = (state / PREVIOUS).read_bytes()
    flipped = [lambda d, at=at: d[:at] + bytes([d[at] ^ 1]) + d[at + 1 :] for at in (-1, -100_000)]
    for spoil in (lambda d: d[: len(d) // 2], lambda d: b"", lambda d: b"not safetensors at all", *flipped):
        data = (state / LATEST).read_bytes()
        (state / LATEST).write_bytes(spoiled := spoil(data))
        resumed = toy.trained(state)
        assert toy.same_tensors(whole, resumed.weights)
        assert resumed.asked[0] == 5, "from the state before, and not from the beginning"
        assert f"it now lies at {state / 'state.damaged'}" in capsys.readouterr().err
        assert (state / "state.damaged").read_bytes() == spoiled, "nothing is lost"
        # as after the kill: resuming wrote newer states
        (state / LATEST).write_bytes(data)
        (state / PREVIOUS).write_bytes(previous)


def test_a_state_that_cannot_be_read_at_this_moment_is_neither_lost_nor_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _killed(tmp_path)
    before = (tmp_path / LATEST).read_bytes()

    monkeypatch.setattr("mdc.training.state.safe_open", Mock(side_effect=OSError(5, "Input/output error")))
    with pytest.raises(OSError, match="Input/output"):
        toy.trained(tmp_path)
    assert (tmp_path / LATEST).read_bytes() == before


# --- whose a state is ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "equal"),
    [
        ("processes", 2, True),  # here the split is the loader's work: see test_processes for real ones
        ("accumulation", 4, False),
        ("threads", 2, False),
        ("device", "auto", True),
        ("compile", True, True),  # likewise: the models are compiled before the loop
        ("activation_checkpointing", True, True),
    ],
)
def test_a_run_resumes_whatever_changes_but_its_tempo(
    key: str, value: Any, equal: bool, whole: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    _killed(state)
    first = (state / "log.jsonl").read_text().splitlines()
    found = toy.trained(state, by=toy.recipe(**{key: value}))
    segments, tolerance = found.segments, 0.0 if equal else 2e-4
    assert all(torch.allclose(whole[name], found.weights[name], rtol=0, atol=tolerance) for name in whole)
    lines = (state / "log.jsonl").read_text().splitlines()
    assert lines[:5] == first[:5], "the first five steps were not computed again"
    told = [(1, 5), (6, 12)] if key != "device" else [(1, 12)]
    assert [(one["first_step"], one["last_step"]) for one in segments] == told
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


CHANGES: list[dict[str, Any]] = [
    {"recipe": toy.recipe(lr=1e-3)},
    {"seed": 1},
    {"fingerprint": "g"},
    {"inputs": ["data/corpora/toy", "data/vocabularies/toy", "data/corpora/other"]},
    {"start": Start(run="runs/a/b/mdc/s0", config_sha256="0" * 64, weights="last", patience=2, canvas=None)},
]


def test_what_decides_a_result_decides_where_states_lie(tmp_path: Path) -> None:
    def place(recipe: Any = toy.recipe(), **changes: Any) -> Path:  # noqa: B008 - never changed
        job = toy.job(toy.METHODS["mdc"], recipe, **changes)
        return States.among(tmp_path, decisive(job.config()), dict.fromkeys(job.inputs, "0" * 64)).folder

    ours = place()
    assert place(toy.recipe(threads=2, accumulation=4, processes=2, compile=True)) == ours
    others = [place(**change) for change in CHANGES]
    assert len({ours, *others}) == 1 + len(CHANGES) and all(path.parent == tmp_path for path in others)


def test_another_runs_state_in_the_same_place_is_passed_over(whole: dict[str, torch.Tensor], tmp_path: Path) -> None:
    _killed(tmp_path, 11, toy.recipe(lr=1e-3))
    assert toy.same_tensors(whole, toy.trained(tmp_path).weights) and _steps(tmp_path) == list(range(1, 13))


def test_non_finite_loss_stops_with_step_keys_and_hint_and_keeps_the_checkpoint(
    whole: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    def spoiling(step: int, model: torch.nn.Module) -> CaptionBatch:
        if step == 7:
            with torch.no_grad():
                next(model.parameters()).fill_(math.nan)
        return toy.batch(8, seed=step)

    with pytest.raises(UserError, match=r"step 7(.|\n)*sample0, sample1(.|\n)*hint"):
        toy.trained(tmp_path, batch_of=spoiling)
    assert toy.same_tensors(whole, toy.trained(tmp_path).weights)


def test_bf16_trains(tmp_path: Path) -> None:
    model = toy.trained(tmp_path, "mdc", 60, toy.recipe(precision="bf16"), batch_of=lambda *_: toy.batch(8)).model
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
    average.apply()
    assert all(torch.allclose(p.double(), expected[name], atol=1e-5) for name, p in model.named_parameters())


def test_only_matrices_decay() -> None:
    model = toy.model("clip")
    optimizer = build_optimizer(model, toy.recipe(), toy.PROTOCOL)
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        exempt = parameter.ndim < 2
        assert decays[id(parameter)] == (0.0 if exempt else 0.1), name
    assert decays[id(model.logit_scale)] == 0.0
    recipe = toy.recipe()
    assert optimizer.defaults["eps"] == toy.PROTOCOL.adam_eps == 1e-6
    assert optimizer.defaults["betas"] == (recipe.beta1, recipe.beta2)


def test_two_processes_cannot_train_one_run(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UserError, match=f"process {os.getpid()} is training"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_weights_files_have_the_same_bytes_each_time(tmp_path: Path) -> None:
    """safetensors orders several keys of metadata by a hash that is new with every file."""
    for name in "123456":
        save_weights(tmp_path / name, toy.model("arc"), dict(zip("abcd", "1234", strict=True)))
    assert len({(tmp_path / name).read_bytes() for name in "123456"}) == 1


# --- states are written while training goes on ------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path: Path) -> tuple[States, Any, Any]:
    job = toy.job(toy.METHODS["mdc"], toy.recipe())
    model = toy.model("mdc")
    return toy.states(tmp_path / "state", job), model, build_optimizer(model, toy.recipe(), toy.PROTOCOL)


def test_what_is_saved_is_what_the_model_was(made: tuple[States, Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    states, model, optimizer = made
    before = {name: value.clone() for name, value in model.state_dict().items()}
    may_write, write = threading.Event(), states.write

    def late(*state: Any) -> None:
        may_write.wait(30)
        write(*state)

    monkeypatch.setattr(states, "write", late)
    with Saver(states, 0) as saver, torch.random.fork_rng():
        saver.begin(model, optimizer, Position(3))
        drawn = torch.rand(3)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1)
        may_write.set()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        found = states.load(model, optimizer)
        assert torch.equal(torch.rand(3), drawn)
    assert found is not None and found.step == 3
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("told_by", ["begin", "wait", "leaving"])
def test_an_error_of_the_disk_ends_the_run(
    made: tuple[States, Any, Any], monkeypatch: pytest.MonkeyPatch, told_by: str
) -> None:
    states, model, optimizer = made

    def full(*_: Any) -> None:
        raise UserError("the disk is full")

    monkeypatch.setattr(states, "write", full)
    with pytest.raises(UserError, match="the disk is full"), Saver(states, 0) as saver:
        saver.begin(model, optimizer, Position(3))
        if told_by == "begin":
            saver.begin(model, optimizer, Position(4))
        elif told_by == "wait":
            saver.wait()


def test_another_error_comes_first_and_the_state_is_whole(made: tuple[States, Any, Any]) -> None:
    states, model, optimizer = made
    with pytest.raises(ZeroDivisionError), Saver(states, 0) as saver:
        saver.begin(model, optimizer, Position(3))
        raise ZeroDivisionError
    found = states.load(model, optimizer)
    assert found is not None and found.step == 3


@pytest.mark.parametrize("takes", [0.01, 3, 400])
def test_saving_takes_its_share_of_the_time_and_no_more(
    takes: float, made: tuple[States, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day of steps of half a second, where a state takes ``takes`` seconds and the steps go on beside it."""
    states, model, optimizer = made
    now, saved = [0.0], []

    def write(*_: Any) -> None:
        now[0] += takes

    monkeypatch.setattr(states, "write", write)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with Saver(states, 60) as saver:
        while now[0] < 86_400:
            now[0] += 0.5
            if saver.due():
                saver.begin(model, optimizer, Position(len(saved)))
                saver.wait()
                saved.append(now[0])
    gaps = [late - early for early, late in itertools.pairwise(saved)]
    # the first one shows how long it takes
    assert takes * len(gaps) <= 0.02 * 86_400 and min(gaps) >= 60 and max(gaps) <= max(60, 50 * takes) + takes + 1


def test_weights_that_are_the_best_later_outlive_a_state_of_before(tmp_path: Path) -> None:
    """Held-out losses 3, 2, 1 at steps 10, 20, 30; a state of step 20 is written when step 30 was validated already."""
    kept = KeptWeights(tmp_path, "0" * 64)
    model = torch.nn.Linear(2, 2)
    log = tmp_path / "log.jsonl"
    for step in (10, 20, 30):
        with log.open("a") as file:
            file.write(f'{{"step": {step}, "validation_loss": {4 - step / 10}}}\n')
        kept.save("best", step, model)
    kept.forget_until(20)
    there = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert there == ["best-00000020.safetensors", "best-00000030.safetensors"]
    kept.forget_until(30)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["best-00000030.safetensors"]
