"""A whole small project, made once for all tests that look at one."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import small_project
from small_project import SCALE

from mdc.app.cli import main
from mdc.data.shards.index import ShardReader


def _files(folder: Path) -> dict[str, list[int]]:
    """Size and time of every file below ``folder``, by its path there."""
    places = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): [(at := path.stat()).st_size, at.st_mtime_ns] for path in places}


def _make(folder: Path) -> None:
    project = folder / "project"
    project.mkdir()
    small_project.make(project, seeds=(0, 1))
    shutil.rmtree(project / ".state")  # no test looks at what jobs may forget
    (folder / "files.json").write_text(json.dumps(_files(project)))


@pytest.fixture(scope="module")
def made(once: Callable[[str, Callable[[Path], object]], Path]) -> Iterator[Path]:
    """The project that all tests share, which a module leaves as it was."""
    whole = once("small", _make)
    yield whole / "project"
    was, now = json.loads((whole / "files.json").read_text()), _files(whole / "project")
    changed = sorted(path for path in was.keys() | now.keys() if was.get(path) != now.get(path))
    assert not changed, f"all tests share these, and one wrote there (see own_copy): {changed[:20]}"


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


@pytest.fixture
def pictures(r: Path, tmp_path: Path) -> list[Path]:
    """Three held-out images as files, 0.png to 2.png."""
    reader, files = ShardReader(r / "data/corpora/described", "test"), [tmp_path / f"{n}.png" for n in range(3)]
    for number, file in enumerate(files):
        file.write_bytes(reader.read(number)[1])
    return files


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """``refused("score", …)``: what ``mdc`` says to a call that it refuses, with exit code 2: one line, and nothing else."""

    def line(*words: object) -> str:
        capsys.readouterr()
        assert main([str(word) for word in words]) == 2, words
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1, said
        return said.err

    return line
