"""Weights of a run besides its last: those with the least held-out loss, and snapshots.

They are written beside the resumable state during the run, named by step. The best validation follows from the log, also after a
resume.
"""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import nn

from mdc.models.weights import BEST, WEIGHTS_FORMAT, save_weights
from mdc.plan.records import UserError, atomic_path, read_json_lines

LOG, FOLDER = "log.jsonl", "kept"


def snapshot_steps(shares: Iterable[float], steps: int) -> list[int]:
    """The steps with a snapshot in a run of ``steps``: each share of them, at least one step."""
    return sorted({max(round(share * steps), 1) for share in shares})


def validation_losses(state: Path, until: float = float("inf")) -> dict[int, float]:
    """{step: held-out loss} up to the step ``until``, from the log in the folder ``state``, in order."""
    log = (line for line in read_json_lines(state / LOG) if "validation_loss" in line)
    return {line["step"]: line["validation_loss"] for line in log if line["step"] <= until}


def best_step(losses: Mapping[int, float]) -> int | None:
    """The step of the least of the losses, the first of equals; None if there is none."""
    return min(losses, key=losses.__getitem__, default=None)


def out_of_patience(losses: Mapping[int, float], limit: int | None) -> bool:
    """Early stopping of a finetuning: whether none of the last ``limit`` validations was the best so far; None: never."""
    steps = list(losses)
    return limit is not None and best_step(losses) not in steps[-limit:] and len(steps) > 0


class KeptWeights:
    """The weights that a run keeps in its folder ``state`` until it ends."""

    def __init__(self, state: Path, config_sha256: str) -> None:
        self._state, self._folder = state, state / FOLDER
        self._metadata = {"format": WEIGHTS_FORMAT, "config_sha256": config_sha256}

    def save(self, kind: str, step: int, model: nn.Module) -> None:
        """Keep these weights, as a "snapshot" or as the "best" so far."""
        save_weights(self._folder / _name(kind, step), model, self._metadata)

    def forget_until(self, step: int) -> None:
        """Remove the weights that are no longer the best at ``step``, whose state is saved: no resume needs them. Those of
        later steps stay."""
        best = best_step(validation_losses(self._state, step))
        for path in self._folder.glob("best-*.safetensors"):
            if path.name <= _name("best", step) and (best is None or path.name != _name("best", best)):
                path.unlink()

    def deliver(self, out: Path, snapshots: Iterable[int]) -> list[Path]:
        """Copy the kept weights into the run's folder, and remove those of an earlier run."""
        for old in (*out.glob("snapshot-*.safetensors"), out / BEST):
            old.unlink(missing_ok=True)
        files = {_name("snapshot", step): _name("snapshot", step) for step in snapshots}
        if (best := best_step(validation_losses(self._state))) is not None:
            files[BEST] = _name("best", best)
        for name, kept in files.items():
            path = self._folder / kept
            if not path.is_file():
                raise UserError(f"{path}: no such file, though this run wrote it; remove {self._state} and train again")
            with atomic_path(out / name) as temporary:
                shutil.copyfile(path, temporary)
        return [out / name for name in files]


def _name(kind: str, step: int) -> str:
    return f"{kind}-{step:08d}.safetensors"
