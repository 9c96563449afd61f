"""Finetuning: early stopping that survives a kill, captions on canvases, and what a run's configuration says of its start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import toy

from mdc.jobs.model import PretrainJob, Start
from mdc.jobs.read import as_job
from mdc.loader.batch import CaptionBatch
from mdc.objectives.masked import on_canvas
from mdc.records import read_json_lines
from mdc.training.patience import Patience
from mdc.training.state import decisive

START = Start(run="runs/a/b/mdc/s0", config_sha256="0" * 64, weights="last", patience=2, canvas=None)


def _train(state: Path, losses: list[float], kill_at: int | None = None, start: Start | None = START) -> int:
    """Train up to 40 steps with a validation every 2, whose losses are given; returns the last step."""
    asked = [0]

    def batch(step: int, _: object) -> CaptionBatch:
        asked.append(step)
        return toy.batch(8, seed=step)

    def validate() -> dict[str, float]:
        return {"loss": losses[(asked[-1] + 1) // 2 - 1]}

    by = toy.recipe(validate_every=2)
    found = toy.trained(state, "mdc", 40, by, kill_at=kill_at, batch_of=batch, validate=validate, start=start)
    return int(found.segments[-1]["last_step"])


LOSSES = [3.0, 2.0, 2.5, 1.9, 2.1, 1.9, *[1.0] * 20]  # equal is not better: over after the sixth, at step 12


def test_a_run_ends_when_its_patience_does(tmp_path: Path) -> None:
    assert _train(tmp_path / "a", LOSSES) == 12
    lines = read_json_lines(tmp_path / "a/log.jsonl")
    assert [line["validation_loss"] for line in lines if "validation_loss" in line] == LOSSES[:6]
    patient = START.model_copy(update={"patience": 30})
    assert _train(tmp_path / "b", LOSSES, start=patient) == 40
    assert _train(tmp_path / "c", LOSSES, start=None) == 40


@pytest.mark.parametrize("kill_at", [3, 6, 9, 11])
def test_a_killed_run_ends_where_it_would_have(tmp_path: Path, kill_at: int) -> None:
    with pytest.raises(toy.Killed):
        _train(tmp_path, LOSSES, kill_at=kill_at)
    assert _train(tmp_path, LOSSES) == 12
    # and one that had ended does not go on
    assert _train(tmp_path, LOSSES) == 12


def test_patience_counts_from_the_best() -> None:
    one = Patience(2, [3, 2])
    for loss, over in ((2.5, False), (1.5, False), (1.5, False), (1.6, True)):
        one.add(loss)
        assert one.over is over
    assert not Patience(None, [1, 2, 3, 4]).over


def test_a_caption_on_a_canvas_is_of_any_length_up_to_it() -> None:
    batch = toy.batch(8, longest=10)
    seen: dict[int, set[int]] = {row: set() for row in range(8)}
    for draw in range(400):
        uniforms = batch.uniforms.clone()
        uniforms[:, 0] = (draw + 0.5) / 400
        found = on_canvas(replace(batch, uniforms=uniforms), 12)
        assert torch.equal(found.tokens, batch.tokens)
        for row, length in enumerate(found.lengths.tolist()):
            seen[row].add(length)
    for row, length in enumerate(batch.lengths.tolist()):
        assert seen[row] == set(range(length, 14)), "SOT and 12 tokens at most"
    assert bool((batch.tokens[:, -1] == toy.EOT).all())
    longer = on_canvas(batch, 2)
    assert torch.equal(longer.lengths, batch.lengths), "a caption longer than the canvas stays"


def test_only_a_finetuned_run_names_its_start() -> None:
    """… so that the configuration of every other, and with it its hash, is what it was."""
    plain = toy.job(toy.METHODS["mdc"], toy.recipe())
    assert "start" not in plain.config()
    tuned = toy.job(toy.METHODS["mdc"], toy.recipe(), start=START)
    assert tuned.config()["start"] == START.model_dump(mode="json")
    for job in (plain, tuned):
        again = as_job(job.config(), "pretrain", "here")
        assert isinstance(again, PretrainJob) and again == job and again.sha256 == job.sha256
    assert "start" in decisive(tuned.config())
