"""Between the command line and a job: GPUs are claimed, and torchrun starts a job of several processes.

For a recipe with ``processes: N``, `mdc pretrain` starts N workers by torchrun, each with the same command. Their end becomes one
line for the user and one exit code for the workflow. Whatever ends this process also ends its workers, even SIGKILL. PyTorch is
imported only if workers are started.
"""

import ctypes
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from mdc.plan.host import started_by_torchrun
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.needs import computing
from mdc.plan.processes.gpus import claim_gpus, wanted_gpus
from mdc.plan.processes.interrupts import Interrupted
from mdc.plan.processes.lock import WAITED, locked
from mdc.plan.records import UserError, atomic_path

LAUNCHER = "MDC_LAUNCHER"  # set for a worker: the process that started it
#: set by torchrun: the file for a worker's error message
_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
LOST = 4  # exit code of a worker whose peer is gone
_PATIENCE = 20.0  # seconds in which torchrun ends a worker whose peer is gone
_LOOK = 1.0  # seconds between checks for another worker's message
_LEAVE = 120  # seconds for workers to end their step and validation and save after a signal
_PR_SET_PDEATHSIG = 1


class Failed(UserError):
    """A worker failed, which ends this process with ``exit_code``."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(*message.splitlines())
        self.exit_code = exit_code


def enter(verb: str, call: Call) -> bool:
    """Prepare this process for its job; True if workers have done the job instead.

    ``call.arguments``: of the command line, passed to each worker. UserError if the machine has too few GPUs, Failed if a worker
    failed.
    """
    if started_by_torchrun():
        _follow_launcher()
        return False
    if verb == "write-captions" and call.job.run is None:
        return False  # the most frequent caption needs no model
    if verb == "measure-captions" and not (call.job.clip or call.job.open_clip):
        return False
    device, processes, threads = computing(call.job)
    if processes > 1 and call.wait:  # a worker that waits would let the others run into their time-out
        with locked(call.state, wait=True) as waited:
            if waited:
                os.environ[WAITED] = "1"
    if count := wanted_gpus(device, processes):
        claim_gpus(count, f"mdc {verb}")  # held until this process ends
    if processes > 1:
        _run_workers(processes, threads, list(call.arguments))
    return processes > 1


def say(verb: str, message: str) -> None:
    """Print a message for the user. A worker passes it to its launcher, which prints the first message of its workers."""
    if LAUNCHER in os.environ and _ERROR_FILE in os.environ:
        with atomic_path(os.environ[_ERROR_FILE]) as temporary:  # torchrun reads this, too
            temporary.write_text(json.dumps({"message": message, "timestamp": int(time.time())}), encoding="utf-8")
    else:
        for line in message.splitlines():
            print(f"mdc {verb}: {line}", file=sys.stderr)


def leave(work: Callable[[], int]) -> NoReturn:
    """End this process with the exit code of ``work``. A worker ends at once: Python's exit would run PyTorch's clean-up, which
    waits for the other processes of a failed one, and may abort a finished one whose threads still run."""
    try:
        code = work()
    except Exception:
        if not started_by_torchrun():
            raise
        traceback.print_exc()
        code = 1
    if started_by_torchrun():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def lost_peer(verb: str, message: str) -> int:
    """End a worker whose peer is gone, after some time in which the peer can report the cause."""
    if LAUNCHER in os.environ:
        time.sleep(_PATIENCE)
    say(verb, f"another process of this run is gone ({message}); what was saved is kept")
    return LOST


def _run_workers(processes: int, threads: int, arguments: list[str]) -> None:
    """Start the workers, wait for them, and raise their failure."""
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # otherwise torchrun prints a long message
    # no warnings of DistributedDataParallel
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all workers are here, and the host's name may not resolve
    os.environ[LAUNCHER] = str(os.getpid())
    with tempfile.TemporaryDirectory(prefix="mdc-workers-") as folder:
        here = ["--standalone", f"--nproc-per-node={processes}", "--local-addr=127.0.0.1"]
        here += [f"--shutdown-timeout={_LEAVE}", f"--log-dir={folder}"]
        ended = _torchrun([*here, "-m", "mdc.app.cli", *arguments])
        files = sorted(Path(folder).rglob("error.json"), key=lambda path: path.stat().st_mtime_ns)
        messages = [json.loads(path.read_text(encoding="utf-8"))["message"] for path in files]
    if isinstance(ended, signal.Signals):
        if messages:
            raise Interrupted(messages[0], ended)
        _end_by(ended)
    elif ended:
        raise _failure(*ended, messages)


def _torchrun(arguments: list[str]) -> tuple[int, int] | signal.Signals | None:
    """Rank and exit code (negative: by that signal) of the worker that failed; or the signal that ended torchrun."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    logging.disable(logging.CRITICAL)  # torchrun's long message; ours is one line
    try:
        torchrun(arguments)
    except ChildFailedError as error:
        # the worker that caused it, not those that lost a peer or were ended
        failed = sorted(error.failures.items(), key=lambda item: item[1].timestamp)
        rank, first = min(failed, key=lambda item: item[1].exitcode in (LOST, -signal.SIGTERM))
        return rank, first.exitcode
    except SignalException as error:
        return signal.Signals(error.sigval)
    finally:
        logging.disable(logging.NOTSET)
    return None


def _failure(rank: int, code: int, messages: list[str]) -> Failed:
    if code in (2, LOST) and messages:
        return Failed(messages[0], 2)
    if code > 128 and messages:  # they ended on a signal that did not reach this process
        return Failed(messages[0], code)
    if code < 0:
        name = signal.Signals(-code).name
        return Failed(f"process {rank} was ended by {name}; saved states are kept; rerun to resume", 128 - code)
    return Failed(f"process {rank} failed with exit code {code}; see its messages above", 1)


def _end_by(number: signal.Signals) -> None:
    """End by the signal that ended torchrun; the workers have ended."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _follow_launcher() -> None:
    """End a worker when torchrun ends (on Linux; elsewhere workers survive a SIGKILL of torchrun)."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    launcher = os.environ.get(LAUNCHER)
    if launcher is not None and os.getppid() != int(launcher):  # it had already ended
        os._exit(LOST)
    if launcher is not None and _ERROR_FILE in os.environ:
        workers = Path(os.environ[_ERROR_FILE]).parents[1]
        threading.Thread(target=_leave_with_others, args=[workers], daemon=True).start()


def _leave_with_others(workers: Path) -> None:
    """End this worker some time after another's error message: a worker that waits on a GPU handles no signal."""
    while not any(workers.glob("*/error.json")):
        time.sleep(_LOOK)
    time.sleep(_PATIENCE)
    os._exit(LOST)
