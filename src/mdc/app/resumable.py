"""Long work in pieces: each finished piece is a file beside the output, so an interrupted call resumes when rerun.

On a CPU several processes compute with one thread each, so results do not depend on their number; on a GPU several decode and
one computes.
"""

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
    """The hidden folder beside ``out`` for files of finished pieces."""
    return out.with_name(f".{out.name}.parts")


def kept(out: Path, ending: str) -> str:
    """The message of an interrupted call."""
    count = len(list(folder_beside(out).glob(f"[0-9]*{ending}")))
    return f"finished parts: {count}, which are kept; rerun to resume" if count else "no part was finished yet"


@contextmanager
def parts_beside(out: Path, request: Mapping[str, Any], ending: str, doing: str) -> Iterator[Path]:
    """``folder_beside(out)``, locked. It keeps files (``ending``) of an earlier call with the same JSON ``request``, and deletes
    others; it is removed when the block succeeds. UserError if another process holds it."""
    folder = folder_beside(out)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, doing=doing):
        state = folder / _STATE
        if not state.is_file() or read_json(state) != request:
            for path in folder.glob(f"[0-9]*{ending}"):
                path.unlink()
            write_json(state, request)
        yield folder
        shutil.rmtree(folder, ignore_errors=True)  # NFS keeps the lock's file while it is open


def processes_of(requested: int | None) -> int:
    """``--processes``, by default the number of usable cores; UserError below 1."""
    if requested is not None and requested < 1:
        raise UserError(f"--processes {requested}: at least 1")
    return requested or usable_cores()


def computed(
    pieces: Sequence[_Piece],
    decode: Callable[[_Piece], _Decoded],
    compute: Callable[[_Decoded], _Result],
    device: torch.device,
    processes: int,
) -> Iterator[_Result]:
    """``compute(decode(piece))`` on ``device`` for each piece, in order."""
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
    """Compute and write the missing pieces; the files of all. ``compute``: results of pieces in order; ``bar``: options of
    :func:`progress`, which counts the items of the pieces."""
    files = [folder / f"{number:08d}{ending}" for number in range(len(pieces))]
    missing = [number for number, file in enumerate(files) if not file.is_file()]
    todo = [pieces[number] for number in missing]
    total = sum(map(len, pieces))
    with progress(total=total, initial=total - sum(map(len, todo)), **bar) as progress_bar:
        try:
            for number, result in zip(missing, compute(todo), strict=True):
                write(files[number], result)
                progress_bar.update(len(pieces[number]))
        except KeyboardInterrupt:
            _ending(os.getpid()).set()  # do not wait for the workers' pieces
            _ending.cache_clear()  # a later call needs a new event
            raise
    return files
