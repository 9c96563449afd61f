"""The byte offsets of a shard's samples, in an array beside it, so that no reader has to scan a tar's headers.

``train-00000.offsets.npy`` belongs to ``train-00000.tar`` (or ``.jsonl``) with n samples: n + 1 int64 in numpy's format 1.0, the
byte at which each sample begins (its first header, or its line), and the byte at which the last one ends.
``np.load(path, mmap_mode="r")`` opens it. The reader here reads two adjacent numbers by ``pread`` instead of a memory map: it
needs no memory of the process, and a file that is truncated meanwhile is an error, not a SIGBUS.
"""

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdc.plan.records import atomic_path, sha256_file

SUFFIX = ".offsets.npy"
_HEADER = 128  # bytes; numpy wants a multiple of 64
_PAIR = struct.Struct("<2q")


def offsets_name(shard: str) -> str:
    """The name of the offsets of a shard of this name."""
    return shard.rpartition(".")[0] + SUFFIX


def write_offsets(path: Path, bounds: Sequence[int]) -> dict[str, Any]:
    """Write ``bounds`` (n + 1 increasing numbers, see above); returns the file's entry of an index."""
    with atomic_path(path) as temporary:
        # not numpy's own header, which differs between versions
        numbers = np.asarray(bounds, dtype="<i8")
        temporary.write_bytes(_header(len(numbers)) + numbers.tobytes())
    return file_entry(path)


def file_entry(path: Path) -> dict[str, Any]:
    """A file's entry in an index."""
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256_file(path)}


def span_of(descriptor: int, sample: int) -> tuple[int, int]:
    """(start, end) in bytes of sample number ``sample`` of the shard whose offsets are open; ValueError if they are truncated."""
    pair = os.pread(descriptor, _PAIR.size, _HEADER + 8 * sample)
    if len(pair) != _PAIR.size:
        raise ValueError("its offsets are truncated")
    start, end = _PAIR.unpack(pair)
    return start, end


def _header(count: int) -> bytes:
    """The header of a one-dimensional array of ``count`` int64 in numpy's format, version 1.0."""
    description = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({count},), }}".encode()
    magic = b"\x93NUMPY\x01\x00" + struct.pack("<H", _HEADER - 10)
    return magic + description.ljust(_HEADER - len(magic) - 1) + b"\n"
