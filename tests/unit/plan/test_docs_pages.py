"""The pages of docs: links lead somewhere, every page is found from the index, and what is generated is as it would be made."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import package_map
import pytest
from PIL import Image
from scale_files import ROOT

from mdc.app.cli import build_parser
from mdc.plan.records import write_json
from mdc.report.csv_file import write_csv
from mdc.report.frame import CLAIMS

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
_FENCED = re.compile(r"^```.*?^```|^(?: {4}|\t).*?$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)|(?:href|src)=\"([^\"]+)\"")


def _anchors(page: Path) -> set[str]:
    """What `page.md#…` may name: headings as GitHub names them, and anchors that the page sets itself."""
    text = page.read_text(encoding="utf-8")
    heads = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head) for head in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    named = [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads]
    return {*named, *re.findall(r"<a id=\"([^\"]+)\"", text)}


def _links(page: Path) -> list[str]:
    """The links of a page that are not to the web; code is none."""
    text = re.sub(r"`[^`\n]*`", "", _FENCED.sub("", page.read_text(encoding="utf-8")))
    found = (one or other for one, other in _LINK.findall(text))
    return [link for link in found if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_hold(page: Path) -> None:
    broken = []
    for link in _links(page):
        name, _, anchor = link.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists() or (anchor and anchor not in _anchors(there)):
            broken.append(link)
    assert not broken


def test_commands_are_those_of_the_program() -> None:
    """Every ``mdc …`` of a page can be parsed; … stands for any value."""
    commands = [
        line
        for page in PAGES
        for line in re.findall(r"^ {4}(mdc .+[^\\])$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(commands) > 30
    for command in commands:
        words = shlex.split(command, comments=True)
        end = min((words.index(sign) for sign in ("|", ">", "&&") if sign in words), default=len(words))
        try:
            build_parser().parse_args(words[1:end])
        except SystemExit as error:
            assert not error.code, command


def test_the_index_lists_every_page_once() -> None:
    """The first column of its tables; a folder's pages are listed by the folder's own index."""
    first = re.findall(r"^\| \[[^]]+\]\(([^)#]+)\)", (DOCS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    own = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert Counter(first) == Counter([*own, "log/README.md", "findings/README.md"])
    assert set(_links(DOCS / "log/README.md")) >= {path.name for path in (DOCS / "log").glob("20*.md")}


def test_entries_of_the_log_are_short() -> None:
    for page in (DOCS / "log").glob("20*.md"):
        _, *entries = re.split(r"^### ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for entry in entries:
            title, *lines = filter(str.strip, entry.partition("\n## ")[0].splitlines())
            assert len(lines) <= 15, f"{page.name}: {title}"


def test_the_map_is_that_of_the_code() -> None:
    assert package_map.PAGE.read_text(encoding="utf-8") == package_map.page(), "python tests/support/package_map.py"


def test_every_file_says_what_it_is_for() -> None:
    silent = [path for path in (ROOT / "src/mdc").rglob("*.py") if not package_map.first_sentence(path)]
    assert not silent


def test_the_drawing_is_the_one_that_its_script_makes(tmp_path: Path) -> None:
    _script("draw_method").draw(tmp_path / "method.png")
    assert _alike(tmp_path / "method.png", DOCS / "method.png")
    assert (DOCS / "method.png").stat().st_size < 200_000


def test_the_findings_are_those_of_their_evidence(tmp_path: Path) -> None:
    kept = DOCS / "findings"
    made = _script("make_findings").pages(kept, tmp_path)
    for path in made:
        there = kept / path.name
        assert _alike(path, there) if path.suffix == ".png" else path.read_bytes() == there.read_bytes(), (
            "make findings"
        )
    assert {path.name for path in made} == {path.name for path in kept.iterdir() if path.suffix in (".md", ".png")}
    assert sum(path.stat().st_size for path in kept.glob("*.png")) < 2_000_000


def test_fewer_seeds_replace_no_finding(tmp_path: Path) -> None:
    findings, commits = _script("make_findings"), {"first": 3, "second": 1, "third": 5}
    for commit, seeds in commits.items():
        _result(tmp_path / "results/mini/table9", seeds)
        findings.collect(tmp_path / "results", tmp_path, commit)
        assert (tmp_path / "mini.csv").read_text().count("\n") == 2
        assert ("first" if commit == "second" else commit) in (tmp_path / "mini.csv").read_text()


def _result(folder: Path, seeds: int) -> None:
    """A table of a scale that claims one thing."""
    folder.mkdir(parents=True, exist_ok=True)
    row = dict.fromkeys(CLAIMS, "") | {"artefact": folder.name, "primary": True, "seeds": seeds}
    write_csv(folder / f"{folder.name}_contrasts.csv", [row], CLAIMS)
    write_json(folder / f"{folder.name}.json", {"outputs": {f"{folder.name}_contrasts.csv": ""}})


def _script(name: str) -> ModuleType:
    """A script of docs/."""
    found = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # where dataclasses look for it
    found.loader.exec_module(module)
    return module


def _alike(made: Path, kept: Path) -> bool:
    """Whether two pictures are the same, but for a line that another version of a library draws otherwise."""
    one, other = (np.asarray(Image.open(file).convert("L"), dtype=float) for file in (made, kept))
    return one.shape == other.shape and bool(np.abs(one - other).mean() < 2)
