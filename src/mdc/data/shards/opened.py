"""The shards that a process holds open: as many as its limit of open files allows, the least recently used goes first.

A random order over thousands of shards asks for another one with nearly every sample, so each that had to go would be opened
again at once: a call or three on a disk of one's own, and as many journeys to the server of a shared one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import resource
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mdc.data.shards.offsets import size_of
from mdc.plan.records import UserError

RESERVE = 256  # descriptors that are left to everything else: pipes of workers, sockets, libraries
_MOST = 1 << 20  # a soft limit is raised no higher, for some programs walk over all that they may have
_EACH = 2  # descriptors of a shard: its tar and its offsets


class Opened(NamedTuple):
    """Descriptors of a shard's two files."""

    tar: int
    offsets: int


class OpenShards:
    """Shards of ``folder`` as an index describes them (``shards``), opened when they are asked for.

    ``most``: how many are held open, by default as many as ``room`` gives. Descriptors belong to the process that opened them, so
    an object can be forked or pickled into workers. What is opened for the first time, or has changed since, is held against
    the index: the size of its tar, the sha256 of its offsets.
    """

    def __init__(self, folder: Path, shards: Sequence[Mapping[str, Any]], most: int | None = None) -> None:
        self.folder, self.shards, self.most = folder, shards, most
        self._ahead = False
        self._held: OrderedDict[int, Opened] = OrderedDict()
        self._good: dict[int, tuple[tuple[int, ...], ...]] = {}
        self._owner = -1

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": OrderedDict(), "_owner": -1}

    def __len__(self) -> int:
        """How many are open now."""
        return len(self._held)

    def __getitem__(self, number: int) -> Opened:
        """The shard ``number``, open. UserError if it is missing, cannot be opened, or is not what the index describes."""
        if self._owner != os.getpid():
            # After a fork the parent's descriptors stay the parent's business.
            self._held, self._owner = OrderedDict(), os.getpid()
            self._room = room(len(self.shards)) if self.most is None else self.most
        found = self._held.get(number)
        if found is not None:
            self._held.move_to_end(number)
            return found
        while len(self._held) >= self._room:
            self._close_oldest()
        found = self._open(number)
        self._held[number] = found
        return found

    def read_ahead(self, most: int) -> None:
        """From now on hold at most ``most``, and tell the system, whenever one is opened, that all of it will be read soon:
        where it can be told, it then reads the shard in one go."""
        self.close()
        self.most, self._ahead, self._owner = most, True, -1

    def close(self) -> None:
        """Close this process's descriptors; asking for a shard opens it again."""
        while self._held and self._owner == os.getpid():
            self._close_oldest()
        self._held.clear()

    def _close_oldest(self) -> None:
        _, oldest = self._held.popitem(last=False)
        for descriptor in oldest:
            os.close(descriptor)

    def _open(self, number: int) -> Opened:
        shard = self.shards[number]
        tar = self._descriptor(self.folder / shard["file"], "the shard")
        try:
            offsets = self._descriptor(self.folder / shard["offsets"]["file"], "the file of offsets")
        except UserError:
            os.close(tar)
            raise
        try:
            found = tuple(_identity(descriptor) for descriptor in (tar, offsets))
            if self._good.get(number) != found:
                check_sizes(self.folder, shard)
                # by the open descriptor, for there may be no other
                data = os.pread(offsets, shard["offsets"]["bytes"], 0)
                check_offsets(self.folder, shard, hashlib.sha256(data).hexdigest())
                self._good[number] = found
        except BaseException:
            os.close(tar)
            os.close(offsets)
            raise
        if self._ahead and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(tar, 0, 0, os.POSIX_FADV_WILLNEED)
        return Opened(tar, offsets)

    def _descriptor(self, path: Path, what: str) -> int:
        while True:
            try:
                return os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                raise UserError(f"{path}: {what} is missing; rebuild the set") from None
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._held:
                    raise UserError(f"{path}: cannot be opened ({error.strerror})") from None
                # others in this process need descriptors too, so from now on a quarter fewer are held
                self._room = max(len(self._held) * 3 // 4, 1)
                self._close_oldest()
                while len(self._held) > self._room:
                    self._close_oldest()


def check_sizes(folder: Path, shard: Mapping[str, Any]) -> None:
    """UserError unless both files of a shard are there, with the sizes that its index says and its number of samples needs."""
    offsets = shard["offsets"]
    for path, size, what in (
        (folder / shard["file"], shard["bytes"], "the shard"),
        (folder / offsets["file"], offsets["bytes"], "the file of offsets"),
    ):
        if not path.is_file():
            raise UserError(f"{path}: {what} is missing; rebuild the set")
        if path.stat().st_size != size:
            raise UserError(f"{path}: {what} is not of the size in index.json; rebuild the set")
    if offsets["bytes"] != size_of(shard["samples"]):
        raise UserError(
            f"{folder / offsets['file']}: not the offsets of the {shard['samples']} samples of {shard['file']}; "
            "rebuild the set"
        )


def check_offsets(folder: Path, shard: Mapping[str, Any], sha256: str) -> None:
    """UserError unless ``sha256``, that of a shard's offsets, is what its index says."""
    if sha256 != shard["offsets"]["sha256"]:
        path = folder / shard["offsets"]["file"]
        raise UserError(f"{path}: the sha256 of the offsets differs from the one in index.json; rebuild the set")


def _identity(descriptor: int) -> tuple[int, ...]:
    there = os.fstat(descriptor)
    return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns


def room(shards: int) -> int:
    """How many of ``shards`` shards this process may hold open beside what it has open already; one at least.

    Where the process's soft limit of open files is too low for all, it is raised to the hard one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    others = _open_now() + RESERVE
    if soft != resource.RLIM_INFINITY and soft < others + _EACH * shards:
        raised = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
        if raised > soft:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
                soft = raised
            except (ValueError, OSError):  # some systems have a lower limit of their own
                pass
    if soft == resource.RLIM_INFINITY:
        return max(shards, 1)
    return max(min(shards, (soft - others) // _EACH), 1)


def _open_now() -> int:
    try:
        return sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:
        return 0
