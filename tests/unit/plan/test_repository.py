"""What a repository says of itself agrees, and every folder of its tests runs alone."""

import os
import re
import shutil
import subprocess
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from scale_files import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_version_and_licence_are_the_same_everywhere() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = re.findall(r"^## (\S+?)(?:,.*)?$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited["version"] == PROJECT["version"] == changes[0] and cited["license"] == PROJECT["license"]


def test_every_folder_of_tests_runs_alone() -> None:
    """pytest puts a test's own folder on the path, and tests/support: what others share lies in one of them."""
    taken = 0
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in re.findall(
            r"^\s*(?:from|import) (test_\w+|conftest)\b", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert path.with_name(f"{name}.py").is_file(), f"{path.relative_to(ROOT)} imports {name}"
            taken += 1
    assert taken > 5


#: a wheel of a `uv` that notes its calls
UV = {
    "uv-0.9.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: uv\nVersion: 0.9.9\n",
    "uv-0.9.9.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "uv-0.9.9.dist-info/RECORD": "",
    "uv-0.9.9.data/scripts/uv": '#!/bin/sh\necho "$@" >> calls\n[ "$1" != venv ] || mkdir -p .venv\n',
}


@pytest.fixture
def setup(tmp_path: Path) -> Callable[[Path], list[str]]:
    """What `make setup` asks `uv` for in a folder, on a machine whose pip refuses to install outside of an environment."""
    with zipfile.ZipFile(tmp_path / "uv-0.9.9-py3-none-any.whl", "w") as wheel:
        for name, text in UV.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16
            wheel.writestr(entry, text)
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_REQUIRE_VIRTUALENV": "1", "PIP_USER": "1"}

    def call(folder: Path) -> list[str]:
        (folder / "calls").write_text("")
        done = subprocess.run(["make", "setup"], cwd=folder, env={**os.environ, **pip}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return (folder / "calls").read_text().splitlines()

    return call


def test_setup_is_done_once_and_anew_where_a_project_was_moved_or_copied(
    tmp_path: Path, setup: Callable[[Path], list[str]]
) -> None:
    project, copied = tmp_path / "ein Ördner (1), neu", tmp_path / "copied"
    project.mkdir()
    for file in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / file, project / file)
    calls = setup(project)
    assert [call.split()[0] for call in calls] == ["venv", "pip", "pip"] and setup(project) == []
    assert all("--python .venv" in call for call in calls[1:]), "no environment variable chooses another"
    shutil.copytree(project, copied)
    (copied / ".venv/old").touch()
    assert setup(copied) == calls and not (copied / ".venv/old").exists() and setup(copied) == []
    shutil.rmtree(copied / ".venv")
    (copied / ".venv").symlink_to(project / ".venv")
    assert setup(copied) == calls and not (copied / ".venv").is_symlink() and setup(project) == []
    shutil.rmtree(copied / ".venv")
    (copied / ".venv").symlink_to(tmp_path / "deleted")
    assert setup(copied) == calls
    shutil.rmtree(copied / ".venv")
    (tmp_path / "of others").mkdir()
    (copied / ".venv").symlink_to(tmp_path / "of others")
    assert setup(copied) == calls and not list((tmp_path / "of others").iterdir()), (
        "what a link points to stays as it is"
    )
