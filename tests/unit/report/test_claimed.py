"""Claims as the index page shows them: whose they are, and whether they still hold."""

import csv
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.jobs.shown import Statistics
from mdc.plan.records import UserError, read_json, sha256_file, write_json
from mdc.report.csv_file import write_csv
from mdc.report.frame import CLAIMS, read_claims
from mdc.report.index_page import as_markdown, write_index
from mdc.report.tables.comparisons import columns
from mdc.report.words import TOGETHER, claimed

CLAIM = dict.fromkeys(CLAIMS, "") | {
    **{
        "first": "a/mdc",
        "second": "a/arc",
        "dataset": "A",
        "second_dataset": "A",
        "method": "MDC",
        "second_method": "ARC",
    },
    **{
        "label": "Shape",
        "value": "2",
        "low": "1",
        "high": "3",
        "unit": "points",
        "scope": "methods",
        "primary": "True",
    },
    "direction": "supported",
}
SHA256 = "1" * 64
STATISTICS = Statistics(level=0.95, margins={}, power=0.8, bootstrap=500)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def table(results: Path, scale: str, name: str, columns: tuple[str, ...] = CLAIMS, **cells: Any) -> None:
    """A table with one claim, whose copies are of this scale."""
    folder = results / scale / name
    file = folder / f"{name}_contrasts.csv"
    write_csv(file, [CLAIM | {"scale": scale, "artefact": name} | cells], columns)
    config = {"scale": scale, "artefact": name}
    record = {"config": config, "config_sha256": SHA256, "outputs": {file.name: sha256_file(file)}}
    for place in (folder, results):
        write_json(place / f"{name}.json", record)


def index(results: Path, *names: str, sha256: str = SHA256) -> list[str]:
    """The claims of each card on the page of the scale "own"."""
    named = {name: ARTEFACTS[name] for name in names}
    write_index(results / "own", "own", "own", named, results / "index.html", dict.fromkeys(names, sha256), others=True)
    text = (results / "index.html").read_text()
    return re.findall(r"<details>(?:(?!</details>).)*<strong>.*?</details>", text, re.S)


def test_claims_of_another_scale_are_not_this_ones(results: Path) -> None:
    table(results, "own", "table1", first="a/mdc", method="ours")
    table(results, "other", "table5", first="a/mdc", method="theirs")
    table(results, "own", "table4")  # which the scale named once, and its copies are not another's
    (row,) = index(results, "table1")
    page = (results / "index.html").read_text()
    assert "ours" in row and re.findall(r'<article id="(\w+)">', page) == ["table1", "table5"]
    assert re.findall(r"(\d+) claims", page) == ["1"], "so counts their number"
    assert [claim["scale"] for claim in csv.DictReader((results / "own/claims.csv").open())] == ["own"]


def test_a_stale_claim_is_marked(results: Path) -> None:
    table(results, "own", "table1")
    assert "stale" not in index(results, "table1")[0]
    assert "stale" in index(results, "table1", sha256="2" * 64)[0]


@pytest.mark.parametrize(
    ("cells", "comparison", "difference", "verdict"),
    [
        (
            {"value": "-0.1", "low": "-0.21", "high": "0.004", "scope": "checkpoints", "size": "equivalent"},
            *("MDC − ARC, A, Shape", "−0.10 [−0.21, 0.00] points", "supported (checkpoints), equivalent"),
        ),
        (
            {"second_dataset": "B", "second_method": "MDC", "direction": "reversed", "size": "undecided"},
            *("MDC (A) − MDC (B), Shape", "+2.0 [+1.0, +3.0] points", "reversed (methods)"),
        ),
        (
            {"second": "", "condition": "prefix", "low": "", "high": "", "direction": "too few groups"},
            *("MDC, A, prefix, Shape", "+2.0 points", "too few groups (methods)"),
        ),
        (
            {"value": "", "low": "", "high": "", "scope": "", "direction": "not compared"},
            *("MDC − ARC, A, Shape", "–", "not compared"),
        ),
        (
            {"direction": "inconclusive", "size": "equivalent", "detectable": "2.3053"},
            *("MDC − ARC, A, Shape", "+2.0 [+1.0, +3.0] points"),
            "inconclusive (methods), equivalent, minimum detectable 2.3",
        ),
    ],
)
def test_a_claim_is_read_with_its_unit_and_scope(
    cells: dict[str, str], comparison: str, difference: str, verdict: str
) -> None:
    found = claimed(CLAIM | cells)
    assert (found.comparison, found.difference, found.verdict) == (comparison, difference, verdict)


def test_a_page_says_what_could_have_been_detected_and_that_intervals_are_uncorrected(results: Path) -> None:
    table(results, "own", "table1", direction="inconclusive", detectable="2.3053")
    (row,) = index(results, "table1")
    assert "minimum detectable 2.3" in row
    for page in (results / "index.html", results / "own/claims.md"):
        assert TOGETHER in page.read_text()
    assert as_markdown([]) == ""


def test_the_time_before_a_table_is_not_its_own(results: Path) -> None:
    table(results, "own", "table1")
    write_json(results / "own/table1/host.json", {"seconds": 600})
    index(results, "table1")
    (card,) = re.findall("<article.*?</article>", (results / "index.html").read_text(), re.S)
    assert card.count("10 min") == 1


@pytest.mark.parametrize("dataset", ["A", ""])  # a claim over several datasets names none
def test_claimed_columns_come_first_and_one_with_a_gap_stays(results: Path, dataset: str) -> None:
    """Also where their values are equal. Numbers are no labels, though their corpus be in lower case."""
    table(results, "own", "table1", dataset=dataset, second_dataset=dataset)
    rows = [
        {"dataset": "A", "method": m, "small": n, "Colour": n, "A Shape": "7.0"} for m, n in (("X", "1.0"), ("Y", ""))
    ]
    write_csv(results / "own/table1/table1.csv", [row | {"Count": ""} for row in rows], [*rows[0], "Count"])
    write_csv(results / "own/table1/table1_long.csv", rows, ["dataset"])
    index(results, "table1")
    (head,) = re.findall("<thead>.*?</thead>", (results / "index.html").read_text().partition("<details>")[0], re.S)
    assert re.findall(r"<th [^>]*>([^<]*)", head) == ["method", "A Shape", "small", "Colour"]


def test_a_table_of_another_version_is_stale_and_breaks_no_page(results: Path) -> None:
    table(results, "own", "table1", columns=tuple(key for key in CLAIMS if key != "condition"))
    table(results, "own", "table5")
    table(results, "other", "table4", columns=("primary",))
    (row,) = index(results, "table1", "table5")
    cards = re.findall(r'<article id="(\w+)">(.*?)</article>', (results / "index.html").read_text(), re.S)
    assert [name for name, card in cards if row in card] == ["table5"]
    assert [name for name, card in cards if "values or code" in card] == ["table1", "table4"]
    with pytest.raises(UserError, match=r"table1.* written by another version"):
        folder = results / "own/table1"
        read_claims(folder, read_json(folder / "table1.json")["outputs"])


def test_a_column_s_metric_is_not_told_twice() -> None:
    job = SimpleNamespace(reported_separately=[])
    results: Any = SimpleNamespace(job=job, metric={"BLEU-4": "B@4", "shape": "top-1"})
    results.name = {"BLEU-4": "B@4", "shape": "Shape"}.__getitem__
    assert [column.note for column in columns(results, "", ["BLEU-4", "shape"])] == ["", "top-1"]
