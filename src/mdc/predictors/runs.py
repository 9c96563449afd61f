"""A trained run as predictors load it: its manifest, checked against its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mdc.records import UserError, read_json, sha256_file

CHECKPOINT = "checkpoint.safetensors"


def read_run(run: str | Path) -> tuple[Path, dict[str, Any]]:
    """The checkpoint and the manifest of a run, from its folder or its ``run.json``; the checkpoint is checked by hash."""
    path = Path(run)
    path = path / "run.json" if path.is_dir() else path
    manifest = read_json(path)
    try:
        expected = manifest["outputs"][CHECKPOINT]
    except (KeyError, TypeError):
        raise UserError(f"{path}: not a run manifest (its outputs name no {CHECKPOINT})") from None
    checkpoint = path.parent / CHECKPOINT
    if sha256_file(checkpoint) != expected:
        raise UserError(f"{checkpoint}: not the checkpoint that {path} names (its sha256 differs); train the run again")
    return checkpoint, manifest
