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
from mdc.data.shards.offsets import size_of
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
            file = self._descriptor(path, "the shard", failing)
            offsets = self._descriptor(f"{self.folder}/{shard['offsets']['file']}", "the file of offsets", failing)
            check_sizes(self.folder, shard)
            data = os.pread(offsets, shard["offsets"]["bytes"], 0)
            check_offsets(self.folder, shard, hashlib.sha256(data).hexdigest())
            images = self._descriptor(source_tar(Path(path)).path, "the tar", failing) if is_lines(path) else None
            failing.pop_all()
        if self._ahead and hasattr(os, "posix_fadvise"):
            for descriptor in (file, *([] if images is None else [images])):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
        return Opened(file, offsets, images)

    def _descriptor(self, path: str | Path, what: str, failing: ExitStack) -> int:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise UserError(f"{path}: {what} is missing; rebuild the set") from None
        except OSError as error:
            more = f"; {len(self)} shards are open; {_REMEDY}" if error.errno in (errno.EMFILE, errno.ENFILE) else ""
            raise UserError(f"{path}: cannot be opened ({error.strerror}){more}") from None
        failing.callback(os.close, descriptor)
        return descriptor


def check_sizes(folder: Path, shard: Mapping[str, Any]) -> None:
    """UserError unless the files of a shard exist with the sizes in its index, which fit its number of samples, and the tar of
    its images, if it is another one, with the size in the shard."""
    offsets = shard["offsets"]
    for path, size, what in (
        (f"{folder}/{shard['file']}", shard["bytes"], "the shard"),
        (f"{folder}/{offsets['file']}", offsets["bytes"], "the file of offsets"),
    ):
        try:
            status = os.stat(path)  # noqa: PTH116 — for thousands of shards; a Path takes as long as the call
        except (FileNotFoundError, NotADirectoryError):
            status = None
        if status is None or not stat.S_ISREG(status.st_mode):
            raise UserError(f"{path}: {what} is missing; rebuild the set")
        if status.st_size != size:
            raise UserError(f"{path}: {what} is not of the size in index.json; rebuild the set")
    if offsets["bytes"] != size_of(shard["samples"]):
        raise UserError(
            f"{folder / offsets['file']}: not the offsets of the {shard['samples']} samples of {shard['file']}; "
            "rebuild the set"
        )
    if is_lines(shard["file"]):
        source_tar(folder / shard["file"]).check(folder / shard["file"])


def check_offsets(folder: Path, shard: Mapping[str, Any], sha256: str) -> None:
    """UserError unless ``sha256``, that of a shard's offsets, is the one in its index."""
    if sha256 != shard["offsets"]["sha256"]:
        path = folder / shard["offsets"]["file"]
        raise UserError(f"{path}: the sha256 of the offsets differs from the one in index.json; rebuild the set")


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
