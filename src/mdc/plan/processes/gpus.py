"""Which GPUs a job takes. Snakemake assigns no device ids, so each job claims free devices itself.

A claim is a lock on a file named after the device's id, in a folder that all jobs of the user on this machine share. The lock
ends with the process. This module does not import PyTorch: CUDA reads CUDA_VISIBLE_DEVICES only once, and the claim must come
first.
"""

import ctypes
import fcntl
import os
import re
import stat
import sys
import time
from pathlib import Path

from mdc.plan.processes.lock import flock
from mdc.plan.records import UserError

VISIBLE = "CUDA_VISIBLE_DEVICES"
POLL_SECONDS = 0.5
_DEVICES = Path("/dev")
_ID = re.compile(r"[0-9]+|(GPU|MIG)-.+")


def gpu_ids() -> list[str]:
    """The device ids that a job may use: those in CUDA_VISIBLE_DEVICES, otherwise one number for each device of this machine."""
    visible = os.environ.get(VISIBLE)
    if visible is None:
        # CUDA numbers devices from 0, whatever the device files are called (a container may have nvidia5 only)
        numbers = [str(number) for number, _ in enumerate(_DEVICES.glob("nvidia[0-9]*"))]
        return numbers or (["0"] if _on_wsl() else [])
    ids: list[str] = []
    for text in (part.strip() for part in visible.split(",")):
        if not _ID.fullmatch(text):  # CUDA also stops at the first entry that is no id, as -1, or SLURM's NoDevFiles
            break
        if text not in ids:
            ids.append(text)
    return ids


def _on_wsl() -> bool:
    """Whether this is WSL2 with a GPU that CUDA can use.

    WSL2 has one device file for all GPUs of any vendor, so NVIDIA's driver must load too. It does not distinguish a second GPU
    from the first: CUDA_VISIBLE_DEVICES names both.
    """
    if not (_DEVICES / "dxg").exists():
        return False
    try:
        ctypes.CDLL("libcuda.so.1")  # reads no environment yet
    except OSError:
        return False
    return True


def wanted_gpus(device: str, processes: int) -> int:
    """How many GPUs a job with this ``device`` setting takes here."""
    return processes if device == "cuda" or (device == "auto" and gpu_ids()) else 0


def claim_gpus(count: int, who: str, folder: Path | None = None) -> list[int]:
    """Wait until ``count`` GPUs are free, claim them, and make them the only ones that this process sees.

    ``who``: the beginning of the line that is printed if the job must wait. Returns the descriptors of the locks; the claim holds
    until they are closed. Raises UserError if this machine has fewer than ``count`` GPUs.
    """
    ids = gpu_ids()
    if len(ids) < count:
        listed = f" ({', '.join(ids)})" if ids else ""
        raise UserError(
            f"GPUs requested: {count}, available: {len(ids)}{listed}; "
            "allowed: fewer recipe.processes with as much more accumulation, or recipe.device: cpu"
        )
    folder = _lock_folder() if folder is None else folder
    _make_private(folder)
    waiting = False
    while not (claims := _try(ids, count, folder)):
        if not waiting:
            print(
                f"{who}: waiting for {count} free GPUs among {', '.join(ids)} ({folder})", file=sys.stderr, flush=True
            )
            waiting = True
        time.sleep(POLL_SECONDS)
    os.environ[VISIBLE] = ",".join(claims)
    return list(claims.values())


def _lock_folder() -> Path:
    """The folder of the locks, the same for all jobs of this user here; not TMPDIR, which can differ between jobs.

    In a SLURM job the ids may be relative to the job (its first device is 0), so each SLURM job has its own folder.
    """
    job = re.sub(r"\W", "_", os.environ.get("SLURM_JOB_ID", ""))
    return Path("/tmp") / (f"mdc-gpus-{os.getuid()}" + (f"-slurm-{job}" if job else ""))


def _make_private(folder: Path) -> None:
    """Create the folder, and check that it is this user's: everyone can write to /tmp."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise UserError(f"{folder}: is not your folder, so GPUs cannot be claimed there; delete it") from None


def _try(ids: list[str], count: int, folder: Path) -> dict[str, int]:
    """``count`` ids with their locks, or none: all are claimed at once, so that two jobs never wait for each other."""
    claims: dict[str, int] = {}
    gate = _open(folder / "gate")
    try:
        flock(gate, fcntl.LOCK_EX, folder)
        for name in ids:
            if len(claims) == count:
                break
            handle = _open(folder / f"{re.sub(r'[^A-Za-z0-9-]', '_', name)}.lock")
            try:
                flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, folder)
            except BlockingIOError:
                os.close(handle)
                continue
            claims[name] = handle
        if len(claims) < count:
            for handle in claims.values():
                os.close(handle)
            claims = {}
    finally:
        os.close(gate)
    return claims


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
