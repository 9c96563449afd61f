"""The benches' rows and the one table of them: what is refused, what is kept, and that every bench tells of itself."""

import csv
import sys
from pathlib import Path

import every
import pytest
import rows
import table
from PIL import Image
from read_table import read_table
from rows import Row
from shown import page
from turns import in_turns

from mdc.plan.records import UserError

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture(autouse=True)
def _called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bench/step.py", "--quick"])


def row(what: str = "a step", peer: str = "the peer", ours: float = 4.0, theirs: float = 2.0) -> Row:
    return rows.compared(what, peer, "images/s", [ours, 2 * ours, ours], [theirs, theirs, theirs], "fp32, 1 thread")


def test_ratio_is_the_median_of_the_rounds_own_and_above_one_where_ours_is_better() -> None:
    rate = rows.compared("a", "p", "images/s", [10, 30, 20], [10, 10, 5])
    assert (rate.ours, rate.theirs, rate.ratio, rate.low, rate.high) == (20, 10, 3, 1, 4)
    cost = rows.compared("a", "p", "s", [1, 2, 4], [4, 4, 4])
    assert (cost.ours, cost.ratio, cost.low, cost.high, cost.repeats) == (2, 2, 1, 4, 3)
    for ours, theirs in (([1.0], [1.0, 2.0]), ([], [])):
        with pytest.raises(UserError, match="as many of each"):
            rows.compared("a", "p", "s", ours, theirs)
    assert rate.command == "python bench/step.py --quick" and rate.machine and rate.versions["torch"]


@pytest.mark.parametrize(("change", "why"), read_table(__file__, "wrong"))
def test_wrong_rows_are_refused_in_one_line(change: dict[str, object], why: str) -> None:
    rows.checked(row().model_dump(), "here")
    with pytest.raises(UserError, match=rf"^here: .*{why}"):
        rows.checked(row().model_dump() | change, "here")


def test_a_row_is_replaced_by_its_successor_and_other_machines_stay(tmp_path: Path) -> None:
    elsewhere = rows.checked(row().model_dump() | {"machine": "another"}, "x")
    rows.write("step", [elsewhere, row(), rows.failure("step", "it broke")], tmp_path)
    rows.write("step", [row(ours=8.0), row("b")], tmp_path)
    found = rows.read(tmp_path / "rows/step.json")
    assert [(r.what, r.ratio, r.machine == "another") for r in found] == [
        ("a step", 2, True),
        ("a step", 4, False),
        ("b", 2, False),
    ]


def test_files_that_hold_no_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows/step.json"
    with pytest.raises(UserError, match="no rows; `make bench`"):
        table.read(tmp_path)
    rows.write("step", [row()], tmp_path)
    (tmp_path / "rows/holiday.json").write_text('{"rows": []}')
    with pytest.raises(UserError, match="no bench is called so"):
        table.read(tmp_path)
    (tmp_path / "rows/holiday.json").unlink()
    for text, why in (('{"rows": 3}', "a list of rows"), ('{"rows": [{"what": "x"}]}', "row 1: ")):
        path.write_text(text)
        with pytest.raises(UserError, match=why):
            table.read(tmp_path)


def test_the_table_says_everything_that_the_rows_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    why = "<no environment>; run `make .coca/.ready`"
    rows.write("pipeline", [rows.alone("all of it", "s", [812.5])], tmp_path)
    table.write(tmp_path)
    assert not (tmp_path / "bench.png").exists() and (tmp_path / "bench.html").exists(), "without a comparison"
    rows.write("caption", [rows.missing("captions", "coca.generate", why)], tmp_path)
    elsewhere = rows.checked(row().model_dump() | {"machine": "an H200"}, "x")
    rows.write("step", [row(), elsewhere], tmp_path)
    capsys.readouterr()
    table.write(tmp_path)
    with (tmp_path / "bench.csv").open(encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert list(lines[0]) == list(table.COLUMNS)
    assert [(line["area"], line["what"], line["peer"], line["ratio"]) for line in lines] == [
        ("Training", "a step", "the peer", "2.0"),
        ("Training", "a step", "the peer", "2.0"),
        ("Writing captions", "captions", "coca.generate", ""),
        ("The whole pipeline", "all of it", "", ""),
    ]
    assert lines[2]["missing"] == why and lines[1]["machine"] == "an H200" and lines[3]["ours"] == "812.5"
    assert (lines[0]["low"], lines[0]["high"], lines[0]["repeats"]) == ("2.0", "4.0", "3")
    whole = page(tmp_path / "bench.html")
    assert {sum(int(cell.get("colspan", 1)) for cell in line) for line in whole.iter("tr")} == {8}
    text = "".join(whole.itertext())
    for said in (
        "a step",
        "coca.generate",
        f"not measured: {why}",
        "[2.00, 4.00]",
        "an H200",
        "python bench/step.py --quick",
    ):
        assert said in text
    with Image.open(tmp_path / "bench.png") as picture:
        assert picture.size[0] > 1000
    assert f"not measured: {why}" in capsys.readouterr().out


@pytest.mark.parametrize(("value", "shown"), read_table(__file__, "numbers"))
def test_numbers_have_three_digits(value: float | None, shown: str) -> None:
    assert table.number(value) == shown


def test_a_bench_that_breaks_down_leaves_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows.write("step", [row(), rows.checked(row().model_dump() | {"machine": "another"}, "x")], tmp_path)
    monkeypatch.setattr(every, "__file__", str(tmp_path / "every.py"))
    (tmp_path / "step.py").write_text("raise SystemExit(3)")
    assert not every.run_bench("step", ["--quick"], tmp_path)
    kept, broken = rows.read(tmp_path / "rows/step.json")
    assert kept.machine == "another" and broken.what == "bench/step.py"
    assert broken.missing == "it ended with code 3; run `python bench/step.py --quick` to see why"
    (tmp_path / "step.py").write_text("")
    assert every.run_bench("step", [], tmp_path) and rows.read(tmp_path / "rows/step.json") == [kept]


def test_ways_take_turns_at_going_first() -> None:
    went: list[str] = []
    clock = iter(range(100))
    ways = {name: lambda name=name: went.append(name) for name in "abc"}
    found = in_turns(ways, 4, clock=lambda: float(next(clock)))
    assert "".join(went) == "abc" + "abc" + "bca" + "cab" + "abc"
    assert found == {name: [1.0] * 4 for name in "abc"}


def test_every_bench_that_is_run_is_there_and_in_the_table() -> None:
    assert set(every.BENCHES) <= set(table.AREAS) <= {path.stem for path in BENCH.glob("*.py")}
    told = (BENCH.parent / "docs/bench.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in told for name in table.AREAS), "docs/bench.md says how each was made fair"
