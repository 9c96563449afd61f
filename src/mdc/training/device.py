"""The device that a job computes on."""

import torch

from mdc.plan.records import UserError, did_you_mean

DEVICES = ("auto", "cpu", "cuda")


def choose_device(wanted: str, local_rank: int = 0) -> torch.device:
    """``auto`` takes a GPU if there is one; each of several processes takes the GPU of its local rank.

    Turns off TF32 in convolutions, which PyTorch allows by default. UserError for another name than ``DEVICES`` has, and if
    ``cuda`` is wanted and there is none for this process.
    """
    if wanted not in DEVICES:
        raise UserError(
            f"device {wanted}: no such device{did_you_mean(wanted, DEVICES)}; allowed: {', '.join(DEVICES)}"
        )
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError("device cuda: PyTorch sees no GPU here; allowed here: cpu, auto")
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
