"""Long work in pieces: each is kept as a file beside the output when it is done, so an interrupted call resumes when rerun."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from mdc.data.loader.workers import _ending
from mdc.plan.processes.lock import locked
from mdc.plan.progress import progress
from mdc.plan.records import read_json, write_json

_Piece = TypeVar("_Piece", bound=Sized)
_Result = TypeVar("_Result")
_STATE = "state.json"


def folder_beside(out: Path) -> Path:
    """Where the files of finished pieces lie: a hidden folder beside ``out``."""
    return out.with_name(f".{out.name}.parts")


def kept(out: Path, ending: str) -> str:
    """What an interrupted call says."""
    count = len(list(folder_beside(out).glob(f"[0-9]*{ending}")))
    return f"finished parts: {count}, which are kept; rerun to resume" if count else "no part was finished yet"


@contextmanager
def parts_beside(out: Path, asked: Mapping[str, Any], ending: str, doing: str) -> Iterator[Path]:
    """``folder_beside(out)``, held alone. It keeps files (``ending``) that an earlier call made for the same ``asked``, as JSON
    has it, and none of another; it is removed when the block ends well. UserError if another process holds it."""
    folder = folder_beside(out)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, doing=doing):
        state = folder / _STATE
        if not state.is_file() or read_json(state) != asked:
            for path in folder.glob(f"[0-9]*{ending}"):
                path.unlink()
            write_json(state, asked)
        yield folder
        shutil.rmtree(folder)


def fill(
    files: Sequence[Path],
    pieces: Sequence[_Piece],
    compute: Callable[[Sequence[_Piece]], Iterator[_Result]],
    write: Callable[[Path, _Result], None],
    **bar: str,
) -> None:
    """Write the file of each piece that has none. ``compute``: results of pieces in their order; ``bar``: of :func:`progress`,
    which counts what the pieces hold."""
    missing = [number for number, file in enumerate(files) if not file.is_file()]
    wanted = [pieces[number] for number in missing]
    total = sum(map(len, pieces))
    with progress(total=total, initial=total - sum(map(len, wanted)), **bar) as shown:
        try:
            for number, result in zip(missing, compute(wanted), strict=True):
                write(files[number], result)
                shown.update(len(pieces[number]))
        except KeyboardInterrupt:
            _ending(os.getpid()).set()  # otherwise each worker is waited for until its piece is done, or five seconds
            _ending.cache_clear()  # those of a later call are others
            raise
