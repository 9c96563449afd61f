"""The resumable state of a run: model, optimiser, random numbers and position, in one safetensors file.

Loading one never executes anything. A save writes a temporary file and renames it; the file before it stays as
``previous``, so whatever happens there is a good one. A state says whose it is: it belongs to every run whose result is
decided by the same things, so a run may resume with other processes, threads or devices. The state of another run is set
aside, never overwritten.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from mdc.models.weights import saving
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.records import atomic_path, sha256_json, sha256_text
from mdc.training.adamw import AdamW
from mdc.training.average import AveragedWeights
from mdc.training.segments import EXECUTION_ONLY_KEYS, Segment

LATEST, PREVIOUS = "state.safetensors", "state.previous.safetensors"
#: what else in a state's folder belongs to the run
COMPANIONS = ("log.jsonl", "tensorboard", "clock.json", "kept")
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
    """Where a run stands: ``step`` optimiser steps are done, computed as ``segments`` say.

    Data order and noise follow from the step and the seed.
    """

    step: int
    segments: list[Segment] = field(default_factory=list)


@dataclass(frozen=True)
class Snapshot:
    """A state that is not written yet: tensors by name, and where the run stands."""

    tensors: dict[str, Tensor]
    told: dict[str, Any]


class States:
    """The states of one run in its ``folder``."""

    def __init__(self, folder: Path, owner: Owner) -> None:
        self.folder, self.owner = folder, owner

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
        return Snapshot(copies, {"step": position.step, "segments": list(position.segments)})

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
                position = Position(told["step"], told["segments"])
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

    def set_foreign_aside(self) -> None:
        """Move the states of another run that lie here, with their log and clock, to a folder beside this one.

        One line on stderr says what differs and where they are. To use them again, move the folder's files back. A kill in
        the middle of this leaves the states for the next start, which moves the rest to the same place.
        """
        owners = {name: found for name in (LATEST, PREVIOUS) if (found := self._owner(name)) is not None}
        foreign = [name for name, found in owners.items() if found != self.owner.to_json()]
        if not foreign:
            return
        other = owners[foreign[0]]
        alone = len(foreign) == len(owners)  # otherwise the log and the clock are ours
        names = [*(COMPANIONS if alone else ()), *foreign]
        target = self._free_place(other, names)
        target.mkdir(exist_ok=True)
        for name in names:
            if (self.folder / name).exists():
                (self.folder / name).rename(target / name)
        what = ", ".join(differences(other, self.owner.to_json()))
        print(
            f"{self.folder}: the state that lies here is another run's, for this differs: {what}; it is set aside as "
            f"{target}, and this run {'begins at step 0' if alone else 'resumes from the state before it'}",
            file=sys.stderr,
            flush=True,
        )

    def _owner(self, name: str) -> dict[str, Any] | None:
        """Whose a state is ({} if it does not say); None if there is none or it cannot be read."""
        try:
            with safe_open(str(self.folder / name), framework="pt") as file:
                owner = json.loads(file.metadata()["mdc"]).get("owner", {})
                return owner if isinstance(owner, dict) else {}
        except (FileNotFoundError, *_DAMAGED):
            return None

    def _free_place(self, owner: Mapping[str, Any], names: list[str]) -> Path:
        for number in range(1 << 16):
            mark = sha256_text(json.dumps([owner, number], sort_keys=True))[:8]
            target = self.folder.with_name(f"{self.folder.name}.set-aside-{mark}")
            if not any((target / name).exists() for name in names if (self.folder / name).exists()):
                return target
        raise AssertionError("65,536 states of one run were set aside")

    def clear(self) -> None:
        """Remove this run's states: it is done."""
        for name in (LATEST, PREVIOUS):
            (self.folder / name).unlink(missing_ok=True)
            (self.folder / name).with_suffix(_DAMAGED_ENDING).unlink(missing_ok=True)


def differences(other: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """In which keys of the configuration, in which inputs, or whether in the code, two owners differ."""
    if not other:
        return ["the version of mdc that wrote it, which did not note whose it is"]
    then, now = dict(_leaves(other)), dict(_leaves(ours))
    found = []
    for place in sorted({*then, *now}):
        if then.get(place) == now.get(place):
            continue
        part, *rest = place
        if part == "inputs":
            found.append(f"the input {rest[0]}" if rest else "the inputs")
        elif rest == ["fingerprint"]:
            found.append("the code")
        else:
            old, new = (json.dumps(values[place]) if place in values else "nothing" for values in (then, now))
            found.append(f"{'.'.join(rest)} ({_short(old)} there, {_short(new)} here)")
    return found


def _leaves(tree: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from _leaves(value, (*place, str(key)))
    else:
        yield place, tree


def _rename_damaged(path: Path, error: Exception) -> None:
    """Out of the way: otherwise the next save would keep it in the good one's place."""
    damaged = path.with_suffix(_DAMAGED_ENDING)
    path.replace(damaged)
    print(f"{path}: damaged ({error}); it now lies at {damaged}", file=sys.stderr, flush=True)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


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
