"""Table 9 equals the paper's where both speak, and says what the datasets' own pages say."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from mdc.artefacts import ARTEFACTS
from mdc.config import load
from mdc.formats.sizes import size
from mdc.jobs.plan import Plan
from mdc.jobs.shown import LicencesJob
from mdc.registry.datasets import REGISTRY
from mdc.report.tables.table9 import make

ROOT = Path(__file__).resolve().parents[3]
# the paper's appendix, its fifteen rows; it prints "SugarCreep"
PAPER = """
ImageNet-1k | Russakovsky et al., 2015 | Custom (Non-commercial, research only)
STL-10 | Coates et al., 2011 | BSD License
Food101 | Bossard et al., 2014 | MIT License
VOC2007 | Everingham et al., 2010 | CC BY 4.0
CIFAR-10 | Krizhevsky et al., 2009 | MIT License
CIFAR-100 | Krizhevsky et al., 2009 | MIT License
Flowers | Nilsback and Zisserman, 2008 | CC BY 4.0
Pets | Vedaldi, 2012 | CC BY 4.0
MSCOCO | Lin et al., 2014 | CC BY 4.0
Flickr30k | Plummer et al., 2015 | Custom (Academic use only)
ARO | Yuksekgonul et al., 2022 | MIT License
SugarCrepe | Hsieh et al., 2023 | MIT License
CC3M | Sharma et al., 2018 | Custom (Use with attribution to Google LLC)
CC12M | Changpinyo et al., 2021 | Custom (Use with attribution to Google LLC)
Recap-DataComp-10M | Li et al., 2024b | CC BY 4.0
"""
ROWS = [tuple(line.split(" | ")) for line in PAPER.strip().splitlines()]


def job(**changes: Any) -> LicencesJob:
    """What a scale asks for, under a label that must be escaped."""
    found = Plan(load(ROOT / "params.yaml", "mini")).jobs["table9"]
    assert isinstance(found, LicencesJob)
    return found.model_copy(update={"scale_label": "mini <1>", **changes})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("table9")
    make(job(), {}, out)
    return out


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_papers_rows_come_first_and_equal_it(made: Path) -> None:
    rows = read(made / "table9.csv")
    assert [(row["dataset"], row["license"], row["in_paper"]) for row in rows[:15]] == [
        (dataset, licence, "yes") for dataset, _, licence in ROWS
    ]
    assert [row["dataset"] for row in rows[15:]] == [
        "Flickr8k",
        "CUB-200-2011",
        "VQGAN OpenImages (f=8, Gumbel)",
        "Scenes",
        "Digits",
    ]
    assert {row["in_paper"] for row in rows[15:]} == {"no"} and all(row["license"] for row in rows)


def test_the_long_table_says_all_that_the_registry_knows(made: Path) -> None:
    rows = read(made / "table9_long.csv")
    assert {row["name"] for row in rows} == set(REGISTRY)
    paper = [row for row in rows if row["in_paper"] == "yes"]
    assert [(row["paper_label"], row["citation"], row["paper_licence"]) for row in paper] == ROWS
    assert all(row["equal"] == "yes" and row["licence"] == row["paper_licence"] for row in paper)
    assert {row["equal"] for row in rows[15:]} == {""}
    pets = next(row for row in rows if row["name"] == "pets")
    assert "CC BY-SA 4.0" in pets["its_own_page"] and pets["bytes"] == "811092049"
    assert pets["items"] == "trainval 3,680; test 3,669"


def test_a_difference_from_the_paper_is_shown(tmp_path: Path) -> None:
    (pets,) = [entry for entry in job().entries if entry.name == "pets"]
    make(job(entries=[pets.model_copy(update={"licence": "CC BY-SA 4.0"})]), {}, tmp_path)
    row = read(tmp_path / "table9_long.csv")[0]
    assert (row["equal"], row["licence"], row["paper_licence"]) == ("no", "CC BY-SA 4.0", "CC BY 4.0")


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


def test_files_are_whole_say_their_scale_and_are_repeated_to_the_byte(made: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == sorted(ARTEFACTS["table9"].files)
    make(job(), {}, tmp_path)
    assert all((tmp_path / path.name).read_bytes() == path.read_bytes() for path in made.iterdir())
    for name in ("table9.csv", "table9_long.csv"):
        rows = read(made / name)
        assert list(rows[0])[-1] == "scale" and {row["scale"] for row in rows} == {"mini"}


@pytest.mark.parametrize(
    ("bytes_", "shown"),
    [(None, ""), (502, "502 B"), (999, "999 B"), (1000, "1 kB"), (999_600, "1 MB"), (4996278331, "5 GB")],
)
def test_sizes_for_a_person(bytes_: int | None, shown: str) -> None:
    assert size(bytes_) == shown
