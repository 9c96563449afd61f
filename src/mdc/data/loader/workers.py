"""A function of many items, computed ahead by worker processes, with results in the order of the items."""

import multiprocessing
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.connection import Listener
from multiprocessing.reduction import ForkingPickler
from multiprocessing.synchronize import Event
from multiprocessing.util import Finalize
from typing import Any, TypeVar

import torch

from mdc.plan.processes.interrupts import leave_to_parent
from mdc.plan.records import UserError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_LOOK_EVERY = 0.5  # seconds


def ahead(function: Callable[[_Item], _Result], items: Sequence[_Item], workers: int) -> Iterator[_Result]:
    """``function`` of each item. ``workers`` processes compute results ahead; 0: none, in this process.

    A UserError of ``function`` is raised as the same UserError. Workers end with their parent, however that ends. UserError if
    there is no folder for the sockets through which workers pass tensors.
    """
    if not workers:
        return map(function, items)
    _choose_socket_folder(os.getpid())
    loader = torch.utils.data.DataLoader(
        _Computed(function),
        batch_size=None,  # a work item is a whole batch
        sampler=items,
        num_workers=min(workers, max(len(items), 1)),
        collate_fn=_unchanged,
        # for the workers' seeds, which nothing uses; otherwise the loader would draw them from the global generator, and a run
        # with workers would differ from one without
        generator=torch.Generator().manual_seed(0),
        worker_init_fn=partial(_end_with, os.getpid(), _ending(os.getpid())),
    )
    return map(_checked, loader)


def room_for(workers: int, size: int) -> None:
    """UserError if results of ``size`` bytes do not fit into shared memory: each of ``workers`` has two ready and makes a
    third."""
    try:
        status = os.statvfs("/dev/shm")
    except OSError:  # not Linux
        return
    needed, free = 3 * workers * size, status.f_bavail * status.f_frsize
    if needed > free:
        raise UserError(
            f"/dev/shm: {free // 10**6} MB free, but {workers} workers need {needed // 10**6} MB; lower runtime.workers, or "
            "enlarge it (mount -o remount,size=…; docker run --shm-size=…)"
        )


@cache
def _choose_socket_folder(process: int) -> None:
    """Choose the folder of the sockets of ``process``, this one, and of its workers: the usual one if a socket can be made there.
    A socket's whole name has at most 107 characters, and not every file system keeps sockets."""
    usual, config = tempfile.gettempdir(), multiprocessing.current_process()._config  # type: ignore[attr-defined]
    for place in (usual, "/tmp", "/var/tmp", "/dev/shm"):
        with suppress(OSError):
            config["tempdir"] = tempfile.mkdtemp(prefix="pymp-", dir=place)  # workers inherit it
            Finalize(None, shutil.rmtree, [config["tempdir"], True], exitpriority=-100)
            Listener(family="AF_UNIX").close()
            return
    raise UserError(
        f"TMPDIR: no socket can be made below {usual} (too long a name, or its file system), nor in /tmp, /var/tmp or /dev/shm; "
        "set TMPDIR to a short folder on a local disk, or runtime.workers to 0"
    )


@cache
def _ending(process: int) -> Event:
    """Set when ``process``, this one, is about to end.

    After an error, workers may have results that are never taken. Python would send them SIGTERM, which they ignore, and wait
    forever.
    """
    event = multiprocessing.Event()
    Finalize(None, event.set, exitpriority=0)  # called before Python waits for its children
    return event


def _end_with(parent: int, ending: Event, _: int) -> None:
    """End this worker soon after the process ``parent``, from a thread of its own.

    torch's own workers also notice that their parent is gone; but one with a result left waits for it to be taken, and meanwhile
    holds inherited locks.
    """

    def watch() -> None:
        while os.getppid() == parent and not ending.is_set():
            time.sleep(_LOOK_EVERY)
        os._exit(0)

    leave_to_parent()
    threading.Thread(target=watch, daemon=True).start()


@dataclass(frozen=True, slots=True)
class _Refused:
    """A worker's UserError."""

    message: str


class _Computed(torch.utils.data.Dataset[Any]):
    """A map from item to result, for torch's workers."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __getitem__(self, item: Any) -> Any:
        try:
            result = self.function(item)
        except UserError as error:  # torch would put the message into the worker's traceback
            result = _Refused(str(error))
        # here, so that a result that cannot be sent is an error as any other: torch's queue would drop it, and the parent wait
        return bytes(ForkingPickler.dumps(result))


def _unchanged(result: Any) -> Any:
    return result


def _checked(sent: bytes) -> Any:
    result = ForkingPickler.loads(sent)
    if isinstance(result, _Refused):
        raise UserError(result.message)
    return result
