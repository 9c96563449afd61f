"""Downloads shards by processes of this machine, or by workers of Spark or Ray through img2dataset's distributors."""

import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from mdc.data.obtain.orders import Answer, Order
from mdc.plan.processes.interrupts import end_with_parent
from mdc.plan.records import UserError

_DIED = "a process was killed; out of memory? use fewer download.processes"


def download(
    settings: Mapping[str, Any], shards: Iterable[tuple[int, Mapping[str, Any]]], trust_network_errors: bool = False
) -> Iterator[Answer]:
    """Download (shard, its part of the plan) by ``settings["distributor"]``; yield an answer as each shard ends.

    ``trust_network_errors``: see ``accounts.take_account``. UserError if the distributor's package is not installed.
    """
    orders = [Order(shard, part, trust_network_errors) for shard, part in shards]
    if settings["distributor"] == "local":
        return _by_processes(settings, orders)
    return _by_machines(settings, orders)


def _by_machines(settings: Mapping[str, Any], orders: list[Order]) -> Iterator[Answer]:
    """By Spark (the session of spark-submit, or one on this machine) or Ray (RAY_ADDRESS, or this machine)."""
    name, processes = settings["distributor"], settings["processes"]
    try:
        import_module(name)  # without Ray, img2dataset does nothing, silently
    except ImportError as error:
        raise UserError(
            f"download.runtime.distributor: {name}: {error}; pip install 'mdc[{name}]', or set it to local"
        ) from None
    from mdc.data.obtain.accounts import read_account
    from mdc.data.obtain.downloader import ShardDownloader  # first: it sets environment variables for img2dataset

    from img2dataset import distributor  # isort: skip

    if name == "pyspark":
        from pyspark import SparkConf
        from pyspark.sql import SparkSession

        session = SparkConf().setIfMissing("spark.master", f"local[{processes}]").setIfMissing("spark.app.name", "mdc")
        SparkSession.builder.config(conf=session).getOrCreate()  # img2dataset's own would always be local
    run = distributor.pyspark_distributor if name == "pyspark" else distributor.ray_distributor
    try:
        run(processes, ShardDownloader(settings), orders, 1000, 0)
    except Exception:  # a dead worker ends the job; the accounts show what is complete
        traceback.print_exc()
    for order in orders:
        whole = read_account(Path(settings["folder"]), order.shard, order.part) is not None
        yield Answer(order.shard, "" if whole else f"a worker of {name} failed; see its output")


def _by_processes(settings: Mapping[str, Any], orders: list[Order]) -> Iterator[Answer]:
    """The processes end with the iteration. If one dies, its whole pool dies, and the other shards are retried."""
    waiting, answered = deque(orders), True
    # the packages make temporary folders on import, which a killed process cannot remove
    with tempfile.TemporaryDirectory(prefix="mdc-download-", ignore_cleanup_errors=True) as scratch:
        while waiting and answered:  # after a death, while there is progress
            answered = False
            for answer in _pool(settings, waiting, scratch):
                answered = answered or answer.trouble != _DIED
                yield answer


def _pool(settings: Mapping[str, Any], waiting: deque[Order], scratch: str) -> Iterator[Answer]:
    """Run orders until there is none, or a process has died."""
    count, running = min(settings["processes"], len(waiting)), dict[Future[Answer], Order]()
    earlier = multiprocessing.active_children()
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin, (scratch,))
    try:
        with suppress(BrokenProcessPool):  # the futures raise it too
            while waiting or running:
                while waiting and len(running) < count:
                    running[pool.submit(_attempt, settings, waiting[0])] = waiting[0]
                    waiting.popleft()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    order = running.pop(future)
                    broken = isinstance(future.exception(), BrokenProcessPool)
                    yield Answer(order.shard, _DIED) if broken else future.result()
        for order in running.values():
            yield Answer(order.shard, _DIED)
    finally:
        for process in multiprocessing.active_children():
            if process not in earlier:
                process.kill()
        pool.shutdown(cancel_futures=True)


def _begin(scratch: str) -> None:
    """Initialise a process: it ends with its parent, also in the middle of a shard."""
    end_with_parent()  # an unchecked shard is downloaded again
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    os.dup2(2, 1)  # the packages print to standard output
    tempfile.tempdir = os.environ["TMPDIR"] = scratch
    os.environ["OMP_NUM_THREADS"] = "1"
    # img2dataset's writer imports webdataset, which works without PyTorch; importing that is slow
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]
    # the C library's only way to limit a name look-up
    os.environ.setdefault("RES_OPTIONS", "timeout:5 attempts:2")


def _attempt(settings: Mapping[str, Any], order: Order) -> Answer:
    from mdc.data.obtain.downloader import ShardDownloader

    return ShardDownloader(settings).attempt(order)
