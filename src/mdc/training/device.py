"""Which device a job computes on."""

from __future__ import annotations

import torch

from mdc.plan.records import UserError


def choose_device(wanted: str, local_rank: int = 0) -> torch.device:
    """``auto`` takes a GPU if there is one; of several processes here each takes the one of its number.

    On a GPU, fp32 then means fp32 in convolutions too, which PyTorch would compute as TF32 (as it does not with matrices).

    Raises UserError if ``cuda`` is asked for and there is none, or none for this process.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError("recipe.device is cuda, but PyTorch sees no GPU here; allowed here: cpu, auto")
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        raise UserError(
            f"process {local_rank} of this machine has no GPU: {torch.cuda.device_count()} are visible; "
            "allowed: at most one process for each GPU"
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    torch.backends.cudnn.allow_tf32 = False
    return device
