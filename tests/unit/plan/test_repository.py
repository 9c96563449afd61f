"""What a repository says of itself agrees, and every folder of its tests runs alone."""

import re
import tomllib

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
