"""A trace of a run's steps: it has the steps that were asked for, and the run does not feel it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import toy

from mdc.records import UserError, read_json_lines
from mdc.training.profile import TABLE, TRACE, WARM, StepProfile

CPU = torch.device("cpu")


def trained(state: Path, profile: StepProfile | None, steps: int = 8) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A run's weights and its log without clocks."""
    weights = toy.trained(state, steps=steps, profile=profile).weights
    lines = read_json_lines(state / "log.jsonl")
    return weights, [{k: v for k, v in line.items() if k != "images_per_second"} for line in lines]


def seen(folder: Path) -> Counter[str]:
    """How often each operation stands in the trace."""
    events = json.loads((folder / TRACE).read_text())["traceEvents"]
    return Counter(event["name"] for event in events if event.get("ph") == "X")


def test_a_run_that_is_looked_at_ends_in_the_same_bits(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plain, lines = trained(tmp_path / "plain", None)
    looked, its_lines = trained(tmp_path / "looked", StepProfile(tmp_path / "profile", 2, CPU))
    assert toy.same_tensors(plain, looked) and lines == its_lines
    said = capfd.readouterr().err
    assert f"profile: 2 steps after the first {WARM}: {tmp_path / 'profile' / TRACE}, " in said
    assert {path.name for path in (tmp_path / "profile").iterdir()} == {TRACE, TABLE}
    found = seen(tmp_path / "profile")
    steps = [name for name in found if name.startswith("ProfilerStep#")]
    assert sorted(steps) == [f"ProfilerStep#{WARM}", f"ProfilerStep#{WARM + 1}"]
    # an operation that each step has once
    assert found["Optimizer.step#AdamW.step"] == 2
    table = (tmp_path / "profile" / TABLE).read_text()
    names = [line.split("  ")[0].strip() for line in table.splitlines() if re.search(r"\d%", line)]
    assert len(names) == 20 and "Self CPU" in table and any(name.startswith("aten::") for name in names)


@pytest.mark.parametrize("steps", [0, -1])
def test_a_number_of_steps_that_is_none_is_refused(steps: int) -> None:
    with pytest.raises(UserError, match=f"--profile {steps}: .*allowed: 1 or more"):
        StepProfile(Path(), steps, CPU)


def test_a_run_that_ends_before_leaves_what_there_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trained(tmp_path / "short", StepProfile(tmp_path / "profile", 100, CPU), steps=WARM + 2)
    assert f"2 steps after the first {WARM}: " in capfd.readouterr().err
    assert seen(tmp_path / "profile")["Optimizer.step#AdamW.step"] == 2


@pytest.mark.parametrize("steps", range(WARM - 2, WARM + 1))
def test_a_run_that_ends_in_the_warm_up_leaves_nothing(
    steps: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path / "short", StepProfile(tmp_path / "profile", 2, CPU), steps=steps)
    assert f"nothing was written: {steps} steps were left" in capfd.readouterr().err
    assert not (tmp_path / "profile").exists()
