"""Text files that may be gzipped: lists of captions or URLs, and JSON such as MSCOCO's annotations."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from mdc.plan.records import UserError

_LONGEST_LINE = 1 << 24  # bytes
_LARGEST_JSON = 1 << 30  # bytes unpacked; COCO's largest captions file has 92 million


@contextmanager
def unzipped(path: Path) -> Iterator[IO[bytes]]:
    """The file's bytes, unpacked if it is gzipped. UserError if it cannot be read, or is truncated."""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            yield cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if zipped else raw
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def lines_of(path: Path, errors: str = "strict") -> Iterator[tuple[int, str]]:
    """(number from 1, text) of the lines of a UTF-8 file, with their ends. UserError for a line that is too long, or not UTF-8
    (unless ``errors`` says what it becomes)."""
    with unzipped(path) as file:
        number = 0
        while line := file.readline(_LONGEST_LINE + 1):
            number += 1
            if len(line) > _LONGEST_LINE:
                raise UserError(f"{path}, line {number}: longer than {_LONGEST_LINE} bytes; is it a text file?")
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8", errors)
            except UnicodeDecodeError as error:
                raise UserError(f"{path}, line {number}: not UTF-8 ({error.reason}); convert the file") from None


def read_json_value(path: Path, hook: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """The value of a JSON file of limited size: a few kilobytes of gzip can unpack to gigabytes. ``hook`` makes each object from
    its pairs."""
    with unzipped(path) as file:
        data = file.read(_LARGEST_JSON + 1)
    if len(data) > _LARGEST_JSON:
        raise UserError(f"{path}: more than {_LARGEST_JSON} bytes of JSON; is it a captions file?")
    try:
        return json.loads(data, object_pairs_hook=hook)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({str(error)[:200]})") from None
