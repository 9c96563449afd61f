"""The loss of each objective over 200 toy steps, held against a curve that is checked in.

In float64, where the number of threads and the processor's instructions move a loss by 1e-9 and not by 5e-4. A change that
moves a curve says why, and writes it anew: ``python tests/unit/training/test_golden_curves.py``.
"""

import csv
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import toy

from mdc.data.loader.batch import CaptionBatch
from mdc.plan.records import read_json_lines

CURVES = Path(__file__).with_name("golden_curves.csv")
STEPS, EVERY = 200, 20


def curve(folder: Path, method: str) -> list[float]:
    """The losses of every twentieth step, of which eight batches come again and again."""
    by = toy.recipe(lr=1e-3, warmup_steps=20)
    with toy.in_double():
        toy.trained(
            folder,
            method,
            STEPS,
            by,
            batch_of=lambda step, _: batch(step % 8, method in ("mcd", "dropped")),
            begins=weighted,
        )
    return [line["loss"] for line in read_json_lines(folder / "log.jsonl") if line["step"] % EVERY == 0]


def weighted(model: torch.nn.Module) -> None:
    """Weights in float64 from NumPy's generator: those of PyTorch's differ from processor to processor."""
    drawn = np.random.default_rng(0)
    for parameter in model.double().parameters():
        if len(parameter.unique()) > 1:
            found = drawn.standard_normal(tuple(parameter.shape)) / np.sqrt(parameter.shape[-1])
            parameter.data.copy_(torch.from_numpy(found))


def batch(seed: int, draws: bool) -> CaptionBatch:
    """Times are made of ``jitter`` in float64 too, and then rounded."""
    made = toy.batch(8, seed=seed, draws=draws)
    return replace(made, jitter=made.jitter.double())


def stored() -> dict[str, list[float]]:
    with CURVES.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0] if name != "step"}


@pytest.mark.parametrize("method", sorted(toy.ALL_METHODS))
def test_a_loss_curve_is_what_it_was(tmp_path: Path, method: str) -> None:
    found, right = curve(tmp_path, method), stored()[method]
    assert found == pytest.approx(right, rel=1e-8), (
        f"moved by {max(abs(a - b) for a, b in zip(found, right, strict=True)):.1e}"
    )
    assert right[-1] < right[0]  # it learns


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        curves = {method: curve(Path(made) / method, method) for method in sorted(toy.ALL_METHODS)}
    writer = csv.writer(
        sys.stdout if sys.argv[1:] else CURVES.open("w", newline="", encoding="utf-8"), lineterminator="\n"
    )
    writer.writerow(["step", *curves])
    for number, losses in enumerate(zip(*curves.values(), strict=True), 1):
        writer.writerow([number * EVERY, *map(repr, losses)])
