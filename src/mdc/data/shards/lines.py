"""A shard of lines, whose images stay in the tar that they came in.

The first line of ``train-00000.jsonl`` names the tar, below MDC_DATA, with its size and sha256; so the hash of the lines covers
the images too. Each further line is a sample: its key, its image's offset and size in the tar in bytes, and its record. The
offsets beside it are those of the lines.
"""

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
    """The tar with a shard's images: its ``name`` below MDC_DATA, its ``size`` in bytes, its sha256."""

    name: str
    size: int
    sha256: str

    @property
    def path(self) -> Path:
        return data_folder() / self.name

    def line(self) -> bytes:
        content = {"bytes": self.size, "sha256": self.sha256, "tar": self.name}
        return json.dumps(content, separators=(",", ":")).encode() + b"\n"

    def check(self, shard: Path) -> None:
        """UserError unless the tar exists and has this size."""
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
    """Whether a shard of this name is a file of lines."""
    return str(shard).endswith(ENDING)


def name_below(data_dir: Path, tar: Path) -> str | None:
    """The name of ``tar`` in a shard; None if it is outside ``data_dir``, which is not allowed."""
    name = Path(os.path.relpath(tar, data_dir)).as_posix()
    # '..' after a symbolic link leads elsewhere
    return name if _stays_below(name) and tar.samefile(data_dir / name) else None


def _stays_below(name: str) -> bool:
    return (
        posixpath.normpath(name) == name and name != "." and "\0" not in name and name.split("/")[0] not in ("", "..")
    )


def sample_line(key: str, place: Place, record: bytes) -> bytes:
    """A sample's line; ``record`` as canonical JSON."""
    return b'{"image":[%d,%d],"key":%b,"record":%b}\n' % (*place, json.dumps(key).encode(), record)


def parse_line(line: bytes) -> tuple[str, Place, Any]:
    """(key, place, record) of a sample's line. ValueError, KeyError or TypeError if it is none."""
    sample = json.loads(line)
    offset, size = sample["image"]
    if not (0 <= offset < 1 << 62 and 0 < size <= MAX_FILE):
        raise ValueError(f"an image of {size} bytes at {offset}")
    return sample["key"], (offset, size), sample["record"]


def source_tar(shard: Path) -> SourceTar:
    """The tar that the first line of ``shard`` names. UserError if it names none, or one outside MDC_DATA."""
    try:
        with shard.open("rb") as file:
            content = json.loads(file.readline(_MOST))
        tar = SourceTar(content["tar"], content["bytes"], content["sha256"])
        if not _stays_below(tar.name):
            raise ValueError(f"no tar below MDC_DATA: {tar.name!r}")
    except OSError as error:
        raise UserError(f"{shard}: cannot be read ({error.strerror}); rebuild the set") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{shard}: does not begin with the tar of its images ({error}); rebuild the set") from None
    return tar
