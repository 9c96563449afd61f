"""Starts jobs of the command line as processes of their own and kills them with SIGKILL, as often as a plan says.

Run as a script, by tests/pipeline/test_interruption.py: it imports everything once and forks a child a start, so that twenty
kills do not cost twenty imports of PyTorch. A child is killed either after some seconds by its parent, or by itself
right after its n-th file operation (writes of tensors, fsync, rename, removal), in the middle of a write included.
"""

import importlib
import itertools
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdc.app.cli import main
from mdc.plan.records import sha256_file
from mdc.plan.verbs import VERBS


def kill_after_operation(number: int) -> None:
    """From here on this process kills itself after its ``number``-th file operation."""
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if done == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def ticking(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            tick()
            return result

        return wrapped

    def torn(save_file: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(tensors: Any, path: str, metadata: Any) -> None:
            save_file(tensors, path, metadata=metadata)
            size = Path(path).stat().st_size
            whole = Path(path).read_bytes()
            os.truncate(path, size // 2)
            tick()
            Path(path).write_bytes(whole)
            tick()

        return wrapped

    for name in ("fsync", "replace", "unlink"):
        setattr(os, name, ticking(getattr(os, name)))
    for module in ("mdc.training.state", "mdc.models.weights", "mdc.evaluation.features", "mdc.data.loader.labelled"):
        part = importlib.import_module(module)
        part.save_file = torn(part.save_file)


def start(
    argv: list[str],
    log: Path,
    operation: int | None = None,
    seconds: float | None = None,
    largest_file: int | None = None,
    save_at: int | None = None,
) -> int:
    """Exit status of ``mdc`` ``argv`` in a forked child; −9 if it was killed.

    ``largest_file``, in bytes, stands for a disk that is full after as many: the same failure of the same write. ``save_at``: a
    state is saved after as many steps, and not by time.
    """
    child = os.fork()
    if child == 0:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        if operation is not None:
            kill_after_operation(operation)
        if largest_file is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
        if save_at is not None:
            asked = itertools.count(1)
            importlib.import_module("mdc.training.state").Saver.due = lambda _: next(asked) == save_at
        os._exit(main(argv))
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)  # a child that ended is a zombie until we wait for it
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def carry_out(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Start a job, kill it, start it again until it ends; how each start ended, its seconds, and what it left in ``watch``.

    ``case``: ``argv``, in which {n} stands for the number of the try; ``log``; ``watch``, a pattern; ``save_at``; and either
    ``kills``, for each try a list of kills, or ``every_operation``: try n dies after operation n, until a try lives.
    """
    if "kills" in case:
        return [_try(case, n, kills) for n, kills in enumerate(case["kills"])]
    told = []
    while not told or told[-1]["statuses"][0] != 0:
        told.append(_try(case, len(told) + 1, [{"operation": len(told) + 1}]))
    return told


def _try(case: dict[str, Any], n: int, kills: list[dict[str, Any]]) -> dict[str, Any]:
    argv = [word.replace("{n}", str(n)) for word in case["argv"]]
    statuses: list[int] = []
    seconds: list[float] = []
    left: list[str | None] = []
    for kill in [*kills, {}]:
        if 0 in statuses:  # it had ended before the kill came
            break
        began = time.perf_counter()
        statuses.append(start(argv, Path(case["log"]), save_at=case.get("save_at"), **kill))
        seconds.append(time.perf_counter() - began)
        watched = Path(case.get("watch", argv[1]))
        found = sorted(Path("/").glob(str(watched.relative_to("/")))) if watched.is_absolute() else []
        left.append(sha256_file(found[0]) if found else None)
    return {"statuses": statuses, "seconds": seconds, "left": left}


if __name__ == "__main__":
    for verb in ("pretrain", "probe"):
        importlib.import_module(VERBS[verb].module)
    for part in ("mdc.methods.masked.loss", "mdc.evaluation.predictors.encode"):
        importlib.import_module(part)
    # what a job imports or makes late, here once for all children
    import torch
    import torch.utils.tensorboard

    from mdc.models.text import clip_pieces

    clip_pieces("a word")
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)], fused=True)
    result = carry_out(json.loads(Path(sys.argv[1]).read_text()))
    Path(sys.argv[2]).write_text(json.dumps(result))
