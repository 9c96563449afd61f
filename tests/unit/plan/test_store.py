"""Files kept by content in a folder with a limit: what goes first, and what stays."""

import os
import time
from contextlib import ExitStack
from pathlib import Path

from mdc.plan.processes.store import Store
from mdc.plan.records import atomic_path


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
    assert left(store) == set(), "the limit holds"


def test_without_a_limit_all_stays(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    assert not store.used(store.path("x")) and left(store) == set()
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


def test_many_jobs_at_once_leave_the_store_within_its_limit(tmp_path: Path) -> None:
    store = Store(tmp_path, 350)
    with ExitStack() as jobs:
        for _ in range(3):
            jobs.enter_context(Store(tmp_path, 350).in_use())
        for number in range(12):
            put(store, str(number))
    assert len(left(store)) == 3


def test_a_file_that_goes_while_it_is_wanted_is_only_missing(tmp_path: Path) -> None:
    store = Store(tmp_path, 10)
    path = put(store, "a")
    with path.open("rb") as handle:
        end_a_job(store)
        assert not store.used(path) and len(handle.read()) == 100
