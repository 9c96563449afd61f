"""The share of a device's peak that a run's operations are: in its log, on its bar and in host.json, or nowhere."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import toy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mdc.records import read_json_lines
from mdc.training import run, trainer
from mdc.training.log import RunLog
from mdc.training.peaks import PEAKS, peak_here, peak_of


def test_peaks_by_name() -> None:
    """Dense TFLOP/s as the makers' data sheets have them, of names as PyTorch says them."""
    for name, *tera in list(csv.reader(Path(__file__).with_name("peaks.csv").read_text().splitlines()))[1:]:
        bf16, tf32, fp32 = (float(value) * 1e12 for value in tera)
        assert [peak_of(name, "bf16", False), peak_of(name, "fp32", True), peak_of(name, "fp32", False)] == [
            bf16,
            tf32,
            fp32,
        ]
        assert peak_of(name, "bf16", True) == bf16


def test_what_has_no_such_units_or_is_unknown_has_no_peak() -> None:
    assert peak_of("Tesla V100-SXM2-16GB", "bf16", False) is None
    assert peak_of("Tesla V100-SXM2-16GB", "fp32", True) == 15.7e12, "a V100 has no TF32"
    for name in ("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "cpu", "", "NVIDIA A10G"):
        assert peak_of(name, "bf16", False) is None and peak_of(name, "fp32", False) is None, name
    assert peak_here(torch.device("cpu"), "fp32") is None


def test_peaks_are_in_their_order() -> None:
    for pattern, peak in PEAKS.items():
        assert peak.fp32 > 0, pattern
        assert (peak.bf16 is None) == (peak.tf32 is None), pattern
        if peak.bf16 is not None and peak.tf32 is not None:
            assert peak.bf16 > peak.tf32 >= peak.fp32 * 0.99, pattern
            assert 1.97 <= peak.bf16 / peak.tf32 <= 2.02, "tensor cores make half as much of TF32"


def trained(folder: Path) -> tuple[dict[str, torch.Tensor], list[dict[str, Any]]]:
    """A run's weights, and what its log says of training."""
    runtime = toy.RUNTIME.model_copy(update={"log_every": 2})
    found = toy.trained(
        folder, steps=6, by=toy.recipe(validate_every=3), validate=lambda: {"loss": 1.0}, runtime=runtime
    )
    return found.weights, [line for line in read_json_lines(folder / "log.jsonl") if "loss" in line]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is half a second after the one before."""
    now = [0.0]

    def look() -> float:
        now[0] += 0.5
        return now[0]

    monkeypatch.setattr(trainer.time, "perf_counter", look)


@pytest.mark.usefixtures("clock")
def test_it_is_operations_a_second_over_the_peak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "peak_here", lambda device, precision: 1e9)
    _, lines = trained(tmp_path)
    objective = toy.objective("mdc", toy.model("mdc"))
    batches = [objective.prepare(toy.batch(8, seed=step)) for step in range(6)]
    made = [objective.operations(batch, toy.BACKBONE).needed for batch in batches]
    # a step is 8 images, and the speed tells which time a line is about; validation after the third counts anew
    assert [line["step"] for line in lines] == [2, 4, 6]
    for line, steps in zip(lines, ([0, 1], [3], [4, 5]), strict=True):
        seconds = 8 * len(steps) / line["images_per_second"]
        assert line["mfu"] == pytest.approx(sum(made[step] for step in steps) / seconds / 1e9)
    board = EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    assert [event.value for event in board.Scalars("mfu")] == pytest.approx([line["mfu"] for line in lines])


def test_a_run_ends_in_the_same_bits_with_a_peak_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, without = trained(tmp_path / "plain")
    monkeypatch.setattr(trainer, "peak_here", lambda device, precision: 1e12)
    counted, lines = trained(tmp_path / "counted")
    assert toy.same_tensors(plain, counted)
    assert not any("mfu" in line for line in without) and all(line["mfu"] > 0 for line in lines)
    same = [{key: value for key, value in line.items() if key not in ("mfu", "images_per_second")} for line in lines]
    assert same == [{key: value for key, value in line.items() if key != "images_per_second"} for line in without]


def test_the_bar_says_it_where_it_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdc.progress.EVERY", 0.0)
    for mfu in (None, 0.4273):
        log = RunLog(tmp_path / str(mfu), 0, 3, "toy")
        for _ in range(3):
            log.advance(1.0, 10.0, mfu)
            time.sleep(0.11)
        log.close()
        said = capsys.readouterr().err
        assert ("mfu=42.7%" in said) == (mfu is not None), said


def test_host_json_has_the_middle_of_the_lines() -> None:
    log = [{"loss": 1.0, "mfu": share} for share in (0.1, 0.5, 0.4)] + [{"validation_loss": 2.0}]
    assert run._middle(log, "mfu") == 0.4 and run._middle(log, "images_per_second") is None
