"""Which device a job computes on."""

from __future__ import annotations

import torch

from mdc.records import UserError


def choose_device(wanted: str) -> torch.device:
    """``auto`` takes a GPU if there is one. Raises UserError if ``cuda`` is asked for and there is none."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError("recipe.device is cuda, but PyTorch sees no GPU here; allowed here: cpu, auto")
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(wanted)
