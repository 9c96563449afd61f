"""Archives unpacked without trust: no path leads outside, no link is made, no bomb goes off, nothing is half there.

Our own, because neither shutil nor tarfile's data filter bounds what an archive unpacks to, or undoes half of it. An
archive is unpacked into a folder of its own beside the target; only when all of it is there do its files move to
their places, and last a note says so: the archive's sha256 and every file's size.
"""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

from mdc.plan.progress import progress
from mdc.plan.records import UserError, read_json, write_json
from mdc.plan.registry.entry import RemoteFile

# what an archive may unpack to where nothing else was declared: times its own size, or this much in any case
MAX_RATIO = 30
MIN_LIMIT = 256 << 20
MAX_MEMBERS = 4_000_000
MAX_DEPTH = 64  # folders
_MAX_HEADER = 1 << 20  # bytes of a tar between two members: tarfile takes a long name into memory, however long it is
_BLOCK = 1 << 20
_OURS = frozenset({"archives", "lock"})  # beside what is unpacked: an archive must not write notes about another


def noted(file: RemoteFile, folder: Path) -> dict[str, Any] | None:
    """What the record says of an archive that was unpacked into ``folder``, None if it was not or files are missing."""
    path = _note(file, folder)
    if not path.is_file():
        return None
    try:
        note = read_json(path)
        record, files = note["record"], note["files"]
        known = [(file.bytes, record["bytes"]), (file.sha256, record["sha256"])]
        if note["into"] != file.into or note["only"] != file.only or note["md5"] != file.md5:
            return None
        if any(published is not None and published != found for published, found in known):
            return None
        base = folder / file.into
        if all((base / name).stat().st_size == size for name, size in files.items()):
            return dict(record)
    except (UserError, KeyError, TypeError, AttributeError, OSError):
        pass
    return None


def unpack_beside(file: RemoteFile, archive: Path, folder: Path, told: dict[str, Any]) -> dict[str, Any]:
    """Unpack ``archive`` into ``folder``/``file.into``; ``told`` (its bytes and sha256) with what it held."""
    assert file.unpack is not None
    files = unpack(archive, file.unpack, folder / file.into, only=file.only, limit=file.unpacked_bytes)
    record = {**told, "unpacked_files": len(files), "unpacked_bytes": sum(files.values())}
    note = {"record": record, "into": file.into, "only": file.only, "md5": file.md5, "files": files}
    write_json(_note(file, folder), note)
    return record


def _note(file: RemoteFile, folder: Path) -> Path:
    return folder / "archives" / f"{file.name}.unpacked.json"


def unpack(
    archive: Path, kind: Literal["zip", "tar"], target: Path, *, only: str = "", limit: int | None = None
) -> dict[str, int]:
    """Unpack ``archive`` into ``target``; the size of each file by its name there.

    ``only``: see RemoteFile. ``limit``: most bytes that it may unpack to. UserError that names the archive, and the member
    to blame, for names that are absolute or hold '..', links that lead outside or to no file of the archive, devices,
    names that stand twice, encryption, more bytes than the limit, and damage; then nothing was changed in ``target``.
    """
    if limit is None:
        limit = max(MIN_LIMIT, MAX_RATIO * archive.stat().st_size)
    target.mkdir(parents=True, exist_ok=True)
    beside = target / f".{archive.name}.unpacking"
    shutil.rmtree(beside, ignore_errors=True)  # what a killed process left
    beside.mkdir()
    writer = _Writer(archive, beside, only, limit)
    try:
        with _told(archive):
            if kind == "zip":
                _zip(archive, writer)
            else:
                _tar(archive, writer)
        if not writer.files:
            raise UserError(f"{archive}: contains no file{f' below a folder {only}' if only else ''}")
        _move(archive, beside, target, writer.files)
        return dict(sorted(writer.files.items()))
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def _told(archive: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise UserError(f"{archive}: corrupt archive ({error}); move it away and rerun") from None
    except (NotImplementedError, ValueError, ArithmeticError, LookupError) as error:
        # tarfile and zipfile raise many kinds on damaged headers
        raise UserError(f"{archive}: unreadable archive ({error}); move it away and rerun") from None
    except (NotADirectoryError, IsADirectoryError, FileExistsError) as error:
        raise UserError(f"{archive}: a member is a file and a folder at once ({error.filename})") from None
    except OSError as error:
        if error.errno is None:  # gzip's own
            raise UserError(f"{archive}: corrupt archive ({error}); move it away and rerun") from None
        raise UserError(
            f"{archive}: cannot be unpacked ({error.strerror}); no partial output was kept; rerun"
        ) from None


class _Writer:
    """Puts members into a fresh folder that holds no link, so that a checked name leads nowhere else."""

    def __init__(self, archive: Path, folder: Path, only: str, limit: int) -> None:
        self.archive, self.folder, self.only, self.limit = archive, folder, only, limit
        self.files: dict[str, int] = {}
        self.total = 0
        self.members = 0

    def count(self, name: str, size: int) -> None:
        """Every member counts, also one that is not wanted: it has to be read over."""
        self.members += 1
        self.total += size
        if size < 0 or self.total > self.limit or self.members > MAX_MEMBERS:
            raise UserError(
                f"{self.archive}: member {name!r}: more than {self.limit} bytes or {MAX_MEMBERS} members; not unpacked"
            )

    def place(self, name: str) -> str | None:
        """The name under which a member is put, None if it is not wanted. UserError if it leads outside."""
        parts = name.split("/")
        if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
            raise UserError(
                f"{self.archive}: member {name!r} is an absolute path or leads outside the folder; not unpacked"
            )
        parts = [part for part in parts if part not in ("", ".")]
        if len(parts) > MAX_DEPTH or any("\ud800" <= character <= "\udfff" for character in name):
            raise UserError(
                f"{self.archive}: member {name[:200]!r} is nested over {MAX_DEPTH} folders deep, or its name is not UTF-8; "
                "not unpacked"
            )
        if not parts or parts[0] == "__MACOSX":  # what macOS adds of its own
            return None
        if parts[0] in _OURS:
            raise UserError(
                f"{self.archive}: member {name[:200]!r} has a name that this project reserves; not unpacked"
            )
        if self.only:
            wanted = self.only.split()
            place = next((place for place, part in enumerate(parts) if part in wanted), None)
            if place is None:
                return None
            parts = parts[place:]
        return "/".join(parts)

    def folder_at(self, place: str) -> None:
        (self.folder / place).mkdir(parents=True, exist_ok=True)

    def file(self, place: str, source: IO[bytes], size: int) -> None:
        """Copy exactly ``size`` bytes."""
        path = self._new(place)
        left = size
        with path.open("xb") as out:
            while left and (block := source.read(min(_BLOCK, left))):
                out.write(block)
                left -= len(block)
        if left:
            raise EOFError(f"truncated in {place!r}")
        self.files[place] = size

    def same_as(self, place: str, other: str) -> None:
        """A link of the archive, made a second name of the file that it leads to."""
        if other not in self.files:
            raise UserError(
                f"{self.archive}: link {place!r} points to {other!r}, which is not a file of the archive; not unpacked"
            )
        os.link(self.folder / other, self._new(place))
        self.files[place] = self.files[other]

    def _new(self, place: str) -> Path:
        if place in self.files:
            raise UserError(f"{self.archive}: duplicate member {place!r}; not unpacked")
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _zip(archive: Path, writer: _Writer) -> None:
    with zipfile.ZipFile(archive) as handle:
        members = handle.infolist()
        places = []
        for member in members:  # all are looked at before any is written
            writer.count(member.filename, member.file_size)
            places.append(writer.place(member.orig_filename))
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise UserError(f"{archive}: member {member.filename!r} is a link or a device; not unpacked")
            if member.flag_bits & 0x1:
                raise UserError(f"{archive}: member {member.filename!r} is encrypted; not unpacked")
        bar = progress(list(zip(members, places, strict=True)), desc=f"unpack {archive.name}", leave=False)
        for member, place in bar:
            if place is None:
                continue
            if member.is_dir():
                writer.folder_at(place)
                continue
            with handle.open(member) as source:
                writer.file(place, source, member.file_size)
                if source.read(1):  # also asks for the checksum
                    raise zipfile.BadZipFile(f"{member.filename!r} is larger than its header says")


def _tar(archive: Path, writer: _Writer) -> None:
    links: list[tuple[str, str]] = []
    with (
        _plain(archive) as stream,
        tarfile.open(fileobj=stream, mode="r|") as handle,  # type: ignore[call-overload]
        progress(unit=" members", desc=f"unpack {archive.name}", leave=False) as bar,
    ):
        while (member := stream.next_member(handle)) is not None:
            writer.count(member.name, member.size)
            place = writer.place(member.name)
            bar.update()
            if not (member.isreg() or member.isdir() or member.issym() or member.islnk()) or member.issparse():
                raise UserError(f"{archive}: member {member.name!r} is not a regular file (a device); not unpacked")
            if member.issym() or member.islnk():
                other = writer.place(_leads_to(archive, member))
                if place is not None and other is not None:
                    links.append((place, other))
            elif member.isdir():
                if place is not None:
                    writer.folder_at(place)
            else:
                content = handle.extractfile(member)
                assert content is not None  # a plain file
                with content:
                    if place is not None:
                        writer.file(place, content, member.size)
                    while content.read(_BLOCK):
                        pass
            handle.members.clear()  # or the archive keeps every header
        stream.to_the_end(writer)
    for place, other in links:
        writer.same_as(place, other)


class _Stream:
    """A tar's bytes in order, and what the last of them were: tarfile takes the end of a cut-off file for its end."""

    def __init__(self, source: IO[bytes] | gzip.GzipFile) -> None:
        self.source, self.last = source, b""
        self.header: int | None = _MAX_HEADER  # bytes that the header being read may still have; None: no header is

    def next_member(self, handle: tarfile.TarFile) -> tarfile.TarInfo | None:
        """The next member of ``handle``, whose last one was read to its end. EOFError for a header without end."""
        self.header = _MAX_HEADER
        member = handle.next()
        self.header = None
        return member

    def read(self, size: int) -> bytes:
        block = self.source.read(size)
        if self.header is not None:
            self.header -= len(block)
            if self.header < 0:
                raise EOFError(f"a header of more than {_MAX_HEADER} bytes")
        self.last = (self.last + block)[-tarfile.BLOCKSIZE :]
        return block

    def to_the_end(self, writer: _Writer) -> None:
        """Read what is behind the last member, so that gzip compares its checksum, and ask for the end mark."""
        while block := self.read(_BLOCK):
            writer.count("what follows the last member", len(block))
        if self.last != bytes(tarfile.BLOCKSIZE):
            raise EOFError("no end-of-archive marker")


@contextmanager
def _plain(archive: Path) -> Iterator[_Stream]:
    """The archive's bytes, uncompressed if gzip packed it."""
    with archive.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if packed:
            with gzip.GzipFile(fileobj=raw) as source:
                yield _Stream(source)
        else:
            yield _Stream(raw)


def _leads_to(archive: Path, member: tarfile.TarInfo) -> str:
    """The name of the member that a link leads to. UserError if that is outside of the archive."""
    target = member.linkname
    if member.issym():
        target = str(PurePosixPath(member.name).parent / target) if not target.startswith("/") else target
    parts: list[str] = []
    for part in target.split("/"):
        if part == ".." and not parts:
            break
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    else:
        if not target.startswith("/"):
            return "/".join(parts)
    raise UserError(f"{archive}: link {member.name!r} leads outside, to {member.linkname!r}; not unpacked")


def _move(archive: Path, source: Path, target: Path, files: dict[str, int]) -> None:
    """Move the files to their places, over what an earlier attempt may have left there."""
    try:
        for folder, names, _ in os.walk(source):
            for name in names:
                (target / Path(folder, name).relative_to(source)).mkdir(parents=True, exist_ok=True)
        for name in files:
            (source / name).replace(target / name)
    except OSError as error:
        raise UserError(f"{archive}: {error.filename2 or error.filename}: {error.strerror}; move it away") from None
