"""What the steps of a run were computed with: a killed run may resume on another machine, or split another way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mdc.plan.config.pretrain import Recipe

#: of the recipe, what changes how a run proceeds and its result by rounding at most: a killed run resumes with other values
EXECUTION_ONLY_KEYS = ("processes", "accumulation", "threads", "device", "compile", "recompute", "kernel")
#: {first_step, last_step (both counted from 1, inclusive), and what ``setting`` says}
Segment = dict[str, Any]


def setting(recipe: Recipe, device: torch.device) -> dict[str, Any]:
    """What this process computes with: those of the recipe's keys that change a result by rounding at most (the device by the
    name of what was found), and PyTorch."""
    named = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    keys = {key: value for key in EXECUTION_ONLY_KEYS if (value := getattr(recipe, key)) is not None}
    return {**keys, "device": named, "torch": torch.__version__}


def extended(segments: Sequence[Segment], step: int, computed_with: dict[str, Any]) -> list[Segment]:
    """``segments`` and what follows them up to ``step``: a segment of its own, unless the last one had the same setting."""
    last = segments[-1]["last_step"] if segments else 0
    if step == last:
        return list(segments)
    if segments and segments[-1] == {**segments[-1], **computed_with}:
        return [*segments[:-1], {**segments[-1], "last_step": step}]
    return [*segments, {"first_step": last + 1, "last_step": step, **computed_with}]
