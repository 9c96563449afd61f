"""Table 9 equals the paper's where both speak, and says what the datasets' own pages say."""

from pathlib import Path
from typing import Any

import pytest
from shown import planned, read_rows

from mdc.data.formats.sizes import size
from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.registry.datasets import REGISTRY
from mdc.report.tables.table9 import make

# the paper's appendix, its fifteen rows; it prints "SugarCreep"
ROWS = [tuple(row.values()) for row in read_rows(Path(__file__).with_name("paper_table9.csv"))]


def job(**changes: Any) -> ArtefactJob:
    """What a scale asks for, under a label that must be escaped."""
    found: ArtefactJob = planned("mini")["table9"]
    return found.model_copy(update={"scale_label": "mini <1>", **changes})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("table9")
    make(job(), {}, out)
    return out


def test_the_papers_rows_come_first_and_equal_it(made: Path) -> None:
    rows = read_rows(made / "table9.csv")
    assert [(row["dataset"], row["license"], row["in_paper"]) for row in rows[:15]] == [
        (dataset, licence, "True") for dataset, _, licence in ROWS
    ]
    assert {row["in_paper"] for row in rows[15:]} == {"False"} and all(row["license"] for row in rows)


def test_the_long_table_says_all_that_the_registry_knows(made: Path) -> None:
    rows = read_rows(made / "table9_long.csv")
    assert {row["name"] for row in rows} == set(REGISTRY)
    paper = [row for row in rows if row["in_paper"] == "True"]
    assert [(row["paper_label"], row["citation"], row["paper_license"]) for row in paper] == ROWS
    assert all(row["equal"] == "True" and row["license"] == row["paper_license"] for row in paper)
    assert {row["equal"] for row in rows[15:]} == {""}
    uses = {row["name"]: [key for key in row if key.startswith("for_") and row[key] == "True"] for row in rows}
    assert {name: len(found) for name, found in uses.items()} == {n: len(e.used_for) for n, e in REGISTRY.items()}
    assert uses["pets"] == ["for_probe"]
    pets = next(row for row in rows if row["name"] == "pets")
    assert "CC BY-SA 4.0" in pets["its_own_page"] and pets["bytes"] == "811092049"
    assert pets["items"] == str(3680 + 3669)


def test_a_difference_from_the_paper_is_shown(tmp_path: Path) -> None:
    (pets,) = [entry for entry in job().more["entries"] if entry["name"] == "pets"]
    make(job(more={"entries": [{**pets, "licence": "CC BY-SA 4.0"}]}), {}, tmp_path)
    row = read_rows(tmp_path / "table9_long.csv")[0]
    assert (row["equal"], row["license"], row["paper_license"]) == ("False", "CC BY-SA 4.0", "CC BY 4.0")


def test_html_markdown_and_latex_show_every_row(made: Path) -> None:
    page, markdown, tex = ((made / f"table9.{kind}").read_text(encoding="utf-8") for kind in ("html", "md", "tex"))
    for dataset, citation, licence in ROWS:
        assert f"{dataset} ({citation})</td>" in page and f"| {dataset} ({citation}) | {licence} |" in markdown
        assert f"{dataset} ({citation}) & {licence} &" in tex
    assert (
        page.count("<tr") == 1 + len(REGISTRY)
        and "mini &lt;1&gt;" in page
        and "grey" not in page.partition("</style>")[2]
    )
    assert tex.count(r" \\") == 1 + len(REGISTRY) and "mini $<$1$>$" in tex and r"\begin{tabular}{llllll}" in tex
    assert "8 Pets: Its page: CC BY-SA 4.0" in page and "8 Pets: Its page: CC BY-SA 4.0" in markdown


def test_sizes_for_a_person() -> None:
    told = {None: "", 502: "502 B", 999: "999 B", 1000: "1 kB", 999_600: "1 MB", 4996278331: "5 GB"}
    assert {count: size(count) for count in told} == told
