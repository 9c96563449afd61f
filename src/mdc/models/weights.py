"""Final weights as safetensors: loading them never executes anything."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from mdc.plan.records import UserError, atomic_path

WEIGHTS_FORMAT = "mdc-weights-1"
#: a run's last weights, and those with the least held-out loss
CHECKPOINT, BEST = "checkpoint.safetensors", "best.safetensors"


def save_weights(path: Path, model: nn.Module, metadata: dict[str, str]) -> None:
    """Write the weights of ``model`` to ``path``, whole or not at all. The same weights and metadata give the same bytes."""
    save_tensors(path, {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}, metadata)


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write tensors of the CPU to ``path``, whole or not at all; the same ones and metadata give the same bytes."""
    with saving(path), atomic_path(path) as temporary:
        # under a single key: safetensors writes several keys in an order that changes from process to process
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
        weights_format = json.loads((metadata or {})["mdc"])["format"]
    except (KeyError, TypeError, ValueError, RecursionError):
        weights_format = "unknown"
    if weights_format != WEIGHTS_FORMAT:
        raise UserError(
            f"{path}: a checkpoint of format {weights_format!r}; this version reads {WEIGHTS_FORMAT}: retrain the run"
        )


#: of a training
_SAFE = "the state saved before is kept; mend this and start the run again, and it resumes from there"


@contextmanager
def saving(path: Path, hint: str = _SAFE) -> Iterator[None]:
    """Turn a full disk, a missing permission and the like into a UserError, whose ``hint`` says what is still safe."""
    try:
        yield
    except SafetensorError as error:  # how safetensors reports what the operating system said
        raise UserError(f"{path}: cannot be saved ({error}); {hint}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be saved ({error.strerror}); {hint}") from None
