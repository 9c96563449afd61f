"""The pages of docs: links lead somewhere, every page is found from the index, and what is generated is as it would be made."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path

import numpy as np
import package_map
import pytest
from PIL import Image
from scale_files import ROOT

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


def test_the_index_lists_every_page_once() -> None:
    """The first column of its tables; a folder's pages are listed by the folder's own index."""
    first = re.findall(r"^\| \[[^]]+\]\(([^)#]+)\)", (DOCS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    own = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert Counter(first) == Counter([*own, "log/README.md"])
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
    script = importlib.util.spec_from_file_location("draw_method", DOCS / "draw_method.py")
    assert script and script.loader
    module = importlib.util.module_from_spec(script)
    script.loader.exec_module(module)
    module.draw(tmp_path / "method.png")
    files = tmp_path / "method.png", DOCS / "method.png"
    made, kept = (np.asarray(Image.open(file).convert("L"), dtype=float) for file in files)
    # another version of a library may draw another line
    assert made.shape == kept.shape and np.abs(made - kept).mean() < 2
    assert files[1].stat().st_size < 200_000
