"""A whole small project, made once for all tests that look at one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import small_project
from small_project import SCALE


def _files(folder: Path) -> dict[str, list[int]]:
    """Size and time of every file, by its path."""
    places = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    return {str(path): [(found := path.stat()).st_size, found.st_mtime_ns] for path in places}


def _make(folder: Path) -> None:
    (folder / "project").mkdir()
    small_project.make(folder / "project", seeds=(0, 1))
    shutil.rmtree(folder / "project/.state")  # no test looks at what jobs may forget
    os.chdir(folder)
    (folder / "files.json").write_text(json.dumps(_files(Path("project"))))


@pytest.fixture(scope="session")
def whole(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    return once("small", _make)


@pytest.fixture(scope="module")
def made(whole: Path) -> Iterator[Path]:
    """The project that all tests share, which a module leaves as it was."""
    yield whole / "project"
    os.chdir(whole)
    was, now = json.loads((whole / "files.json").read_text()), _files(Path("project"))
    changed = sorted(path for path in was.keys() | now.keys() if was.get(path) != now.get(path))
    assert not changed, f"these are shared by all tests, and one wrote there (usefixtures: own_copy): {changed[:20]}"


@pytest.fixture
def r(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results of the project, in which the test is, to be read only; the scale's own folder."""
    monkeypatch.chdir(made)
    return Path("results") / SCALE


@pytest.fixture
def own_copy(r: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test that writes: from here on it is in a copy. The files are hard links, to be replaced and not written in."""
    shutil.copytree(made, tmp_path / "project", copy_function=os.link)
    monkeypatch.chdir(tmp_path / "project")
