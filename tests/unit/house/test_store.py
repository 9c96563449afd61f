"""Files kept by content in a folder with a limit: what goes first, what stays, and several jobs at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mdc.processes.store import Store
from mdc.records import atomic_path


def put(store: Store, name: str, size: int = 100, used: float | None = None) -> Path:
    """A file of ``size`` bytes; ``used``: how many seconds ago."""
    path = store.path({"name": name})
    with atomic_path(path) as temporary:
        temporary.write_bytes(bytes(size))
    if used is not None:
        os.utime(path, (time.time() - used,) * 2)
    return path


def left(store: Store) -> set[Path]:
    return set(store.folder.glob("*/*.safetensors"))


def end_a_job(store: Store) -> None:
    with store.in_use():
        pass


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path, 300)
    a, _, c, d = (put(store, name, used=ago) for name, ago in (("a", 40), ("b", 30), ("c", 20), ("d", 10)))
    assert store.used(a) and not store.used(store.path("none"))
    end_a_job(store)
    assert left(store) == {a, c, d}
    put(store, "large", 250)
    end_a_job(store)
    assert left(store) == {store.path({"name": "large"})}
    put(store, "larger", 301)
    end_a_job(store)
    assert left(store) == set(), "no job runs, and the limit holds"


def test_without_a_limit_all_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    files = {put(store, str(number), used=1e6) for number in range(5)}
    end_a_job(store)
    assert left(store) == files


def test_what_killed_writers_left_goes_after_a_day(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = put(store, "a")
    old, new = (path.with_name(f".{path.name}.1-abcdef0{n}.tmp.safetensors") for n in range(2))
    for one in (old, new):
        one.write_bytes(b"half")
    os.utime(old, (time.time() - 90_000,) * 2)
    end_a_job(store)
    assert left(store) == {path, new}


JOB = """
import sys
from pathlib import Path
from mdc.processes.store import Store

store = Store(Path(sys.argv[1]), int(sys.argv[2]))
with store.in_use():
    print("runs", flush=True)
    for line in sys.stdin:
        word, _, name = line.strip().partition(" ")
        if word == "end":
            break
        path = store.path({"name": name})
        if word == "make":
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(bytes(100))
        print(store.used(path) and len(path.read_bytes()), flush=True)
"""


class Other:
    """A job in a process of its own."""

    def __init__(self, store: Store) -> None:
        command = [sys.executable, "-c", JOB, str(store.folder), str(store.limit)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._answer() == "runs"

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def does(self, *words: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def ends(self) -> None:
        self.does("end")
        assert self.process.wait() == 0


def test_nothing_goes_that_a_running_job_in_another_process_has_used(tmp_path: Path) -> None:
    store = Store(tmp_path, 250)
    old, older = put(store, "old", used=50), put(store, "older", used=60)
    unused = put(store, "unused", used=10)
    first = Other(store)
    assert first.does("use", "older") == "100" and first.does("use", "old") == "100"
    second = Other(store)
    made = [store.path({"name": name}) for name in ("m0", "m1")]
    assert [second.does("make", name) for name in ("m0", "m1")] == ["100", "100"]
    second.ends()
    assert left(store) == {old, older, *made}, "only what nobody used; more than the limit, since a job runs"
    assert first.does("use", "old") == "100"
    first.ends()
    assert left(store) == {old, made[1]}, "the limit holds again, and the order is that of the last use"
    assert not unused.exists() and list((tmp_path / ".users").iterdir()) == []


def test_a_killed_job_holds_nothing_back(tmp_path: Path) -> None:
    store = Store(tmp_path, 250)
    killed = Other(store)
    for name in ("a", "b", "c"):
        assert killed.does("make", name) == "100"
    end_a_job(store)
    assert len(left(store)) == 3
    killed.process.kill()
    killed.process.wait()
    end_a_job(store)
    assert left(store) == {store.path({"name": name}) for name in ("b", "c")}
    assert list((tmp_path / ".users").iterdir()) == []


def test_many_jobs_at_once_leave_the_store_within_its_limit(tmp_path: Path) -> None:
    store = Store(tmp_path, 350)
    jobs = [Other(store) for _ in range(3)]
    for number in range(12):
        assert jobs[number % 3].does("make", str(number)) == "100"
    for job in jobs:
        job.ends()
    assert len(left(store)) == 3


def test_a_file_that_goes_while_it_is_wanted_is_only_missing(tmp_path: Path) -> None:
    store = Store(tmp_path, 10)
    path = put(store, "a")
    with path.open("rb") as handle:
        end_a_job(store)
        assert not store.used(path) and len(handle.read()) == 100


@pytest.mark.parametrize("limit", [None, 10**9])
def test_a_store_that_is_new_is_empty(tmp_path: Path, limit: int | None) -> None:
    store = Store(tmp_path / "new", limit)
    assert not store.used(store.path("x"))
    end_a_job(store)
    assert left(store) == set()
