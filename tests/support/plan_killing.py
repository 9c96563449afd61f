"""Makes a plan, kills it with SIGKILL at one moment, makes it again; tells what the second had to do anew.

Run as a script by tests/unit/data/test_planning.py: it imports everything once and forks a child for each planning, so
that a hundred kills do not cost a hundred imports. A moment lies before or after a rename, after a removal, or before a
row that is read.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset  # what a planning imports late, here once for all children
import pyarrow.ipc
import pyarrow.parquet  # noqa: F401

from mdc.obtain import plan, reading, seals, subset, whole
from mdc.obtain.url_list import Columns
from mdc.records import sha256_file


class Countdown:
    """Kills this process at its ``number``-th tick."""

    def __init__(self, number: int) -> None:
        self.left = number

    def tick(self) -> None:
        """One moment has passed."""
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)


def _after_operations(number: int) -> None:
    countdown = Countdown(number)
    replace, unlink = os.replace, os.unlink

    def replacing(*args: Any, **kwargs: Any) -> None:
        countdown.tick()  # the file is there, under its temporary name
        replace(*args, **kwargs)
        countdown.tick()

    def removing(*args: Any, **kwargs: Any) -> None:
        unlink(*args, **kwargs)
        countdown.tick()

    vars(os).update(replace=replacing, unlink=removing)


def _after_rows(number: int) -> None:
    countdown = Countdown(number)

    def ticking(read_rows: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def wrapped(*args: Any) -> Iterator[Any]:
            for row in read_rows(*args):
                countdown.tick()
                yield row

        return wrapped

    for module in (reading, whole):
        vars(module)["read_rows"] = ticking(vars(module)["read_rows"])


def _counted(told: dict[str, int]) -> None:
    """Count from here on the files that are hashed, and those that are read for the first time."""

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any) -> Any:
            told[name] += 1
            return function(*args)

        return wrapped

    vars(seals)["sha256_file"] = counting("hashed", seals.sha256_file)
    vars(reading)["read_rows"] = counting("read", vars(reading)["read_rows"])


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def contents(folder: Path) -> dict[str, str]:
    """The hash of every file of a plan but the seals, whose times differ; hidden files too."""
    place = folder / "plan"
    return {
        str(path.relative_to(place)): sha256_file(path)
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.parent.name != "list"
    }


def tried(folder: Path, make: Callable[[Path], Any], kill: Callable[[int], None], number: int) -> dict[str, Any]:
    """One kill and one planning after it."""

    def killed() -> None:
        kill(number)
        make(folder)

    def again() -> None:
        told = {"hashed": 0, "read": 0}
        _counted(told)
        make(folder)
        (folder / "told.json").write_text(json.dumps(told))

    place = folder / "plan"
    status = _forked(killed)
    there = {
        "status": status,
        "planned": (place / "plan.json").exists(),
        "sealed": len(list((place / "list").glob("[0-9]*.json"))),
        "kept": len(list((place / "reading").glob("[0-9]*.json"))),
    }
    there["again"] = _forked(again)
    return {**there, **json.loads((folder / "told.json").read_text()), "contents": contents(folder)}


def carry_out(case: dict[str, Any]) -> list[dict[str, Any]]:
    """All tries of a case: until a planning lives, after every operation or after every ``step`` rows."""
    vars(subset).update({name: case["sizes"][name] for name in ("_SORTED", "_SLACK", "_SPARE")})
    vars(os)["fsync"] = lambda descriptor: None  # no kill empties the page cache, and a busy disk makes it slow
    files, columns = [Path(file) for file in case["files"]], Columns(**case["columns"])
    told: list[dict[str, Any]] = []
    while not told or told[-1]["status"] != 0:
        number = 1 + len(told) * case["step"]
        kill = _after_rows if case["kill"] == "rows" else _after_operations
        told.append(
            tried(
                Path(case["folder"]) / str(number),
                lambda folder: plan.make_plan(folder, files, columns, case["subset"], case["shape"]),
                kill,
                number,
            )
        )
    return told


if __name__ == "__main__":
    result = carry_out(json.loads(Path(sys.argv[1]).read_text()))
    Path(sys.argv[2]).write_text(json.dumps(result))
