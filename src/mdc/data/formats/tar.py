"""Tar shards: webdataset samples (consecutive files ``<key>.<extension>``) with the same bytes for the same content."""

import tarfile
from typing import BinaryIO

BLOCK = 512
MAX_FILE = 1 << 28  # bytes of an encoded image: far above any photo, but fits into memory
Place = tuple[int, int]  # an image's offset in a tar, and its size, in bytes
_RECORD = 20 * BLOCK  # a tar's length is a multiple of this


class TarWriter:
    """Appends plain files to an open binary file, as USTAR with time 0, owner 0 and mode 0644, independent of the machine."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._written = file, 0

    def add(self, name: str, content: bytes) -> None:
        """Append one file; ``content`` is below 8 GiB. ValueError for what does not fit."""
        rest = -len(content) % BLOCK
        header = tarfile.TarInfo(name)
        header.size = len(content)
        self._file.write(header.tobuf(tarfile.USTAR_FORMAT, "utf-8"))
        self._file.write(content)
        self._file.write(bytes(rest))
        self._written += BLOCK + len(content) + rest

    def close(self) -> None:
        """Write the end of the archive; the file itself stays open."""
        self._file.write(bytes(2 * BLOCK))
        self._file.write(bytes(-(self._written + 2 * BLOCK) % _RECORD))


def parse_header(block: bytes) -> tuple[str, int]:
    """Name and size in a 512-byte USTAR header (POSIX 1003.1). ValueError if it is no header, or not that of a plain file.

    Links, devices, folders and extension headers are refused, and so are absolute names and names with '..'.
    """
    if len(block) != BLOCK or block[257:262] != b"ustar":
        raise ValueError("no tar header where one is expected")
    # the sum of all bytes, with blanks for the checksum's field; dropping the many zeros first is faster
    if sum(block.translate(None, b"\0")) - sum(block[148:156]) + 8 * 32 != _octal(block[148:156]):
        raise ValueError("tar header checksum mismatch")
    prefix, _, _ = block[345:500].partition(b"\0")
    raw, _, _ = block[:100].partition(b"\0")
    name = (prefix + b"/" + raw if prefix else raw).decode("utf-8", errors="replace")
    if block[156:157] not in (b"0", b"\0"):
        raise ValueError(f"{name!r} is not a plain file (tar type {block[156:157]!r})")
    if not raw or name.startswith("/") or "\\" in name or ".." in name.split("/"):
        raise ValueError(f"{name!r} is not a valid name")
    return name, _octal(block[124:136])


def _octal(field: bytes) -> int:
    digits = field.strip(b"\0 ")
    # `int` would also accept signs and underscores, and a negative size would make reading endless
    if not digits.isdigit():
        raise ValueError(f"a tar header with {bytes(digits)!r} where a number is expected")
    return int(digits, 8)


def padded(size: int) -> int:
    """``size`` rounded up to whole tar blocks."""
    return -(-size // BLOCK) * BLOCK


def sample_key(name: str) -> str:
    """webdataset's key of a file name: everything before the first dot of the last path component."""
    folder, slash, base = name.rpartition("/")
    return folder + slash + base.partition(".")[0]


def split_span(span: bytes) -> dict[str, bytes]:
    """The files of one sample by extension, from its bytes; its key is under ``"__key__"``, as in webdataset.

    ValueError if they are not whole files of one key.
    """
    files: dict[str, bytes] = {}
    position = 0
    while position < len(span):
        name, size = parse_header(span[position : position + BLOCK])
        key = sample_key(name)
        if files.setdefault("__key__", key.encode()) != key.encode():
            raise ValueError(f"{name!r} is of another sample")
        if position + BLOCK + padded(size) > len(span):
            raise ValueError(f"truncated in {name!r}")
        files[name[len(key) + 1 :]] = span[position + BLOCK : position + BLOCK + size]
        position += BLOCK + padded(size)
    return files
