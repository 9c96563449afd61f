"""A trained run as predictors load it: its manifest, checked against its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mdc.records import UserError, read_json, sha256_file

CHECKPOINT, BEST = "checkpoint.safetensors", "best.safetensors"
#: which weights of a run → their file: the last ones, or those with the least held-out loss
WEIGHTS = {"last": CHECKPOINT, "best": BEST}


def read_run(run: str | Path, name: str = CHECKPOINT) -> tuple[Path, dict[str, Any]]:
    """The weights ``name`` and the manifest of a run, from its folder or its ``run.json``; the weights are checked by hash."""
    path = Path(run)
    path = path / "run.json" if path.is_dir() else path
    manifest = read_json(path)
    try:
        expected = manifest["outputs"][name]
    except (KeyError, TypeError):
        raise UserError(f"{path}: not a run manifest (its outputs name no {name})") from None
    checkpoint = path.parent / name
    if sha256_file(checkpoint) != expected:
        raise UserError(f"{checkpoint}: not the checkpoint that {path} names (its sha256 differs); train the run again")
    return checkpoint, manifest
