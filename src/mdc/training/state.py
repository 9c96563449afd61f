"""The resumable state of a run: model, optimiser, random numbers and position, in one safetensors file.

Loading one never executes anything. A save writes a temporary file and renames it; the file before it stays as
``previous``, so whatever happens there is a good one. States lie in a folder that is named by what decides the run's result, so
a run may resume with other processes, threads or devices, and never meets the state of another one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import AdamW

from mdc.models.weights import saving
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.records import atomic_path, sha256_json
from mdc.training.average import AveragedWeights
from mdc.training.segments import EXECUTION_ONLY_KEYS, Segment

LATEST, PREVIOUS = "state.safetensors", "state.previous.safetensors"
_DAMAGED_ENDING = ".damaged"
_DAMAGED = (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, AttributeError, RecursionError)


def decisive(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a resumable state belongs to: a :class:`PretrainJob`'s configuration without ``EXECUTION_ONLY_KEYS``."""
    return {
        **config,
        "recipe": {key: value for key, value in config["recipe"].items() if key not in EXECUTION_ONLY_KEYS},
    }


@dataclass(frozen=True)
class Owner:
    """What decides a run's result: its configuration as :func:`decisive` has it, and its inputs' sha256."""

    config: Mapping[str, Any]
    inputs: Mapping[str, str]

    @classmethod
    def of(cls, job: PretrainJob, inputs: Mapping[str, str]) -> Owner:
        return cls(decisive(job.config()), inputs)

    def to_json(self) -> dict[str, Any]:
        return {"config": self.config, "inputs": self.inputs}

    @property
    def sha256(self) -> str:
        return sha256_json(self.to_json())


@dataclass(frozen=True)
class Position:
    """Where a run stands: ``step`` optimiser steps are done, computed as ``segments`` say, in so many ``seconds``.

    Data order and noise follow from the step and the seed.
    """

    step: int
    segments: list[Segment] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """A state that is not written yet: tensors by name, and where the run stands."""

    tensors: dict[str, Tensor]
    told: dict[str, Any]


class States:
    """The states of one run in its ``folder``, and its log while it lasts."""

    def __init__(self, folder: Path, owner: Owner) -> None:
        self.folder, self.owner = folder, owner

    @classmethod
    def among(cls, folder: Path, owner: Owner) -> States:
        """Those in the owner's part of a folder for all that was ever asked of a run."""
        return cls(folder / owner.sha256[:16], owner)

    def snapshot(
        self,
        model: nn.Module,
        optimizer: AdamW,
        position: Position,
        average: AveragedWeights | None = None,
    ) -> Snapshot:
        """A copy, in this machine's memory, of everything that a resumed run needs to end in the same bits."""
        tensors = {f"model.{name}": t.detach() for name, t in model.state_dict().items()}
        for name, parameter in model.named_parameters():
            for key, value in optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{name}.{key}"] = torch.as_tensor(value)
        if average is not None:
            tensors |= {f"average.{name}": value for name, value in average.weights.items()}
        tensors["rng.cpu"] = torch.get_rng_state()
        if torch.cuda.is_available():
            tensors["rng.cuda"] = torch.cuda.get_rng_state()
        copies = {name: torch.empty(t.shape, dtype=t.dtype).copy_(t) for name, t in tensors.items()}
        return Snapshot(copies, asdict(position))

    def write(self, snapshot: Snapshot) -> None:
        """Write a snapshot, with a hash of it, so that a flipped bit is noticed; the state before it stays as the one before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        latest = self.folder / LATEST
        told = {"owner": self.owner.to_json(), **snapshot.told}
        told["sha256"] = _content_sha256(told, snapshot.tensors)
        with saving(latest), atomic_path(latest) as temporary:
            save_file(snapshot.tensors, str(temporary), metadata={"mdc": json.dumps(told, sort_keys=True)})
            if latest.exists():
                latest.replace(self.folder / PREVIOUS)

    def load(
        self, model: nn.Module, optimizer: AdamW, average: AveragedWeights | None = None, step: int | None = None
    ) -> Position | None:
        """Restore the newest good state of this run, or that after ``step``; None if there is none (then nothing was changed).

        A damaged or half-written file is passed over for the one before it, and renamed with one line on stderr; another
        run's is ignored. An error of the disk is raised: the state may be good.
        """
        for path in (self.folder / LATEST, self.folder / PREVIOUS):
            try:
                with safe_open(str(path), framework="pt") as file:
                    told = json.loads(file.metadata()["mdc"])
                    if told.get("owner") != self.owner.to_json() or step not in (None, told.get("step")):
                        continue
                    tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
                if told.pop("sha256") != _content_sha256(told, tensors) or not _complete(tensors, model, average):
                    raise ValueError("damaged, or another model's")
                position = Position(told["step"], told["segments"], told["seconds"])
            except FileNotFoundError:
                continue
            except _DAMAGED as error:
                _rename_damaged(path, error)
                continue
            _restore(tensors, model, optimizer)
            if average is not None:
                average.restore(_of(tensors, "average."))
            return position
        return None

    def clear(self) -> None:
        """Remove this run's states, and what else lies in their folder: it is done."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _rename_damaged(path: Path, error: Exception) -> None:
    """Out of the way: otherwise the next save would keep it in the good one's place."""
    damaged = path.with_suffix(_DAMAGED_ENDING)
    path.replace(damaged)
    print(f"{path}: damaged ({error}); it now lies at {damaged}", file=sys.stderr, flush=True)


def _content_sha256(told: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """Hash of what is told beside the tensors, and of their names and bytes in the order of names."""
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _of(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _complete(tensors: dict[str, Tensor], model: nn.Module, average: AveragedWeights | None) -> bool:
    """Whether a state has all that is restored, in the right shapes."""
    averaged = average.weights if average is not None else {}
    for prefix, expected in (("model.", model.state_dict()), ("average.", averaged)):
        found = {name: t.shape for name, t in _of(tensors, prefix).items()}
        if found != {name: t.shape for name, t in expected.items()}:
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


def _restore(tensors: dict[str, Tensor], model: nn.Module, optimizer: AdamW) -> None:
    model.load_state_dict(_of(tensors, "model."))
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
