"""Git LFS pointers: small text files in a checkout whose large files were not fetched."""

from pathlib import Path

_START = b"version https://git-lfs.github.com/spec/"


def is_lfs_pointer(data: bytes) -> bool:
    """Whether ``data``, or a file that begins with it, is a pointer."""
    return data.startswith(_START)


def lfs_hint(path: Path) -> str:
    """What to do, for the end of an error about ``path``; empty if it is no pointer."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_START))
    except OSError:
        return ""
    return "; it is a Git LFS pointer: run `git lfs pull`" if is_lfs_pointer(start) else ""
