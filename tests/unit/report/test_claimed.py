"""Claims as the index page shows them: whose they are, and whether they still hold."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.records import sha256_file, write_json
from mdc.report.csv_file import write_csv
from mdc.report.frame import CLAIMS
from mdc.report.index_page import write_index

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
    """The rows of the claims on the page of the scale "own"."""
    named = {name: ARTEFACTS[name] for name in names}
    write_index(results / "own", "own", "own", named, results / "index.html", dict.fromkeys(names, sha256), others=True)
    text = (results / "index.html").read_text()
    return re.findall(r"<tr>(?:(?!</tr>).)*<strong>.*?</tr>", text, re.S)


def test_claims_of_another_scale_are_not_this_ones(results: Path) -> None:
    table(results, "own", "table1", first="a/mdc", method="ours")
    table(results, "other", "table5", first="a/mdc", method="theirs")
    (row,) = index(results, "table1")
    assert "ours" in row and 'id="table5"' in (results / "index.html").read_text()
    assert [claim["scale"] for claim in csv.DictReader((results / "own/claims.csv").open())] == ["own"]


def test_a_stale_claim_is_marked(results: Path) -> None:
    table(results, "own", "table1")
    assert "stale" not in index(results, "table1")[0]
    assert "stale" in index(results, "table1", sha256="2" * 64)[0]
