"""A trained run as predictors load it: its manifest, checked against its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mdc.config import Backbone, Method, ProtocolPretrain
from mdc.models.weights import load_weights
from mdc.parts import OBJECTIVES, load
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


def trained_model(
    checkpoint: Path,
    method: Method,
    backbone: Backbone,
    protocol: ProtocolPretrain,
    vocabulary_size: int,
    context_length: int,
) -> Any:
    """The model of a run with the weights of ``checkpoint``; UserError if they do not fit."""
    module = load(OBJECTIVES, method.objective)
    model = module.build_model(method, backbone, protocol, vocabulary_size, context_length, seed=0)
    try:
        model.load_state_dict(load_weights(checkpoint))
    except RuntimeError as error:
        raise UserError(
            f"{checkpoint}: does not fit its configuration ({' '.join(str(error).split())[:200]})"
        ) from None
    return model
