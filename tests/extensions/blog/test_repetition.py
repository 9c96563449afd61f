"""The figure of many passes over few pairs: where lines begin, its files, and what is claimed."""

from pathlib import Path
from typing import Any

import pytest
from probing_world import REPEATED, RepeatedWorld
from shown import read_rows

from mdc.extensions.blog.figures.repetition import times
from mdc.plan.records import UserError
from mdc.report.figures import accuracy_panels
from mdc.report.results import Results


def test_lines_of_repeated_and_of_fresh_pairs_start_at_the_shortest_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[tuple[str, str], list[str]] = {}

    def draw(results: Results, *_: Any, at: Any, lines: Any, **more: Any) -> None:
        for number in sorted((n for n in results.numbers if n.pairs and n.column == "shape"), key=at):
            for line in lines(number):
                drawn.setdefault(line, []).append(number.system.key)

    monkeypatch.setattr(accuracy_panels, "draw", draw)
    RepeatedWorld().make(tmp_path)
    assert drawn == {
        (method, style): [f"{corpus}/B/{method}" for corpus in ("once", second)]
        for method in ("mdc", "arc", "clip")
        for style, second in (("-", "four"), ("--", "fresh"))
    }


def test_its_files(tmp_path: Path) -> None:
    made = RepeatedWorld(seeds=(0, 1, 2, 3, 4))
    out = made.make(tmp_path)
    lines = [line for line in read_rows(out / "figure_repetition.csv") if line["dataset"] == "Four"]
    assert {(line["passes"], line["samples_seen"], line["pairs"]) for line in lines} == {("4", "3200", "800")}
    assert {line["label"] for line in lines} == {"Shape", "Count", "Average"}
    claims = [line for line in read_rows(out / "figure_repetition_contrasts.csv") if line["primary"] == "True"]
    assert [(line["dataset"], line["direction"]) for line in claims] == [
        (name.title(), "supported") for name in REPEATED
    ]


@pytest.mark.parametrize(
    ("pairs", "epochs", "says"),
    [
        (None, {"once": 4, "four": 4, "fresh": 1}, "once and four saw as many samples"),
        (
            {"once": 800, "four": 800, "fresh": 800},
            {"once": 1, "four": 2, "fresh": 2},
            "four and fresh saw as many samples",
        ),
    ],
)
def test_two_that_have_seen_the_same_are_refused(tmp_path: Path, pairs: Any, epochs: Any, says: str) -> None:
    made = RepeatedWorld(pairs=pairs, epochs=epochs)
    with pytest.raises(UserError, match=says):
        made.make(tmp_path)


def test_passes_are_told_as_they_were_asked_for() -> None:
    asked = (29920 / 6000, 239360 / 6000, 1.0, 0.5, 2.5, 128)
    assert [times(n) for n in asked] == ["5", "40", "1", "0.5", "2.5", "128"]
