"""The share of a device's peak that operations are, a trace of a run's steps, and which device is chosen."""

import csv
import itertools
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import toy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mdc.plan.records import UserError, read_json_lines
from mdc.training import run
from mdc.training.device import choose_device
from mdc.training.log import RunLog
from mdc.training.metrics import Measured
from mdc.training.peaks import peak_here, peak_of
from mdc.training.profile import TABLE, TRACE, WARM, StepProfile


def test_peaks_by_name() -> None:
    """Dense TFLOP/s as the makers' data sheets have them, of names as PyTorch says them."""
    for name, *tera in list(csv.reader(Path(__file__).with_name("peaks.csv").read_text().splitlines()))[1:]:
        asked = [("bf16", False), ("fp32", True), ("fp32", False), ("bf16", True)]
        bf16, *others = (float(value) * 1e12 for value in tera)
        assert [peak_of(name, *one) for one in asked] == [bf16, *others, bf16]


def test_what_has_no_such_units_or_is_unknown_has_no_peak() -> None:
    assert peak_of("Tesla V100-SXM2-16GB", "bf16", False) is None
    assert peak_of("Tesla V100-SXM2-16GB", "fp32", True) == 15.7e12, "a V100 has no TF32"
    for name in ("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "cpu", "", "NVIDIA A10G"):
        assert peak_of(name, "bf16", False) is None and peak_of(name, "fp32", False) is None, name
    assert peak_here(torch.device("cpu"), "fp32") is None


def trained(folder: Path, least_seconds: float | None = None) -> list[dict[str, Any]]:
    """What a run's log says of training."""
    runtime = toy.RUNTIME.model_copy(update={"log_every": 2})
    recipe = toy.recipe(validate_every=3)
    toy.trained(
        folder, steps=6, by=recipe, validate=lambda: {"loss": 1.0}, runtime=runtime, least_seconds=least_seconds
    )
    return [line for line in read_json_lines(folder / "log.jsonl") if "loss" in line]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is half a second after the one before."""
    monkeypatch.setattr(time, "perf_counter", itertools.count(0.0, 0.5).__next__)


@pytest.mark.usefixtures("clock")
def test_it_is_the_time_at_the_peak_over_the_time_that_steps_took(tmp_path: Path) -> None:
    assert not any("mfu" in line for line in trained(tmp_path / "without"))
    lines = trained(tmp_path, 1e-3)
    # a step is 8 images, and the speed tells which time a line is about; validation after the third counts anew
    assert [line["step"] for line in lines] == [2, 4, 6]
    for line, steps in zip(lines, ([0, 1], [3], [4, 5]), strict=True):
        seconds = 8 * len(steps) / line["images_per_second"]
        assert line["mfu"] == pytest.approx(sum(1e-3 for _ in steps) / seconds)
    board = EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    assert [event.value for event in board.Scalars("mfu")] == pytest.approx([line["mfu"] for line in lines])


def test_the_bar_says_it_where_it_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdc.plan.progress.EVERY", 0.0)
    for least_seconds in (None, 0.05):
        with RunLog(tmp_path / str(least_seconds), 0, 3, "toy", 1, 8, least_seconds) as log:
            for step in range(3):
                time.sleep(0.11)
                log.steps([Measured(step, {"loss": 1.0})])
        said = capsys.readouterr().err
        assert bool(re.search(r"mfu=\d+\.\d%", said)) == (least_seconds is not None), said


def test_host_json_has_the_middle_of_the_lines() -> None:
    log = [{"loss": 1.0, "mfu": share} for share in (0.1, 0.5, 0.4)] + [{"validation_loss": 2.0}]
    assert run._middle(log, "mfu") == 0.4 and run._middle(log, "images_per_second") is None


# --- a trace of steps -------------------------------------------------------------------------------------------------


CPU = torch.device("cpu")


def seen(folder: Path) -> Counter[str]:
    """How often each operation stands in the trace."""
    events = json.loads((folder / TRACE).read_text())["traceEvents"]
    return Counter(event["name"] for event in events if event.get("ph") == "X")


def test_a_trace_has_the_steps_that_were_asked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    toy.trained(tmp_path / "looked", steps=8, profile=StepProfile(tmp_path / "profile", 2, CPU))
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
    toy.trained(tmp_path / "short", steps=WARM + 2, profile=StepProfile(tmp_path / "profile", 100, CPU))
    assert f"2 steps after the first {WARM}: " in capfd.readouterr().err
    assert seen(tmp_path / "profile")["Optimizer.step#AdamW.step"] == 2


@pytest.mark.parametrize("steps", [WARM - 1, WARM])
def test_a_run_that_ends_in_the_warm_up_leaves_nothing(
    steps: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    toy.trained(tmp_path / "short", steps=steps, profile=StepProfile(tmp_path / "profile", 2, CPU))
    assert f"nothing was written: {steps} steps were left" in capfd.readouterr().err
    assert not (tmp_path / "profile").exists()


# --- which device -----------------------------------------------------------------------------------------------------


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """As if this machine had two; the ones that were taken."""
    taken: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    return taken


def test_each_process_takes_the_gpu_of_its_number(two_gpus: list[torch.device]) -> None:
    assert choose_device("auto") == torch.device("cuda", 0) and choose_device("cuda", 1) == torch.device("cuda", 1)
    assert two_gpus == [torch.device("cuda", 0), torch.device("cuda", 1)]
    with pytest.raises(UserError, match="process 2 of this machine has no GPU: 2 are visible"):
        choose_device("cuda", 2)


def test_fp32_is_not_computed_as_tf32(two_gpus: list[torch.device]) -> None:
    assert choose_device("cpu") == torch.device("cpu") and torch.backends.cudnn.allow_tf32
    choose_device("auto")
    assert not torch.backends.cudnn.allow_tf32 and torch.get_float32_matmul_precision() == "highest"


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(UserError, match=r"allowed here: cpu, auto"):
        choose_device("cuda")
