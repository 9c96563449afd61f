"""The pages of docs: links lead somewhere, every page is found from the index, and what is generated is as it would be made."""

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
from scale_files import ROOT, scale_values

from mdc.app.cli import build_parser
from mdc.plan.records import UserError, sha256_file, write_json
from mdc.plan.verbs import VERBS
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


def test_links_hold() -> None:
    links, broken = [(page, link) for page in PAGES for link in _links(page)], []
    for page, link in links:
        name, _, anchor = link.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists() or (anchor and anchor not in _anchors(there)):
            broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert not broken and len(links) > 300


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


def test_tables_that_pages_make_are_of_their_scale() -> None:
    """Every ``snakemake results/NAME.csv … --config scale=SCALE`` names a table or figure that the scale's file has."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    commands = re.findall(r"^ {4}(?:\w+=\S+ )?(snakemake .+(?:\\\n.+)*)$", text, re.MULTILINE)
    files = 0
    for command in commands:
        scale = "".join(re.findall(r"scale=([\w-]+)", command)) or "mini"
        named = set(re.findall(r"results/(\w+)\.(?:csv|png|html)", command))
        assert named <= {*scale_values(scale)["tables"], "index"}, command
        files += len(named)
    assert files > 20


def test_the_index_lists_every_page_once() -> None:
    """The first column of its tables; a folder's pages are listed by the folder's own index."""
    first = re.findall(r"^\| \[[^]]+\]\(([^)#]+)\)", (DOCS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    own = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert Counter(first) == Counter([*own, "log/README.md", "findings/README.md"])
    assert set(_links(DOCS / "log/README.md")) >= {path.name for path in (DOCS / "log").glob("20*.md")}


def test_entries_of_the_log_are_short() -> None:
    count = 0
    for page in (DOCS / "log").glob("20*.md"):
        _, *entries = re.split(r"^### ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        count += len(entries)
        for entry in entries:
            title, *lines = filter(str.strip, entry.partition("\n## ")[0].splitlines())
            assert len(lines) <= 15, f"{page.name}: {title}"
    assert count > 100


def test_the_map_is_that_of_the_code() -> None:
    assert package_map.PAGE.read_text(encoding="utf-8") == package_map.page(), "python tests/support/package_map.py"


def test_every_file_says_what_it_is_for() -> None:
    files = list((ROOT / "src/mdc").rglob("*.py"))
    assert len(files) > 100 and not [path for path in files if not package_map.first_sentence(path)]


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


def test_a_changed_csv_file_is_no_evidence(tmp_path: Path) -> None:
    _result(tmp_path / "results/mini/table9", 3)
    file = tmp_path / "results/mini/table9/table9_contrasts.csv"
    file.write_text(file.read_text().replace(",3,", ",5,"))
    with pytest.raises(UserError, match=r"not the file that .*table9.json names"):
        _script("make_findings").collect(tmp_path / "results", tmp_path, "commit")


def test_a_page_shows_each_claim_with_its_verdicts(tmp_path: Path) -> None:
    """Two claims of a text, one table with three seeds and one that was not run."""
    findings = _script("make_findings")
    rows = [
        {
            "first": "a/mdc",
            "second": second,
            "method": "MDC",
            "second_method": second,
            "unit": unit,
            "direction": direction,
        }
        | {"value": "0.5", "low": "0.1", "high": "0.9", "size": size, "detectable": "0.7"}
        for second, unit, direction, size in (
            ("arc", "points", "inconclusive", "equivalent"),
            ("clip", "points per doubling", "reversed", "undecided"),
        )
    ]
    same = {
        "scale": "mini",
        "artefact": "table1",
        "scope": "methods",
        "seeds": "3",
        "record": "f" * 64,
        "primary": "True",
    }
    (tmp_path / "evidence").mkdir()
    lines = [{**dict.fromkeys(findings.COLUMNS, ""), **same, **row} for row in rows]
    write_csv(tmp_path / "evidence/mini.csv", lines, findings.COLUMNS)
    asked = """
    page:
      question: Who is right?
      claims:
        - {says: as good, source: paper, holds_if: equivalent, shown: [{scale: mini, artefact: table1, second: arc}]}
        - {says: better, source: blog, shown: [{scale: mini, artefact: table1, second: clip}, {scale: long, artefact: table2}]}
    """
    (tmp_path / "questions.yaml").write_text(asked)
    for name, title in (("page", "Who is right?"), ("README", "What was found")):
        (tmp_path / f"{name}.md").write_text(f"# {title}\n\n{findings.BEGIN}\n{findings.END}\nby hand\n")
    made = findings.pages(tmp_path, tmp_path)
    assert [path.name for path in made] == ["page.png", "page.md", "README.md"]
    for text in (path.read_text() for path in made[1:]):
        assert (
            text.index("as good")
            < text.index(r"+0.50 \[+0.10, +0.90\] points")
            < text.index("better")
            < text.index("points per doubling")
        )
        assert "equivalent (detectable: 0.70)" in text and "undecided (detectable: 0.70)" in text
        assert "| yes |" in text and "| no |" in text and "`table2` at `long`" in text and text.endswith("by hand\n")
    # a claim that its table shows the other way round is found by what it claims
    turned = lines[0] | {"first": "arc", "second": "a/mdc", "predicted": "lower", "value": "-0.5"}
    write_csv(tmp_path / "evidence/mini.csv", [turned, lines[1]], findings.COLUMNS)
    findings.pages(tmp_path, tmp_path)
    assert "predicted lower" in (tmp_path / "page.md").read_text()
    (tmp_path / "questions.yaml").write_text(asked.replace("second: arc", "second: none"))
    with pytest.raises(UserError, match="no claim of `table1` at `mini` matches"):
        findings.pages(tmp_path, tmp_path)
    # a claim that could not be compared has no value, no scope and no picture
    (tmp_path / "questions.yaml").write_text(asked)
    unknown = {"value": "", "low": "", "high": "", "scope": "", "seeds": "", "size": "", "direction": "not compared"}
    write_csv(tmp_path / "evidence/mini.csv", [{**line, **unknown} for line in lines], findings.COLUMNS)
    page, _ = made = findings.pages(tmp_path, tmp_path)
    assert [path.name for path in made] == ["page.md", "README.md"]
    assert "| – | not compared (detectable: 0.70) | open | – |" in page.read_text()


def _result(folder: Path, seeds: int) -> None:
    """A table of a scale that claims one thing."""
    folder.mkdir(parents=True, exist_ok=True)
    row = dict.fromkeys(CLAIMS, "") | {"artefact": folder.name, "primary": True, "seeds": seeds}
    file = folder / f"{folder.name}_contrasts.csv"
    write_csv(file, [row], CLAIMS)
    made = {"config": {"seeds": list(range(seeds))}, "outputs": {file.name: sha256_file(file)}}
    write_json(folder / f"{folder.name}.json", made)


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


def test_the_picture_of_the_stages_is_that_of_the_plans() -> None:
    """And it shows every verb, and no arrow upwards."""
    stages = _script("make_stages")
    assert (DOCS / "stages.svg").read_text(encoding="utf-8") == stages.svg(), "python docs/make_stages.py"
    found, _ = stages.reads()
    place = {verb: number for number, row in enumerate(stages.rows(found)) for verb in row}
    assert place.keys() == VERBS.keys() and all(place[one] < place[verb] for verb, own in found.items() for one in own)
    assert ("corpus", "make") in stages.implied(found) and ("pretrain", "probe") not in stages.implied(found)
