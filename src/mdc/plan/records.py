"""Atomic files with deterministic bytes, and their sha256."""

import hashlib
import json
import os
import platform
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

# A record holds the versions of Python and of these packages, because they can change a number.
_PACKAGES = (
    "clip-benchmark",
    "matplotlib",
    "mdc",
    "numpy",
    "open_clip_torch",
    "pandas",
    "pillow",
    "pyarrow",
    "scikit-learn",
    "scipy",
    "torch",
    "torchvision",
)

#: what code that reads a file's content raises if the content is not as this version writes it
NOT_OURS = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError)

os.umask(
    _UMASK := os.umask(0o077)
)  # can only be read by setting it, so it is read here, before other threads write files
_MODE = 0o666 & ~_UMASK


class UserError(Exception):
    """A mistake that the user can correct. Each message is one line: what is wrong, where, and what is allowed."""

    exit_code = 2

    def __init__(self, *messages: str) -> None:
        super().__init__(*(" ".join(str(message).split()) for message in messages))

    def __str__(self) -> str:
        return "\n".join(self.args)


def did_you_mean(name: object, allowed: Iterable[str]) -> str:
    """ " (did you mean X?)" for a message about a ``name`` that is none of the ``allowed``; empty if none of these is near."""
    import difflib

    by = {other.casefold(): other for other in allowed}
    return "".join(
        f" (did you mean {by[near]}?)" for near in difflib.get_close_matches(str(name).casefold(), by, 1, 0.7)
    )


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; when the block succeeds, its file is renamed to ``path``.

    A missing folder is created. The temporary name keeps the suffix, because some writers choose a format by it. The content is
    flushed to disk (fsync) before the rename, and the folder's entry after it. The file's mode follows the process's umask, also
    where its writer, like safetensors, makes it private. If the block raises, or writes no file (FileNotFoundError), ``path``
    keeps its old content and the temporary file is removed. If the process is killed, the temporary file stays, and
    ``clear_leftovers`` removes it later.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp{path.suffix}")
    try:
        yield temporary
        mode = temporary.stat().st_mode
        if lacking := _MODE & ~mode:
            set_mode(temporary, mode | lacking)
        _fsync(temporary)
        temporary.replace(path)
    except OSError as error:
        if error.filename is None and error.errno is not None:  # a full disk names no file
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    _fsync(path.parent)


def set_mode(path: Path, mode: int) -> None:
    """Set a file's mode if its file system lets us: on CIFS, exFAT and others all files have one fixed mode."""
    with suppress(OSError):
        path.chmod(mode)


def clear_leftovers(folder: str | Path, name: str = "*") -> None:
    """Remove the temporary files that killed writers of ``folder/name`` left (see ``atomic_path``).

    Only the job that owns these files may call it, at its start: a running writer would lose its file. With the default
    ``name`` the temporary files of safetensors, which have other names, are removed too.
    """
    patterns = [f".{name}.*-????????.tmp*", *([".tmp??????"] if name == "*" else [])]
    for leftover in (path for pattern in patterns for path in Path(folder).glob(pattern)):
        leftover.unlink(missing_ok=True)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` atomically as UTF-8, without translating line ends."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


def write_text_if_changed(path: str | Path, text: str) -> bool:
    """Write ``text`` unless the file holds it already (its modification time then stays); True if it was written."""
    path = Path(path)
    if path.is_file() and path.read_bytes() == text.encode("utf-8"):
        return False
    write_text(path, text)
    return True


def json_text(obj: Any) -> str:
    """``obj`` as this project's JSON: keys sorted, indent 1, final newline. NaN raises ValueError."""
    return json.dumps(obj, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: str | Path, obj: Any) -> None:
    """Write ``obj`` atomically as JSON (see ``json_text``)."""
    write_text(path, json_text(obj))


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON object. UserError if the file is missing, cannot be read, or holds anything else."""
    path = Path(path)
    try:
        obj = json.loads(
            path.read_bytes().decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_each_key_once
        )
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(obj, dict):
        raise UserError(f"{path}: holds a JSON {type(obj).__name__} where an object is needed")
    return obj


def read_json_lines(path: str | Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file; none if it does not exist. A truncated last line is left out."""
    path = Path(path)
    if not path.exists():
        return []
    lines = []
    for text in text_lines(path.read_text(encoding="utf-8", errors="replace")):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            break
        if not isinstance(line, dict):
            break
        lines.append(line)
    return lines


def text_lines(text: str) -> list[str]:
    """The lines of ``text``. They end with a line feed, a carriage return, or both; ``str.splitlines`` also cuts at form feeds,
    U+2028 and others, which occur within captions."""
    return re.split(r"\r\n?|\n", text)


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"duplicate key {twice!r}")
    return record


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def sha256_file(path: str | Path) -> str:
    """Hexadecimal sha256 of a file's bytes. UserError if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def sha256_text(text: str) -> str:
    """Hexadecimal sha256 of the UTF-8 bytes of ``text``."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def sha256_json(obj: Any) -> str:
    """Hexadecimal sha256 of ``obj`` as canonical JSON (keys sorted, no spaces, ASCII), so equal content gives equal hashes."""
    return sha256_text(json.dumps(obj, sort_keys=True, separators=(",", ":"), allow_nan=False))


@cache  # one process may write hundreds of records, and each package's metadata is parsed
def versions() -> dict[str, str]:
    """The installed versions of Python and of the packages that can change a number. No package is imported for this."""
    numbers = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            numbers[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return numbers
