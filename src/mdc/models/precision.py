"""The precision in which a model computes."""

from contextlib import AbstractContextManager, nullcontext

import torch


def at_least_float32(values: torch.Tensor) -> torch.Tensor:
    """bf16 as float32; float32 and float64 as they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """A context with bf16 autocast for "bf16", and one without effect for "fp32"."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
