"""The shards that a process keeps open: all that it has read from, since a random order soon returns to each.

A shard takes two file descriptors, or three if its images are in another tar. A soft limit that is too low is raised, up to the
hard one.
"""

import errno
import hashlib
import os
import resource
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from mdc.data.shards.lines import is_lines, source_tar
from mdc.plan.records import UserError

RESERVE = 256  # descriptors left for everything else: pipes of workers, sockets, libraries
_MOST = 1 << 20  # a soft limit is not raised above, since some programs iterate over all possible descriptors
_EACH = 2  # descriptors of a shard: its file and its offsets
_REMEDY = "raise the hard limit of open files (`ulimit -Hn`), or read with order: {blocks: {buffer: 10000}}"


class Opened(NamedTuple):
    """Descriptors of a shard's files. ``images``: of the tar of its images, if the shard is lines."""

    file: int
    offsets: int
    images: int | None


class OpenShards:
    """Shards of ``folder`` by their entries in an index (``shards``), opened on first use and kept open.

    An object can be forked or pickled into workers. An opened shard is checked against the index: the size of its tar, the sha256
    of its offsets. With ``most``, the shard that was opened first is closed when there would be more.
    """

    def __init__(self, folder: Path, shards: Sequence[Mapping[str, Any]], most: int | None = None) -> None:
        self.folder, self.shards, self.most = folder, shards, most
        self._ahead = False
        self._held: dict[int, Opened] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": {}}

    def __len__(self) -> int:
        """How many are open now."""
        return len(self._held)

    def __getitem__(self, number: int) -> Opened:
        """The shard ``number``, open. UserError if it is missing or differs from the index, or if this process may open no more
        files."""
        if (opened := self._held.get(number)) is not None:
            return opened
        if not self._held:
            each = _EACH + any(is_lines(shard["file"]) for shard in self.shards)
            need_room(min(len(self.shards), self.most or len(self.shards)), self.folder, each)
        elif len(self._held) == self.most:
            self._close(next(iter(self._held)))
        opened = self._held[number] = self._open(self.shards[number])
        return opened

    def read_ahead(self, most: int) -> None:
        """From now on keep at most ``most`` open, and have the system read each one ahead when it is opened, if it can."""
        self.close()
        self.most, self._ahead = most, True

    def close(self) -> None:
        """Close this process's descriptors; the next use of a shard opens it again."""
        while self._held:
            self._close(next(iter(self._held)))

    def _close(self, number: int) -> None:
        for descriptor in self._held.pop(number):
            if descriptor is not None:
                os.close(descriptor)

    def _open(self, shard: Mapping[str, Any]) -> Opened:
        path = f"{self.folder}/{shard['file']}"
        with ExitStack() as failing:
            check_sizes(self.folder, shard)
            file = self._descriptor(path, failing)
            offsets = self._descriptor(f"{self.folder}/{shard['offsets']['file']}", failing)
            data = os.pread(offsets, shard["offsets"]["bytes"], 0)
            if hashlib.sha256(data).hexdigest() != shard["offsets"]["sha256"]:
                path = f"{self.folder}/{shard['offsets']['file']}"
                raise UserError(
                    f"{path}: the sha256 of the offsets differs from the one in index.json; rebuild the set"
                )
            images = self._descriptor(source_tar(Path(path)).path, failing) if is_lines(path) else None
            failing.pop_all()
        if self._ahead and hasattr(os, "posix_fadvise"):
            for descriptor in (file, *([] if images is None else [images])):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
        return Opened(file, offsets, images)

    def _descriptor(self, path: str | Path, failing: ExitStack) -> int:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            more = f"; {len(self)} shards are open; {_REMEDY}" if error.errno in (errno.EMFILE, errno.ENFILE) else ""
            raise UserError(f"{path}: cannot be opened ({error.strerror}){more}") from None
        failing.callback(os.close, descriptor)
        return descriptor


def check_sizes(folder: Path, shard: Mapping[str, Any]) -> None:
    """UserError unless the files of a shard exist with the sizes in its index, and the tar of its images, if it is another one,
    with the size in the shard."""
    for entry in (shard, shard["offsets"]):
        path = f"{folder}/{entry['file']}"
        try:
            status = os.stat(path)  # noqa: PTH116 — for thousands of shards; a Path takes as long as the call
        except OSError:
            status = None
        if status is None or not stat.S_ISREG(status.st_mode):
            raise UserError(f"{path}: missing; rebuild the set")
        if status.st_size != entry["bytes"]:
            raise UserError(f"{path}: not of the size in index.json; rebuild the set")
    if is_lines(shard["file"]):
        source_tar(folder / shard["file"]).check(folder / shard["file"])


def need_room(shards: int, folder: Path, each: int = _EACH) -> None:
    """Raise the soft limit so that this process can open so many more shards. UserError if the hard limit is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = len(list(Path("/dev/fd").glob("*"))) + RESERVE + each * shards
    most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    for limit in (most, needed):  # some systems have a lower limit of their own
        if needed > soft != resource.RLIM_INFINITY and limit <= most:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
                soft = limit
    if needed > soft != resource.RLIM_INFINITY:
        raise UserError(
            f"{folder}: its {shards} shards need {needed} open files, allowed are {max(soft, most)}; {_REMEDY}"
        )
