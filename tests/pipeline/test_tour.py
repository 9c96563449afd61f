"""The tour's commands run, and print what the page shows."""

import re
import subprocess
from pathlib import Path

import pytest
from scale_files import ROOT
from toy_project import Project

pytestmark = pytest.mark.slow

_NUMBER = r"-?\d+(?:\.\d+)?"


def _blocks(page: str) -> list[tuple[str, str]]:
    """The commands of a page, each with what is shown below it."""
    found = re.findall(r"^    \$ (.+)\n((?:(?:    (?!\$ ).*)?\n)*)", page, re.MULTILINE)
    return [(command, re.sub(r"^    ", "", shown, flags=re.MULTILINE).strip()) for command, shown in found]


def _pattern(shown: str) -> re.Pattern[str]:
    """``…`` matches any lines, and a number any number; how wide a column is depends on its numbers."""
    text = re.sub(r"\s+", " ", re.sub(_NUMBER, "0", shown))
    return re.compile(re.escape(text).replace("…", ".*"))


def test_the_tour(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for name in ("params.yaml", "scales/mini.yaml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    blocks = _blocks((ROOT / "docs/tour.md").read_text(encoding="utf-8"))
    assert len(blocks) > 8
    for command, shown in blocks:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=project.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        printed = re.sub(r"\s+", " ", re.sub(_NUMBER, "0", done.stdout)).strip()
        assert _pattern(shown).fullmatch(printed) or not shown, f"{command}\n{done.stdout}"
