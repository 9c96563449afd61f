"""Requests to the workers that download shards, and their answers; imports nothing slow."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mdc.plan.processes.lock import flock

DISK, NETWORK = "disk", "network"  # failures that the next shard would have too


class Order(NamedTuple):
    """A shard to download, with its part of the plan; ``trust_network_errors``: see ``accounts.take_account``."""

    shard: int
    part: Mapping[str, Any]
    trust_network_errors: bool


class Answer(NamedTuple):
    """The result for a shard: ``trouble`` is "" if it is complete; ``kind`` (disk, network) if others would fail too."""

    shard: int
    trouble: str
    kind: str = ""


@contextmanager
def worker_lock(folder: Path, mode: int) -> Iterator[None]:
    """Hold the workers' lock: shared (LOCK_SH) by each of them, exclusive (LOCK_EX) to be sure that none is left.

    A worker ends shortly after the process that started it; a new run may have begun meanwhile.
    """
    with (folder / "workers").open("a+") as handle:
        flock(handle, mode, folder)
        yield
