"""Tar files of other writers (GNU, PAX, with folders in them): where their files lie, read in order and never unpacked to disk.

What we write ourselves has offsets beside it, and no reader walks over it (:mod:`mdc.data.formats.tar`).
"""

from __future__ import annotations

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
    """Files with one key: by extension, where each begins in the ``tar``, and its size in bytes."""

    key: str
    files: dict[str, tuple[int, int]]
    tar: BinaryIO

    def add(self, member: tarfile.TarInfo) -> None:
        """Note where one more file lies. UserError if there is one of its name."""
        ending = member.name[len(self.key) + 1 :].lower()
        if ending in self.files:
            raise UserError(
                f"{self.tar.name}: duplicate member {member.name!r}; each file of a sample needs a unique name"
            )
        self.files[ending] = member.offset_data, member.size

    def read(self, ending: str) -> bytes | None:
        """The content of a file, as long as the next sample was not asked for; None if it is larger than ``MAX_FILE``. UserError
        if the tar is cut off there."""
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

    UserError naming the file, and the member if there is one to blame, for an archive that is damaged or cut off, and
    for members that are absolute, climb with '..', or are links, devices or pipes. Folders are passed over, and what
    webdataset passes over: names without an ending or that begin with a dot (macOS's "._…"), and all below "__…__". Tars that
    were joined (`cat a.tar b.tar`) are read as one.
    """
    with _readable(path) as (file, tar):
        for key, members in groupby(_members(path, tar), lambda member: sample_key(member.name)):
            sample = TarSample(key, {}, file)
            for member in members:
                sample.add(member)
            yield sample


def samples_by_key(path: Path) -> Iterator[TarSample]:
    """The samples of a tar in the order of their keys, of files that may lie apart. Errors as in ``tar_samples``."""
    found: dict[str, TarSample] = {}
    with _readable(path) as (file, tar):
        for member in _members(path, tar):
            key = sample_key(member.name)
            found.setdefault(key, TarSample(key, {}, file)).add(member)
        yield from (found[key] for key in sorted(found))


def first_key(path: Path) -> str | None:
    """The key of a tar's first sample; None if it has none. Only that header is read."""
    with _readable(path) as (_, tar):
        return next((sample_key(member.name) for member in _members(path, tar)), None)


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
    """All plain files in order; afterwards, a check that the archive is not cut off."""
    before = -1
    while True:
        while (member := tar.next()) is not None:
            # Python's tarfile has looped forever on negative sizes
            if member.size < 0 or tar.offset <= before:
                raise tarfile.ReadError(f"{member.name!r} has an impossible size")
            before = tar.offset
            _allowed(path, member)
            if not member.isdir() and not _passed_over(member.name):
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


def _passed_over(name: str) -> bool:
    *folders, base = name.split("/")
    hidden = base.startswith(".") or "." not in base
    described = bool(folders) and folders[0].startswith("__") and folders[0].endswith("__")
    return hidden or described or "__MACOSX" in folders


def _next_archive(path: Path, position: int) -> int | None:
    """Check for the end mark at ``position``, and where a tar begins that was joined behind it; None if none was. tarfile takes
    a damaged header, or a file cut off between two members, for a regular end."""
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
