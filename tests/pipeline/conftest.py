"""A whole small project, made once for all tests that look at one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import small_project
from small_project import SCALE


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    small_project.make(folder, seeds=(0, 1))
    return folder


@pytest.fixture
def r(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results of a copy of the project, in which the test is; the scale's own folder."""
    shutil.copytree(made, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return Path("results") / SCALE
