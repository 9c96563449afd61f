"""Cached sha256 of large files: a seal is a file's hash with its size and time, and is valid while these are the same.

A folder has one file for each seal, written as soon as the hash is known, so that a kill loses only the files in progress.
Four files are hashed at a time, since one core hashes more slowly than most disks read.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from mdc.plan.progress import progress
from mdc.plan.records import UserError, clear_leftovers, read_json, sha256_file, write_json

_THREADS = 4


def seal_files(place: Path, files: Sequence[Path]) -> list[dict[str, Any]]:
    """The seals of ``files`` in their order, kept in ``place``; files without one are hashed."""
    with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
        sealing = pool.map(partial(sealed, place), files)
        return list(progress(sealing, "list", len(files), unit="file"))


def sealed(place: Path, file: Path) -> dict[str, Any]:
    """The seal of ``file``, which is hashed unless ``place`` has it: bytes, mtime_ns, sha256.

    UserError if it cannot be read, or changes while it is hashed.
    """
    if (known := known_seal(place, file)) is not None:
        return known
    path, now = _seal(place, file)
    seal = {**now, "sha256": sha256_file(file)}
    need_unchanged(file, seal)
    write_json(path, seal)
    return seal


def known_seal(place: Path, file: Path) -> dict[str, Any] | None:
    """The seal that ``place`` has of ``file``; None if there is none, or if the file has changed since."""
    path, now = _seal(place, file)
    clear_leftovers(place, path.name)
    try:
        seal = read_json(path) if path.exists() else {}
    except UserError:
        return None
    same = {name: seal.get(name) for name in now} == now
    return seal if same and isinstance(seal.get("sha256"), str) else None


def _seal(place: Path, file: Path) -> tuple[Path, dict[str, Any]]:
    """Where the seal of ``file`` is kept, and the file's current size and time."""
    # relative: seals stay valid when a data set is moved with its list
    name = os.path.relpath(file, place)
    return place / f"{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}.json", {"file": name, **_look(file)}


def need_unchanged(file: Path, seal: Mapping[str, Any]) -> None:
    """UserError if ``file`` is no longer the one that was sealed."""
    if _look(file) != {name: seal[name] for name in ("bytes", "mtime_ns")}:
        raise UserError(f"{file}: changed while it was read; rerun when no other process writes to it")


def _look(file: Path) -> dict[str, int]:
    try:
        status = file.stat()
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from None
    return {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
