"""Tar files of other writers (GNU, PAX, with folders), read in order and never unpacked to disk.

Our own tars have offsets beside them, and are not scanned (:mod:`mdc.data.formats.tar`).
"""

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mdc.data.formats.lfs import lfs_hint
from mdc.data.formats.tar import BLOCK, MAX_FILE, sample_key
from mdc.plan.records import UserError

_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zX", b"\x28\xb5\x2f\xfd")  # gzip, bzip2, xz, Zstandard


class TarSample(NamedTuple):
    """Files with one key: {extension: (offset in the ``tar``, size)} in bytes."""

    key: str
    files: dict[str, tuple[int, int]]
    tar: BinaryIO

    def add(self, member: tarfile.TarInfo) -> None:
        """Add a file. UserError for a duplicate name."""
        ending = member.name[len(self.key) + 1 :].lower()
        if ending in self.files:
            raise UserError(
                f"{self.tar.name}: duplicate member {member.name!r}; each file of a sample needs a unique name"
            )
        self.files[ending] = member.offset_data, member.size

    def read(self, ending: str) -> bytes | None:
        """The content of a file, until the next sample is read; None if it is larger than ``MAX_FILE``. UserError if the tar is
        truncated in it."""
        offset, size = self.files[ending]
        if size > MAX_FILE:
            return None
        try:
            content = os.pread(self.tar.fileno(), size, offset)
        except OSError as error:
            raise UserError(f"{self.tar.name}: cannot be read ({error.strerror})") from None
        if len(content) != size:
            raise UserError(
                f"{self.tar.name}: corrupt tar (truncated in {self.key}.{ending}); download or rebuild this shard"
            )
        return content


def tar_samples(path: Path) -> Iterator[TarSample]:
    """The samples of a tar in order, each of consecutive files; only headers are read.

    UserError with the file, and the member if there is one, for a corrupt or truncated archive, and for members that are
    absolute, contain '..', or are links, devices or pipes. Folders are ignored, and what webdataset ignores: names without an
    extension or with a leading dot (macOS's "._…"), and all below "__…__". Concatenated tars (`cat a.tar b.tar`) are read as one.
    """
    with _readable(path) as (file, tar):
        for key, members in groupby(_members(path, tar), lambda member: sample_key(member.name)):
            sample = TarSample(key, {}, file)
            for member in members:
                sample.add(member)
            yield sample


def samples_by_key(path: Path) -> Iterator[TarSample]:
    """The samples of a tar in the order of their keys, whose files need not be consecutive. Errors as ``tar_samples``."""
    samples: dict[str, TarSample] = {}
    with _readable(path) as (file, tar):
        for member in _members(path, tar):
            key = sample_key(member.name)
            samples.setdefault(key, TarSample(key, {}, file)).add(member)
        yield from (samples[key] for key in sorted(samples))


@contextmanager
def _readable(path: Path) -> Iterator[tuple[BinaryIO, tarfile.TarFile]]:
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            yield file, tar
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (tarfile.TarError, ValueError, ArithmeticError, LookupError, EOFError) as error:
        # tarfile raises many kinds on damaged headers
        hint = lfs_hint(path) or _compressed(path) or "; download or rebuild this shard"
        raise UserError(f"{path}: corrupt tar ({error}){hint}") from None


def _compressed(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(4)
    return "; it is compressed: unpack it to a .tar" if start.startswith(_PACKED) else ""


def _members(path: Path, tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """All plain files in order; then a check that the archive is not truncated."""
    before = -1
    while True:
        while (member := tar.next()) is not None:
            # Python's tarfile has looped forever on negative sizes
            if member.size < 0 or tar.offset <= before:
                raise tarfile.ReadError(f"{member.name!r} has an impossible size")
            before = tar.offset
            _allowed(path, member)
            if not member.isdir() and not _ignored(member.name):
                yield member
            tar.members.clear()  # type: ignore[attr-defined]  # otherwise tarfile keeps every header in memory
        begin = _next_archive(path, max(before, 0))
        if begin is None:
            return
        assert tar.fileobj is not None
        tar.fileobj.seek(begin)
        tar = tarfile.open(fileobj=tar.fileobj, mode="r:")  # noqa: SIM115  (the file is the caller's)
        if tar.firstmember is None:  # type: ignore[attr-defined]
            raise tarfile.ReadError(f"what follows its end-of-archive marker at byte {begin} is not a tar")


def _allowed(path: Path, member: tarfile.TarInfo) -> None:
    name = member.name
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise UserError(f"{path}: member {name!r} is an absolute path or leads outside the archive; refused")
    if not (member.isdir() or (member.isreg() and not member.issparse())):
        raise UserError(f"{path}: member {name!r} is not a regular file (a link or a device); refused")


def _ignored(name: str) -> bool:
    *folders, base = name.split("/")
    hidden = base.startswith(".") or "." not in base
    metadata = bool(folders) and folders[0].startswith("__") and folders[0].endswith("__")
    return hidden or metadata or "__MACOSX" in folders


def _next_archive(path: Path, position: int) -> int | None:
    """Check for the end mark at ``position``; returns where a concatenated tar begins after it, or None. tarfile itself mistakes
    a corrupt header, or a file truncated between two members, for a regular end."""
    with path.open("rb") as file:
        file.seek(position)
        block = file.read(BLOCK)
        if len(block) != BLOCK or any(block):
            raise tarfile.ReadError(f"truncated or corrupt at byte {position}: no end-of-archive marker")
        while block := file.read(1 << 20):
            if any(block):
                first = next(at for at in range(0, len(block), BLOCK) if any(block[at : at + BLOCK]))
                return file.tell() - len(block) + first
    return None
