"""What those who download shards are told, and what they answer; it imports nothing that is slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mdc.plan.processes.lock import flock

DISK, NETWORK = "disk", "network"  # kinds of trouble that the next shard would have too


class Order(NamedTuple):
    """A shard to download: its part of the plan; ``trust_network_errors``: if no host answered its rows, that is their
    outcome."""

    shard: int
    part: Mapping[str, Any]
    trust_network_errors: bool


class Answer(NamedTuple):
    """A shard that was tried: ``trouble`` is empty if it is complete; ``kind`` (disk, network) if others would share it."""

    shard: int
    trouble: str
    kind: str = ""


@contextmanager
def present(folder: Path, how: int) -> Iterator[None]:
    """Hold the workers' lock: shared (LOCK_SH) by each of them, and exclusively to be sure that none is left (LOCK_EX).

    A worker ends with the process that started it, but that takes a moment, in which the next one may have begun.
    """
    with (folder / "workers").open("a+") as handle:
        flock(handle, how, folder)
        yield
