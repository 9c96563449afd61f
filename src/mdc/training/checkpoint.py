"""Resumable state and final weights, as safetensors: loading one never executes anything.

State of a run: model, optimiser, RNG and position, in one file. A save writes a temporary file and renames it; the
file before it stays as ``previous``, so whatever happens there is a good one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from mdc.records import UserError, atomic_path

WEIGHTS_FORMAT = "mdc-weights-1"
LATEST, PREVIOUS = "state.safetensors", "state.previous.safetensors"


@dataclass(frozen=True)
class Position:
    """Where a run stands: ``step`` optimiser steps are done. Data order and noise follow from it and the seed."""

    step: int
    config_sha256: str


def save_state(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, position: Position) -> None:
    """Save everything that a resumed run needs to go on bit for bit, with a hash of it: a flipped bit must not go on."""
    tensors = {f"model.{name}": t.detach() for name, t in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{name}.{key}"] = torch.as_tensor(value)
    tensors["rng.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["rng.cuda"] = torch.cuda.get_rng_state()
    tensors = {name: t.cpu().contiguous() for name, t in tensors.items()}
    folder.mkdir(parents=True, exist_ok=True)
    latest = folder / LATEST
    told = json.dumps({"position": asdict(position), "sha256": _content_sha256(tensors)})
    with _saving(latest), atomic_path(latest) as temporary:
        save_file(tensors, str(temporary), metadata={"mdc": told})
        if latest.exists():
            latest.replace(folder / PREVIOUS)


def load_state(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, config_sha256: str) -> Position | None:
    """Restore the newest good state of this configuration; None if there is none (then nothing was changed).

    A damaged or half-written file is passed over for the one before it; a state of another configuration is ignored.
    """
    for name in (LATEST, PREVIOUS):
        try:
            with safe_open(str(folder / name), framework="pt") as file:
                told = json.loads(file.metadata()["mdc"])
                position = Position(**told["position"])
                if position.config_sha256 != config_sha256:
                    continue
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
            if _content_sha256(tensors) != told["sha256"] or not _complete(tensors, model):
                raise ValueError("damaged, or another model's")
        except FileNotFoundError:
            continue
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError, AttributeError):
            (folder / name).unlink(missing_ok=True)  # or the next save would keep it in the good one's place
            continue
        _restore(tensors, model, optimizer)
        return position
    return None


def _content_sha256(tensors: dict[str, Tensor]) -> str:
    """Hash of names and bytes, in the order of names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _complete(tensors: dict[str, Tensor], model: nn.Module) -> bool:
    """Whether a state has all that ``_restore`` needs, in the right shapes."""
    found = {name.removeprefix("model."): t.shape for name, t in tensors.items() if name.startswith("model.")}
    if found != {name: t.shape for name, t in model.state_dict().items()}:
        return False
    slots = {
        frozenset(name.rpartition(".")[2] for name in tensors if name.rpartition(".")[0] == f"optimizer.{parameter}")
        for parameter, _ in model.named_parameters()
    }
    now = torch.get_rng_state()
    return len(slots - {frozenset()}) <= 1 and (tensors["rng.cpu"].shape, tensors["rng.cpu"].dtype) == (
        now.shape,
        now.dtype,
    )


def _restore(tensors: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    weights = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
    model.load_state_dict(weights)
    for name, parameter in model.named_parameters():
        prefix = f"optimizer.{name}."
        state: dict[str, Any] = {}
        for key, value in tensors.items():
            if key.startswith(prefix):
                short = key.removeprefix(prefix)
                # fused AdamW keeps its step counter on the parameter's device
                state[short] = value.to(parameter.device)
        if state:
            optimizer.state[parameter] = state
    torch.set_rng_state(tensors["rng.cpu"])
    if "rng.cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["rng.cuda"])


def save_weights(path: Path, model: nn.Module, metadata: dict[str, str]) -> None:
    """The final weights alone, atomically. The same weights and metadata give the same bytes."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    with _saving(path), atomic_path(path) as temporary:
        # under one key: safetensors writes several in an order that changes from process to process
        save_file(tensors, str(temporary), metadata={"mdc": json.dumps(metadata, sort_keys=True)})


def load_weights(path: Path, prefix: str = "") -> dict[str, Tensor]:
    """The tensors of a weights file whose names start with ``prefix``, which is taken off.

    Raises UserError if the file is missing, cut short, no safetensors file, or of another format than ours.
    """
    try:
        with safe_open(str(path), framework="pt") as file:
            _of_our_format(path, file.metadata())
            keys = [k for k in file.keys() if k.startswith(prefix)]  # noqa: SIM118 - not a mapping
            return {k.removeprefix(prefix): file.get_tensor(k) for k in keys}
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint") from None
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: not a readable safetensors checkpoint ({error})") from None


def _of_our_format(path: Path, metadata: dict[str, str] | None) -> None:
    try:
        found = json.loads((metadata or {})["mdc"])["format"]
    except (KeyError, TypeError, ValueError, RecursionError):
        found = "unknown"
    if found != WEIGHTS_FORMAT:
        raise UserError(
            f"{path}: a checkpoint of format {found!r}; this version reads {WEIGHTS_FORMAT}: train the run again"
        )


@contextmanager
def _saving(path: Path) -> Iterator[None]:
    """A full disk, a lost permission and the like, as one line that says what is safe."""
    kept = "the state saved before it is kept; mend this and start again: the run goes on from there"
    try:
        yield
    except SafetensorError as error:  # how safetensors reports what the operating system said
        raise UserError(f"{path}: cannot be saved ({error}); {kept}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be saved ({error.strerror}); {kept}") from None
