"""Weights of a run besides its last: the ones with the least held-out loss, and snapshots on the way.

They are written beside the resumable state while the run lasts, each under the step that it is of. The log says which
validation was the best one, so a resumed run knows that from the lines it keeps.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from mdc.models.weights import WEIGHTS_FORMAT, save_weights
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.records import UserError, atomic_path, read_json_lines

FOLDER = "kept"
BEST = "best.safetensors"


def snapshot_steps(shares: Iterable[float], steps: int) -> list[int]:
    """After which steps a snapshot is taken, of a run of ``steps``: each share of them, at least one step."""
    return sorted({max(round(share * steps), 1) for share in shares})


def snapshot_name(step: int) -> str:
    """The file of a snapshot."""
    return f"snapshot-{step:08d}.safetensors"


def best_validation(log: Iterable[Mapping[str, Any]]) -> tuple[int, float] | None:
    """The step and loss of the validation with the least loss, the first of equals; None if there is none in the log."""
    found = [(line["validation_loss"], line["step"]) for line in log if "validation_loss" in line]
    if not found:
        return None
    loss, step = min(found)
    return int(step), float(loss)


class KeptWeights:
    """The weights that a run in the state folder ``state`` keeps; its first process alone writes them."""

    def __init__(self, state: Path, job: PretrainJob, steps: int) -> None:
        self._folder, self._log, self._job = state / FOLDER, state / "log.jsonl", job
        self._snapshots = snapshot_steps(job.recipe.snapshots, steps)

    def after_step(self, step: int, model: nn.Module) -> None:
        """Take a snapshot if one is due."""
        if step in self._snapshots:
            self._save(self._folder / snapshot_name(step), model)

    def after_validation(self, step: int, model: nn.Module) -> None:
        """Keep these weights if the validation just logged was the best so far."""
        best = best_validation(read_json_lines(self._log))
        if best is not None and best[0] == step:
            self._save(self._folder / _best_name(step), model)

    def after_save(self, step: int) -> None:
        """Forget the weights that were not the best any more at ``step``: its state, which is saved now, makes sure that they
        never are again. Those of later steps stay."""
        best = best_validation(line for line in read_json_lines(self._log) if line["step"] <= step)
        for path in self._folder.glob("best-*.safetensors"):
            if path.name <= _best_name(step) and (best is None or path.name != _best_name(best[0])):
                path.unlink()

    def deliver(self, out: Path) -> list[Path]:
        """Copy what was kept into the run's folder, whole, and remove what an earlier run left there."""
        for old in (*out.glob("snapshot-*.safetensors"), out / BEST):
            old.unlink(missing_ok=True)
        files = {snapshot_name(step): self._folder / snapshot_name(step) for step in self._snapshots}
        best = best_validation(read_json_lines(self._log))
        if best is not None:
            files[BEST] = self._folder / _best_name(best[0])
        for name, path in files.items():
            if not path.is_file():
                raise UserError(
                    f"{path}: no such file, though this run wrote it; remove {path.parent.parent} and train again"
                )
            with atomic_path(out / name) as temporary:
                shutil.copyfile(path, temporary)
        return [out / name for name in files]

    def _save(self, path: Path, model: nn.Module) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        save_weights(path, model, {"format": WEIGHTS_FORMAT, "config_sha256": self._job.sha256})


def _best_name(step: int) -> str:
    return f"best-{step:08d}.safetensors"
