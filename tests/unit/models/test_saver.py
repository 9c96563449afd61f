"""States are written while training goes on: copies, one at a time, and no error of theirs is lost."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import toy

from mdc.records import UserError
from mdc.training.kept import KeptWeights
from mdc.training.optimizer import build_optimizer
from mdc.training.saver import Saver
from mdc.training.state import Position, Snapshot, States


@pytest.fixture
def made(tmp_path: Path) -> tuple[States, Any, Any]:
    job = toy.job(toy.METHODS["mdc"], toy.recipe())
    model = toy.model("mdc")
    return toy.states(tmp_path / "state", job), model, build_optimizer(model, toy.recipe(), toy.PROTOCOL)


def test_what_is_saved_is_what_the_model_was(made: tuple[States, Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    states, model, optimizer = made
    before = {name: value.clone() for name, value in model.state_dict().items()}
    may_write, write = threading.Event(), states.write

    def late(snapshot: Snapshot) -> None:
        may_write.wait(30)
        write(snapshot)

    monkeypatch.setattr(states, "write", late)
    with Saver(states, None, 0) as saver:
        saver.begin(model, optimizer, Position(3))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1)
        may_write.set()
    found = states.load(model, optimizer)
    assert found is not None and found.step == 3
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("told_by", ["begin", "settle", "leaving"])
def test_an_error_of_the_disk_ends_the_run(
    made: tuple[States, Any, Any], monkeypatch: pytest.MonkeyPatch, told_by: str
) -> None:
    states, model, optimizer = made

    def full(_: Snapshot) -> None:
        raise UserError("the disk is full")

    monkeypatch.setattr(states, "write", full)
    with pytest.raises(UserError, match="the disk is full"), Saver(states, None, 0) as saver:
        saver.begin(model, optimizer, Position(3))
        if told_by == "begin":
            saver.begin(model, optimizer, Position(4))
        elif told_by == "settle":
            saver.settle()


def test_another_error_comes_first_and_the_state_is_whole(made: tuple[States, Any, Any]) -> None:
    states, model, optimizer = made
    with pytest.raises(ZeroDivisionError), Saver(states, None, 0) as saver:
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

    def write(_: Snapshot) -> None:
        now[0] += takes

    monkeypatch.setattr(states, "write", write)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with Saver(states, None, 60) as saver:
        while now[0] < 86_400:
            now[0] += 0.5
            if saver.due():
                saver.begin(model, optimizer, Position(len(saved)))
                saver.settle()
                saved.append(now[0])
    gaps = [late - early for early, late in itertools.pairwise(saved)]
    # the first one shows how long it takes
    assert takes * len(gaps) <= 0.02 * 86_400 and min(gaps) >= 60 and max(gaps) <= max(60, 50 * takes) + takes + 1


def test_an_interval_of_no_seconds_is_every_step(made: tuple[States, Any, Any]) -> None:
    states, model, optimizer = made
    with Saver(states, None, 0) as saver:
        for step in range(3):
            assert saver.due()
            saver.begin(model, optimizer, Position(step))


def test_weights_that_are_the_best_later_outlive_a_state_of_before(tmp_path: Path) -> None:
    """Held-out losses 3, 2, 1 at steps 10, 20, 30; a state of step 20 is written when step 30 was validated already."""
    job = toy.job(toy.METHODS["mdc"], toy.recipe())
    kept = KeptWeights(tmp_path, job, 40)
    model = torch.nn.Linear(2, 2)
    log = tmp_path / "log.jsonl"
    for step in (10, 20, 30):
        with log.open("a") as file:
            file.write(f'{{"step": {step}, "validation_loss": {4 - step / 10}}}\n')
        kept.after_validation(step, model)
    kept.after_save(20)
    there = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert there == ["best-00000020.safetensors", "best-00000030.safetensors"]
    kept.after_save(30)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["best-00000030.safetensors"]
