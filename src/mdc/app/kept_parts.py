"""Long work in pieces: each is kept as a file beside the output when it is done, so an interrupted call resumes when rerun.

On a CPU several processes compute, with one thread each, so that the numbers do not depend on how many there are; on a GPU one
computes what several have decoded.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from mdc.data.loader.workers import _ending, ahead
from mdc.plan.host import usable_cores
from mdc.plan.processes.lock import locked
from mdc.plan.progress import progress
from mdc.plan.records import UserError, read_json, write_json

_Piece = TypeVar("_Piece", bound=Sized)
_Decoded = TypeVar("_Decoded")
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


def processes_of(asked: int | None) -> int:
    """``--processes``, by default as many as this process may use cores; UserError if it is none."""
    if asked is not None and asked < 1:
        raise UserError(f"--processes {asked}: at least 1")
    return asked or usable_cores()


def computed(
    pieces: Sequence[_Piece],
    decode: Callable[[_Piece], _Decoded],
    compute: Callable[[_Decoded], _Result],
    device: torch.device,
    processes: int,
) -> Iterator[_Result]:
    """What ``compute`` makes on ``device`` of what ``decode`` makes of each piece, in their order."""
    workers = processes if processes > 1 else 0
    if device.type == "cpu":
        return ahead(partial(_with_one_thread, decode, compute), pieces, workers)
    return map(compute, ahead(decode, pieces, workers))


def _with_one_thread(
    decode: Callable[[_Piece], _Decoded], compute: Callable[[_Decoded], _Result], piece: _Piece
) -> _Result:
    torch.set_num_threads(1)
    return compute(decode(piece))


def fill(
    folder: Path,
    ending: str,
    pieces: Sequence[_Piece],
    compute: Callable[[Sequence[_Piece]], Iterator[_Result]],
    write: Callable[[Path, _Result], None],
    **bar: str,
) -> list[Path]:
    """The files of all pieces, those that were missing now written. ``compute``: results of pieces in their order; ``bar``: of
    :func:`progress`, which counts what the pieces hold."""
    files = [folder / f"{number:08d}{ending}" for number in range(len(pieces))]
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
    return files
