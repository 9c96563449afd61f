"""What stands between the command line and a job: the GPUs it takes, and torchrun for a job of several processes.

`mdc pretrain` of a recipe with ``processes: N`` starts N workers through torchrun, in whose place each is the same
command again, and passes on how they ended: one line for the person, one exit code for the workflow. Whatever ends this
process ends its workers, even SIGKILL. Imports no PyTorch unless it starts workers.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mdc.config import Probe, Recipe
from mdc.processes.gpus import claim_gpus, wanted_gpus
from mdc.processes.lock import WAITED, locked

LAUNCHER, ERRORS = "MDC_LAUNCHER", "MDC_ERRORS"  # in a worker: who started it, and where it says what went wrong
LOST = 4  # exit code of a worker whose peer is gone
_PATIENCE = 20.0  # seconds in which torchrun ends a worker whose peer is gone
_PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """The workers ended badly. ``code`` is the exit code to end with; the message, if any, is for the person."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def started_by_torchrun() -> bool:
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def enter(args: argparse.Namespace, config: dict[str, Any], arguments: list[str]) -> bool:
    """Prepare this process for its job. True if workers have done the job instead.

    ``args`` is the parsed command line, ``arguments`` its words, which a worker gets too, and ``config`` the job's
    resolved configuration, checked already. Raises UserError for GPUs that are not here; Failed if a worker failed.
    """
    if started_by_torchrun():
        _follow_launcher()
        return False
    verb = args.verb
    if verb == "pretrain":
        recipe = Recipe.model_validate(config["recipe"])
        if recipe.processes > 1 and args.wait:  # here, or the other workers would lose their patience with the first
            with locked(Path(args.state), wait=True) as waited:
                if waited:
                    os.environ[WAITED] = "1"
        _claim(recipe.device, recipe.processes, verb)
        if recipe.processes > 1:
            _run_workers(recipe, arguments)
            return True
    elif verb == "probe":
        _claim(Probe.model_validate(config["recipe"]).device, 1, verb)
    return False


def say(verb: str, message: str) -> None:
    """Tell the person; a worker tells its launcher, which tells the first of its workers' messages."""
    folder = os.environ.get(ERRORS)
    if folder:
        place = Path(folder) / f"{time.time_ns()}-{os.environ.get('RANK', '0')}"
        temporary = place.with_name(f".{place.name}")
        temporary.write_text(message, encoding="utf-8")
        temporary.replace(place)
    else:
        print(f"mdc {verb}: {message}", file=sys.stderr)


def lost_peer(verb: str, message: str) -> int:
    """The end of a worker whose peer is gone: the peer's own words matter, so leave it the time to say them."""
    if LAUNCHER in os.environ:
        time.sleep(_PATIENCE)
    say(verb, f"another process of this run is gone ({message}); what was saved is kept")
    return LOST


def _claim(device: str, processes: int, verb: str) -> None:
    count = wanted_gpus(device, processes)
    if count:
        claim_gpus(count, f"mdc {verb}")  # held until this process ends


def _run_workers(recipe: Recipe, arguments: list[str]) -> None:
    """Start the workers, wait for them, and end as they ended."""
    os.environ.setdefault("OMP_NUM_THREADS", str(recipe.threads))  # or torchrun says at length that it chose 1
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all workers are here; the host's name may lead nowhere
    os.environ[LAUNCHER] = str(os.getpid())
    with tempfile.TemporaryDirectory(prefix="mdc-workers-") as folder:
        errors = Path(folder) / "errors"
        errors.mkdir()
        os.environ[ERRORS] = str(errors)
        here = ["--standalone", "--local-addr", "127.0.0.1", "--log-dir", str(Path(folder) / "torchrun")]
        ended = _torchrun([*here, "--nproc-per-node", str(recipe.processes), "-m", "mdc.cli", *arguments])
        del os.environ[ERRORS]
        said = [path.read_text(encoding="utf-8") for path in sorted(errors.glob("[0-9]*"))]
    if isinstance(ended, signal.Signals):
        _end_by(ended)
    elif ended:
        raise _failure(*ended, said)


def _torchrun(arguments: list[str]) -> tuple[int, int] | signal.Signals | None:
    """Rank and exit code (negative: by that signal) of the worker that failed; or the signal that ended us all."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    logging.disable(logging.CRITICAL)  # it has a page for what we say in a line
    try:
        torchrun(arguments)
    except ChildFailedError as error:
        # the cause, not those that lost a peer or were ended for it
        failed = sorted(error.failures.items(), key=lambda item: item[1].timestamp)
        rank, first = min(failed, key=lambda item: item[1].exitcode in (LOST, -signal.SIGTERM))
        return rank, first.exitcode
    except SignalException as error:
        return signal.Signals(error.sigval)
    finally:
        logging.disable(logging.NOTSET)
    return None


def _failure(rank: int, code: int, said: list[str]) -> Failed:
    if code in (2, LOST) and said:
        return Failed(said[0], 2)
    if code < 0:
        name = signal.Signals(-code).name
        return Failed(f"process {rank} was ended by {name}; what was saved is kept: run again to go on", 128 - code)
    return Failed(f"process {rank} failed with exit code {code}; what it said stands above", 1)


def _end_by(number: signal.Signals) -> None:
    """End as the signal would have ended us, now that the workers are gone."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _follow_launcher() -> None:
    """In a worker: end with torchrun, however that ends (Linux; elsewhere a SIGKILL of it leaves workers behind)."""
    if sys.platform != "linux" or "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    launcher = os.environ.get(LAUNCHER)
    if launcher is not None and os.getppid() != int(launcher):  # it was gone before we asked
        os._exit(LOST)
