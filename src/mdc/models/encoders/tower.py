"""Interface of frozen encoders: an image to one feature and a sequence of tokens."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from mdc.models.normalise import normalise
from mdc.plan.config.kinds.backbones import FrozenTokens
from mdc.plan.config.kinds.encoders import RANDOM
from mdc.plan.jobs.model import EncoderJob
from mdc.plan.jobs.read import as_job
from mdc.plan.outputs import recorded
from mdc.plan.records import UserError

#: split → its stored arrays, one line each
Lines = dict[str, list[dict[str, Any]]]


class Tower(nn.Module, ABC):
    """B images of S×S pixels, M tokens of width E, a feature of width D.

    ``mean`` and ``std``: of each channel, as the weights were trained.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.mean, self.std = tuple(mean), tuple(std)

    def prepared(self, images: Tensor) -> Tensor:
        """images (B, 3, S, S) uint8 → what ``forward`` takes, float32."""
        return normalise(images, self.mean, self.std)

    @abstractmethod
    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 3, S, S) → the feature (B, D), tokens (B, M, E)."""

    def stored(self, images: Tensor) -> np.ndarray:
        """What is stored of a corpus's images, prepared: their tokens (B, M, E) float16."""
        return np.asarray(self(images)[1].half().cpu().numpy())

    def finish(self, out: Path, lines: Lines) -> tuple[list[Path], dict[str, Any]]:
        """More that is stored once in the folder ``out`` beside the arrays of ``lines``, and facts for their record."""
        return [], {}

    def learnt(self) -> int:
        """How many learnt numbers make an image's tokens."""
        return sum(parameter.numel() for parameter in self.parameters())


@torch.no_grad()
def shape_of(tower: Tower, size: int, name: str, hint: str = "") -> tuple[int, int, int]:
    """D, M and E of images of ``size`` pixels a side. UserError, with the encoder's ``name`` and a ``hint``, if it cannot look at
    them."""
    try:
        feature, tokens = tower(tower.prepared(torch.zeros(1, 3, size, size, dtype=torch.uint8)))
        _, count, width = tokens.shape
    except (RuntimeError, AssertionError, ValueError, IndexError) as error:
        raise UserError(
            f"{name}: cannot look at images of {size} × {size} pixels ({' '.join(str(error).split())[:160]}){hint}"
        ) from None
    return feature.shape[-1], count, width


def places(maps: Tensor) -> Tensor:
    """A feature map (B, E, h, w) as tokens (B, h·w, E), row by row."""
    return maps.flatten(2).transpose(1, 2)


class _Named:
    """Placeholder for a class that a file names and that must not run."""


_LIGHTNING = [
    f"{package}.callbacks.{module}.{name}"
    for package in ("pytorch_lightning", "lightning.pytorch")
    for module, name in (("model_checkpoint", "ModelCheckpoint"), ("early_stopping", "EarlyStopping"))
]


def weights_of_file(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors, .pt, .pth or .ckpt file; of the latter nothing but tensors is ever unpickled.

    A checkpoint of PyTorch Lightning names the classes of its callbacks beside its weights: they are read as ``_Named``, which
    does nothing. UserError for a file that is not there or holds something else.
    """
    try:
        if path.suffix == ".safetensors":
            return load_file(str(path))
        with torch.serialization.safe_globals([(_Named, name) for name in _LIGHTNING]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file of weights") from None
    except Exception as error:  # safetensors, zip and pickle raise whatever a broken file provokes
        raise UserError(f"{path}: no weights can be read from it ({' '.join(str(error).split())[:160]})") from None
    content = content.get("state_dict", content) if isinstance(content, dict) else content
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"{path}: holds no dictionary of tensors; needed: a model's state_dict")
    return dict(content)


def fill(module: nn.Module, weights: dict[str, Tensor], source: object) -> None:
    """Load ``weights`` into ``module``; UserError, naming their ``source``, if they do not fit."""
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"{source}: does not fit the model ({' '.join(str(error).split())[:200]})") from None


TOWER = "encoder.safetensors"


def fetched(job: EncoderJob, root: Path, checkpoint: Path | None = None) -> Tower:
    """The encoder with its weights, in evaluation mode: those of its kind's module (see :mod:`mdc.models.encoders`), or
    ``random`` ones, always the same; the global generator is not touched."""
    module = job.entry.load()
    tower: Tower
    if getattr(job.entry, "weights", None) == RANDOM:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            tower = module.tower(job)
    else:
        tower = module.tower(job, root, checkpoint)
    return tower.eval()


def read_tower(path: Path, expected: FrozenTokens) -> Tower:
    """The encoder of the manifest ``path``, in evaluation mode.

    UserError if it is not ``expected``, or if its weights are not those of the manifest.
    """
    weights, manifest = recorded(path, TOWER, expected.config_sha256, expected.job)
    job: EncoderJob = as_job(manifest["config"], "import-encoder", str(path))
    tower: Tower = job.entry.load().tower(job)
    fill(tower, weights_of_file(weights), weights)
    tower.mean, tower.std = tuple(manifest["mean"]), tuple(manifest["std"])
    return tower.eval().requires_grad_(False)
