"""A shard whose images stay in the tar that they came in: lines that say where.

``train-00000.jsonl`` begins with the tar, below MDC_DATA, and its size and sha256; so the hash of the lines fixes the images too.
Each further line is a sample: its key, where its image begins in the tar with its size in bytes, and its record. The offsets
beside it say where each line begins, as those of a tar say it of a sample.
"""

from __future__ import annotations

import json
import os
import posixpath
from pathlib import Path
from typing import Any, NamedTuple

from mdc.data.formats.tar import MAX_FILE, Place
from mdc.plan.data_folder import data_folder
from mdc.plan.records import UserError

ENDING = ".jsonl"
_MOST = 1 << 16  # bytes of the first line


class SourceTar(NamedTuple):
    """The tar in which a shard's images lie: its ``name`` below MDC_DATA, its ``size`` in bytes, its sha256."""

    name: str
    size: int
    sha256: str

    @property
    def path(self) -> Path:
        return data_folder() / self.name

    def line(self) -> bytes:
        told = {"bytes": self.size, "sha256": self.sha256, "tar": self.name}
        return json.dumps(told, separators=(",", ":")).encode() + b"\n"

    def check(self, shard: Path) -> None:
        """UserError unless the tar is there, of this size."""
        if not self.path.is_file():
            raise UserError(
                f"{self.path}: missing; the images of {shard} lie in it: bring it back, or set MDC_DATA to the folder that has it"
            )
        if (size := self.path.stat().st_size) != self.size:
            raise UserError(
                f"{self.path}: is of {size} bytes, {shard}, whose images lie in it, says {self.size}: bring back that file, or "
                "rebuild the set"
            )


def is_lines(shard: str | Path) -> bool:
    """Whether a shard of this name has its images elsewhere."""
    return str(shard).endswith(ENDING)


def name_below(data_dir: Path, tar: Path) -> str | None:
    """What a shard calls ``tar``; None if it lies outside of ``data_dir``, where no shard may lead."""
    name = Path(os.path.relpath(tar, data_dir)).as_posix()
    # behind a link, '..' leads elsewhere than it says
    return name if _stays_below(name) and tar.samefile(data_dir / name) else None


def _stays_below(name: str) -> bool:
    return (
        posixpath.normpath(name) == name and name != "." and "\0" not in name and name.split("/")[0] not in ("", "..")
    )


def sample_line(key: str, place: Place, record: bytes) -> bytes:
    """A sample's line; ``record`` as canonical JSON."""
    return b'{"image":[%d,%d],"key":%b,"record":%b}\n' % (*place, json.dumps(key).encode(), record)


def parse_line(line: bytes) -> tuple[str, Place, Any]:
    """(key, place, record) of a sample's line. ValueError if it is none."""
    told = json.loads(line) if line.endswith(b"\n") and line.count(b"\n") == 1 else None
    if not isinstance(told, dict) or told.keys() != {"image", "key", "record"} or not isinstance(told["key"], str):
        raise ValueError("not the line of a sample")
    image = told["image"]
    if not (isinstance(image, list) and [type(one) for one in image] == [int, int] and 0 <= image[0] < 1 << 62):
        raise ValueError("not the place of an image")
    if not 0 < image[1] <= MAX_FILE:
        raise ValueError(f"an image of {image[1]} bytes")
    return told["key"], (image[0], image[1]), told["record"]


def source_tar(shard: Path) -> SourceTar:
    """The tar that the first line of ``shard`` names. UserError if it names none, or one that does not lie below MDC_DATA."""
    try:
        with shard.open("rb") as file:
            told = json.loads(file.readline(_MOST))
        found = SourceTar(told["tar"], told["bytes"], told["sha256"])
        if [type(value) for value in found] != [str, int, str] or not _stays_below(found.name):
            raise ValueError(f"no tar below MDC_DATA: {found.name!r}")
    except OSError as error:
        raise UserError(f"{shard}: cannot be read ({error.strerror}); rebuild the set") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{shard}: does not begin with the tar of its images ({error}); rebuild the set") from None
    return found
