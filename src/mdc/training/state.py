"""The resumable state of a run: model, optimiser, random numbers and position, in one safetensors file.

Loading executes no code. A save writes a temporary file and renames it; the file before stays as ``previous``, so there is
always a good one. The folder's name is a hash of everything that decides the run's result, so a run may resume with other
processes, threads or devices, and never reads another run's state.

When a state is due depends on time only, so no scale has to configure it.
"""

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import AdamW

from mdc.models.weights import saving
from mdc.plan.config.pretrain import Recipe
from mdc.plan.records import atomic_path, sha256_json
from mdc.training.average import AveragedWeights

LATEST, PREVIOUS = "state.safetensors", "state.previous.safetensors"
_DAMAGED = (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, AttributeError, RecursionError)
#: keys of the recipe that change a result by rounding at most: a killed run may resume with other values
EXECUTION_ONLY_KEYS = (
    "processes",
    "accumulation",
    "threads",
    "device",
    "compile",
    "activation_checkpointing",
    "kernel",
)
#: {first_step, last_step (both counted from 1, inclusive), and the keys of ``setting``}
Segment = dict[str, Any]


def decisive(config: Mapping[str, Any]) -> dict[str, Any]:
    """The owner of a resumable state: a ``PretrainJob``'s configuration without ``EXECUTION_ONLY_KEYS``."""
    recipe = {key: value for key, value in config["recipe"].items() if key not in EXECUTION_ONLY_KEYS}
    return {**config, "recipe": recipe}


def setting(recipe: Recipe, device: torch.device) -> dict[str, Any]:
    """The setting of this process: ``EXECUTION_ONLY_KEYS`` of the recipe, with the device's full name, and PyTorch's version."""
    named = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    keys = {key: value for key in EXECUTION_ONLY_KEYS if (value := getattr(recipe, key)) is not None}
    return {**keys, "device": named, "torch": torch.__version__}


@dataclass(frozen=True)
class Position:
    """The position of a run: ``step`` optimiser steps are done, with the settings in ``segments``, in so many ``seconds``.

    Data order and noise follow from the step and the seed.
    """

    step: int
    segments: list[Segment] = field(default_factory=list)
    seconds: float = 0.0

    def moved_to(self, step: int, computed_with: dict[str, Any], seconds: float = 0.0) -> "Position":
        """After ``step``, and so many more ``seconds``: in a new segment, unless the last has the same setting."""
        segments = list(self.segments)
        if step > self.step:
            if not segments or segments[-1] != {**segments[-1], **computed_with}:
                segments.append({"first_step": self.step + 1, "last_step": step, **computed_with})
            segments[-1] = {**segments[-1], "last_step": step}
        return Position(step, segments, self.seconds + seconds)


class States:
    """The states of one run in its ``folder``, and its log until it ends. ``owner``: everything that decides the run's result."""

    def __init__(self, folder: Path, owner: Mapping[str, Any]) -> None:
        self.folder, self._owner = folder, dict(owner)

    @classmethod
    def among(cls, folder: Path, config: Mapping[str, Any], inputs: Mapping[str, str]) -> "States":
        """The states of the run with this ``config`` and inputs' sha256, in a subfolder of ``folder``."""
        owner = {"config": config, "inputs": inputs}
        return cls(folder / sha256_json(owner)[:16], owner)

    def write(self, tensors: dict[str, Tensor], position: Position) -> None:
        """Write the tensors of :func:`copied` with a hash, so that a flipped bit is noticed; the state before stays as
        ``PREVIOUS``. UserError if the disk is full."""
        latest = self.folder / LATEST
        metadata = {"owner": self._owner, **asdict(position)}
        metadata["sha256"] = _content_sha256(metadata, tensors)
        with saving(latest), atomic_path(latest) as temporary:
            save_file(tensors, str(temporary), metadata={"mdc": json.dumps(metadata, sort_keys=True)})
            if latest.exists():
                latest.replace(self.folder / PREVIOUS)

    def load(
        self, model: nn.Module, optimizer: AdamW, average: AveragedWeights | None = None, step: int | None = None
    ) -> Position | None:
        """Restore the newest good state of this run, or that after ``step``; None if there is none (then nothing is changed).

        A damaged file is renamed, with one line on stderr, and the one before it is used; another run's is ignored. An error of
        the disk is raised: the state may be good.
        """
        for path in (self.folder / LATEST, self.folder / PREVIOUS):
            try:
                with safe_open(str(path), framework="pt") as file:
                    metadata = json.loads(file.metadata()["mdc"])
                    if metadata.get("owner") != self._owner or step not in (None, metadata.get("step")):
                        continue
                    tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
                if metadata.pop("sha256") != _content_sha256(metadata, tensors):
                    raise ValueError("its content is not what was written")
                del metadata["owner"]
                position = Position(**metadata)
                _restore(tensors, model, optimizer, average)
                return position
            except FileNotFoundError:
                continue
            except _DAMAGED as error:
                # otherwise the next save would replace the good state by it
                damaged = path.replace(path.with_suffix(".damaged"))
                print(f"{path}: damaged ({error}); it now lies at {damaged}", file=sys.stderr, flush=True)
        return None

    def clear(self) -> None:
        """Remove this run's states and their folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def copied(model: nn.Module, optimizer: AdamW, average: AveragedWeights | None = None) -> dict[str, Tensor]:
    """A copy, in host memory, of everything that a resumed run needs for a bit-equal result."""
    tensors = _weights(model, average)
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{name}.{key}"] = torch.as_tensor(value)
    tensors["rng.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["rng.cuda"] = torch.cuda.get_rng_state()
    return {name: torch.empty(t.shape, dtype=t.dtype).copy_(t) for name, t in tensors.items()}


def _weights(model: nn.Module, average: AveragedWeights | None) -> dict[str, Tensor]:
    """The tensors of the model's weights and their average, not copied."""
    tensors = {f"model.{name}": t.detach() for name, t in model.state_dict().items()}
    return tensors | {f"average.{name}": t for name, t in (average.weights if average is not None else {}).items()}


@torch.no_grad()
def _restore(tensors: dict[str, Tensor], model: nn.Module, optimizer: AdamW, average: AveragedWeights | None) -> None:
    """Restore a state; ValueError, and nothing is changed, if the tensors are another model's."""
    weights = _weights(model, average)
    shapes = {name: t.shape for name, t in tensors.items() if not name.startswith(("optimizer.", "rng."))}
    if shapes != {name: t.shape for name, t in weights.items()}:
        raise ValueError("it is another model's")
    torch.set_rng_state(tensors["rng.cpu"])
    if "rng.cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["rng.cuda"])
    for name, tensor in weights.items():
        tensor.copy_(tensors[name])
    for name, parameter in model.named_parameters():
        prefix = f"optimizer.{name}."
        # fused AdamW keeps its step counter on the parameter's device
        saved = {k.removeprefix(prefix): t.to(parameter.device) for k, t in tensors.items() if k.startswith(prefix)}
        if saved:
            optimizer.state[parameter] = saved


def _content_sha256(metadata: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """Hash of the metadata, and of the tensors' names and bytes in the order of names."""
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


SHARE = 0.02  # the largest share of a run's time spent on saving


class Saver(AbstractContextManager["Saver"]):
    """Copies a run's state into memory and writes it in a thread, one at a time; then the thread calls ``after`` with the state's
    step. Leaving the block waits for the last state. An error in the thread is raised by the next :meth:`begin` or :meth:`wait`.

    ``every``: the least seconds between two states; 0: one after every step.
    """

    def __init__(self, states: States, every: int, after: Callable[[int], object] = lambda step: None) -> None:
        self._states, self._every, self._after = states, every, after
        self._since, self._took = time.monotonic(), 0.0  # the last state's end, and the seconds that it took
        self._pool, self._saving = ThreadPoolExecutor(1, "save"), Future[None]()
        self._saving.set_result(None)

    def due(self) -> bool:
        """Whether to save a state now: ``every`` seconds have passed, and saving stays below SHARE of the time."""
        if not self._every:
            return True
        return self._saving.done() and time.monotonic() - self._since >= max(self._every, self._took / SHARE)

    def begin(
        self, model: nn.Module, optimizer: AdamW, position: Position, average: AveragedWeights | None = None
    ) -> None:
        """Start to save the present state."""
        self.wait()
        began = time.monotonic()
        self._saving = self._pool.submit(self._write, copied(model, optimizer, average), position, began)

    def wait(self) -> None:
        """Wait until the state is written."""
        self._saving.result()

    def _write(self, tensors: dict[str, Tensor], position: Position, began: float) -> None:
        self._states.write(tensors, position)
        self._since = time.monotonic()
        self._took = self._since - began
        self._after(position.step)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown()
        if kind is None:  # an exception of the block takes precedence
            self.wait()
