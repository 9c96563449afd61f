"""Safe unpacking of untrusted archives: no path outside the folder, no symbolic link, a limit on the size, all or nothing.

zipfile, and tarfile with its data filter, write the files. The filter's links are not used: by them archives got out of its
folder (CVE-2025-4330, CVE-2025-4517; fixed in Python 3.11.13). An archive is unpacked into a temporary folder in the target.
Once it is complete, its files move to their places, and a note is written: the archive's sha256 and every file's size.
"""

import gzip
import math
import os
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, Literal

from mdc.plan.progress import progress
from mdc.plan.records import UserError, read_json, write_json
from mdc.plan.registry.entry import RemoteFile

# an archive may unpack to so many times its own size, or to this many bytes in any case, unless a limit is declared
MAX_RATIO = 30
MIN_LIMIT = 256 << 20
MAX_MEMBERS = 4_000_000
MAX_DEPTH = 64  # folders
_MAX_HEADER = 1 << 20  # bytes of a tar between two members: tarfile reads a name of any length into memory
_BLOCK = 1 << 20
# what the readers raise on damaged archives, and file systems on write errors
_DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError),
    *(NotImplementedError, ValueError, ArithmeticError, LookupError, RecursionError),
)
# name, size in bytes, the member that a link points to, and what writes a file under a name
_Member = tuple[str, int, str | None, Callable[[str], None] | None]
_OURS = frozenset({"archives", "lock"})  # reserved: an archive must not overwrite the notes about another


def load_unpack_record(file: RemoteFile, folder: Path) -> dict[str, Any] | None:
    """The record of an archive that was unpacked into ``folder``; None if it was not, or if files are missing."""
    try:
        note = read_json(_note(file, folder))
        record, files = note["record"], note["files"]
        known = {"bytes": file.bytes, "sha256": file.sha256}
        same = all(published in (None, record[key]) for key, published in known.items())
        same = same and (note["into"], note["only"], note["md5"]) == (file.into, file.only, file.md5)
        if same and all((folder / file.into / name).stat().st_size == size for name, size in files.items()):
            return dict(record)
    except (UserError, KeyError, TypeError, AttributeError, OSError):
        pass
    return None


def unpack_beside(file: RemoteFile, archive: Path, folder: Path, digests: dict[str, Any]) -> dict[str, Any]:
    """Unpack ``archive`` into ``folder``/``file.into``; its record: ``digests`` (its bytes and sha256) and its content's size."""
    assert file.unpack is not None
    files = unpack(archive, file.unpack, folder / file.into, only=file.only, limit=file.unpacked_bytes)
    record = {**digests, "unpacked_files": len(files), "unpacked_bytes": sum(files.values())}
    note = {"record": record, "into": file.into, "only": file.only, "md5": file.md5, "files": files}
    write_json(_note(file, folder), note)
    return record


def _note(file: RemoteFile, folder: Path) -> Path:
    return folder / "archives" / f"{file.name}.unpacked.json"


def unpack(
    archive: Path, kind: Literal["zip", "tar"], target: Path, *, only: str = "", limit: int | None = None
) -> dict[str, int]:
    """Unpack ``archive`` into ``target``; {file name: bytes}.

    ``only``: see RemoteFile. ``limit``: maximum of unpacked bytes. UserError that names the archive and the member for absolute
    names or names with '..', links that lead outside or to no file of the archive, devices, duplicate names, encryption, more
    bytes than the limit, and damage; then nothing was changed in ``target``.
    """
    limit = max(MIN_LIMIT, MAX_RATIO * archive.stat().st_size) if limit is None else limit
    target.mkdir(parents=True, exist_ok=True)
    beside = target / f".{archive.name}.unpacking"
    shutil.rmtree(beside, ignore_errors=True)  # what a killed process left
    beside.mkdir()
    try:
        with _user_errors(archive), closing((_zip if kind == "zip" else _tar)(archive, beside)) as members:
            bar = progress(members, unit=" members", desc=f"unpack {archive.name}", leave=False)
            files = _unpack(bar, beside, only.split(), limit)
        if not files:
            raise UserError(f"{archive}: contains no file{f' below a folder {only}' if only else ''}")
        try:
            for parent, _, names in os.walk(beside):  # overwrites the rest of an earlier attempt
                place = target / Path(parent).relative_to(beside)
                place.mkdir(parents=True, exist_ok=True)
                for name in names:
                    Path(parent, name).replace(place / name)
        except OSError as error:
            raise UserError(f"{archive}: {error.filename2 or error.filename}: {error.strerror}; move it away") from None
        return dict(sorted(files.items()))
    finally:
        shutil.rmtree(beside, ignore_errors=True)


class _Refused(Exception):
    """An archive contains what is not allowed."""


@contextmanager
def _user_errors(archive: Path) -> Iterator[None]:
    try:
        yield
    except _Refused as error:
        raise UserError(f"{archive}: {error}; not unpacked") from None
    except (NotADirectoryError, IsADirectoryError, FileExistsError) as error:
        raise UserError(f"{archive}: a member is a file and a folder at once ({error.filename})") from None
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:  # gzip's own errors have no number
            message = f"cannot be unpacked ({error.strerror}); no partial output was kept; rerun"
        else:
            message = f"corrupt archive ({error}); move it away and rerun"
        raise UserError(f"{archive}: {message}") from None


def _unpack(members: Iterable[_Member], folder: Path, only: list[str], limit: int) -> dict[str, int]:
    """Write members into an empty ``folder`` without symbolic links; {name: bytes}."""
    files: dict[str, int] = {}
    links: list[tuple[str, str]] = []
    total = 0
    for number, (name, size, link, write) in enumerate(members, 1):
        total += size  # an unwanted member counts too: it has to be read
        if size < 0 or total > limit or number > MAX_MEMBERS:
            raise _Refused(f"member {name!r}: more than {limit} bytes or {MAX_MEMBERS} members")
        place = _place(name, only)
        link_target = _place(link, only) if link is not None else None
        if place is None:
            continue
        if link is not None:
            links += [(place, link_target)] if link_target is not None else []
        elif write is None:
            (folder / place).mkdir(parents=True, exist_ok=True)
        elif place in files:
            raise _Refused(f"duplicate member {place!r}")
        else:
            write(place)
            if (folder / place).stat().st_size != size:
                raise EOFError(f"{name!r} is not as long as its header says")
            files[place] = size
    for place, target in links:  # a symbolic link becomes a hard one
        if target not in files:
            raise _Refused(f"link {place!r} points to {target!r}, which is not a file of the archive")
        if place in files:
            raise _Refused(f"duplicate member {place!r}")
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        os.link(folder / target, folder / place)
        files[place] = files[target]
    return files


def _place(name: str, only: list[str]) -> str | None:
    """The path at which a member is written; None if it is not wanted."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
        raise _Refused(f"member {name!r} is an absolute path or leads outside the folder")
    parts = [part for part in parts if part not in ("", ".")]
    if len(parts) > MAX_DEPTH or any("\ud800" <= character <= "\udfff" for character in name):
        raise _Refused(f"member {name[:200]!r} is nested over {MAX_DEPTH} folders deep, or its name is not UTF-8")
    if not parts or parts[0] == "__MACOSX":  # added by macOS
        return None
    if parts[0] in _OURS:
        raise _Refused(f"member {name[:200]!r} has a name that this project reserves")
    begins = [n for n, part in enumerate(parts) if part in only] if only else [0]
    return "/".join(parts[begins[0] :]) if begins else None


def _zip(archive: Path, folder: Path) -> Generator[_Member]:
    with zipfile.ZipFile(archive) as handle:
        for member in handle.infolist():
            if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _Refused(f"member {member.filename!r} is a link or a device")
            if member.flag_bits & 0x1:
                raise _Refused(f"member {member.filename!r} is encrypted")

            def write(place: str, member: zipfile.ZipInfo = member) -> None:
                member.filename = place
                handle.extract(member, folder)

            yield member.orig_filename, member.file_size, None, None if member.is_dir() else write


def _tar(archive: Path, folder: Path) -> Generator[_Member]:
    with archive.open("rb") as raw:
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        reader = _Reader(gzip.GzipFile(fileobj=raw) if packed else raw)
        with tarfile.open(fileobj=reader, mode="r:") as handle:  # type: ignore[call-overload]
            while (member := reader.next_member(handle)) is not None:
                link, write = None, None
                if member.issym() or member.islnk():
                    base = posixpath.dirname(member.name) if member.issym() else ""
                    link = posixpath.normpath(posixpath.join(base, member.linkname))
                elif member.isreg() and not member.issparse():

                    def write(place: str, member: tarfile.TarInfo = member) -> None:
                        member = member.replace(name=place, deep=False)
                        handle.extract(member, folder, set_attrs=False, filter="data")

                elif not member.isdir():
                    raise _Refused(f"member {member.name!r} is not a regular file (a device)")
                yield member.name, member.size, link, write
                handle.members.clear()  # or it keeps every header in memory
            # tarfile takes a damaged header and a truncated file for the end; gzip compares its checksum at its end
            reader.seek(handle.offset)
            if reader.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise EOFError("no end-of-archive marker")
            while block := reader.read(_BLOCK):
                yield "", len(block), None, None


class _Reader:
    """A tar's bytes with a limit on its headers, of which tarfile would read any length into memory."""

    def __init__(self, source: IO[bytes] | gzip.GzipFile) -> None:
        self.source, self.seek, self.tell = source, source.seek, source.tell
        self.end: float = _MAX_HEADER  # no header may reach beyond

    def next_member(self, handle: tarfile.TarFile) -> tarfile.TarInfo | None:
        """The next member of ``handle``. EOFError for a header that is too long."""
        self.end = handle.offset + _MAX_HEADER
        member = handle.next()
        self.end = math.inf
        return member

    def read(self, size: int) -> bytes:
        if self.tell() + size > self.end:
            raise EOFError(f"a header of more than {_MAX_HEADER} bytes")
        return self.source.read(size)
