"""What people look for in a repository that they cite: who to name, what changed, and that its tests run elsewhere as here."""

import re
import tomllib

import yaml
from scale_files import ROOT, SCALES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_citation_is_one_that_readers_of_its_format_take() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    # what the Citation File Format 1.2.0 requires of a file and of a reference
    assert {"cff-version", "message", "title", "authors"} <= set(cited) and cited["cff-version"] == "1.2.0"
    paper = cited["preferred-citation"]
    assert {"type", "title", "authors"} <= set(paper)
    for authors in (cited["authors"], paper["authors"]):
        assert authors
        for author in authors:
            assert set(author) in ({"name"}, {"family-names", "given-names"})
    assert cited["version"] == PROJECT["version"] and cited["license"] == PROJECT["license"]


def test_changes_begin_with_the_version_that_this_is() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\S+?)(?:,.*)?$", text, re.MULTILINE)
    assert versions[0] == PROJECT["version"] and len(set(versions)) == len(versions)
    assert all(f"`{scale}`" in text for scale in SCALES), "every scale is named"


def test_the_workflow_runs_what_any_other_continuous_integration_runs() -> None:
    flow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    steps = [step for job in flow["jobs"].values() for step in job["steps"]]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert flow["permissions"] == {"contents": "read"}
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
    for command in re.findall(r"^make .*$", script, re.MULTILINE):
        assert command in readme, "no command that the README does not name"
    # the interpreters are those that the package says it runs on
    lowest, above = map(int, re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
    asked = flow["jobs"]["tests"]["strategy"]["matrix"]["python"]
    assert asked == [f"3.{minor}" for minor in range(lowest, above)]


def test_every_folder_of_tests_runs_alone() -> None:
    """pytest puts a test's own folder on the path, and tests/support: what others share lies in one of them."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in re.findall(
            r"^\s*(?:from|import) (test_\w+|conftest)\b", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert path.with_name(f"{name}.py").is_file(), f"{path.relative_to(ROOT)} imports {name}"
