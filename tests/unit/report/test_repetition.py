"""The figure of many passes over few pairs: who has seen what, where lines begin, whose losses they are, and what is claimed."""

from pathlib import Path
from typing import Any

import pytest
from probing_world import REPEATED, RepeatedWorld
from shown import read_rows

from mdc.plan.records import UserError
from mdc.report.figures import repetition
from mdc.report.figures.repetition import Exposure, Repetition, times


def test_who_has_seen_what(tmp_path: Path) -> None:
    made = RepeatedWorld()
    found = Repetition(made.job, made.write(tmp_path))
    assert found.seen == {
        "once": Exposure(800, 800, False), "four": Exposure(800, 3200, False), "fresh": Exposure(3200, 3200, True)
    }  # fmt: skip
    assert [found.seen[name].passes for name in REPEATED] == [1, 4, 1]
    lines = found.lines(made.job.systems)
    assert {key: [system.key for system in line] for key, line in lines.items()} == {
        (method, fresh): [f"{corpus}/B/{method}" for corpus in ("once", "fresh" if fresh else "four")]
        for method in ("mdc", "arc", "clip")
        for fresh in (False, True)
    }


def test_its_files(tmp_path: Path) -> None:
    made = RepeatedWorld(seeds=(0, 1, 2, 3, 4))
    out = made.make(tmp_path)
    lines = [line for line in read_rows(out / "figure_repetition.csv") if line["dataset"] == "Four"]
    assert {(line["passes"], line["samples_seen"], line["pairs"]) for line in lines} == {("4", "3200", "800")}
    assert {line["label"] for line in lines} == {"Shape", "Count", "Average"}
    losses = {(line["dataset"], line["method"]): line for line in read_rows(out / "figure_repetition_losses.csv")}
    five = [made.losses[f"fresh/B/arc/s{seed}"] for seed in range(5)]
    line = losses["Fresh", "ARC"]
    assert float(line["loss"]) == pytest.approx(sum(five) / 5)
    assert (float(line["least"]), float(line["greatest"])) == (min(five), max(five))
    claims = [line for line in read_rows(out / "figure_repetition_contrasts.csv") if line["primary"] == "True"]
    assert [(line["dataset"], line["direction"]) for line in claims] == [
        (name.title(), "supported") for name in REPEATED
    ]


def test_losses_of_captioners_alone_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CLIP's are of pairs in a batch, another unit; a figure of CLIP alone has no such panel."""
    shown: list[list[float]] = []
    monkeypatch.setattr(
        repetition, "error_bars", lambda panel, x, numbers, *_, **more: shown.append([one[0] for one in numbers])
    )
    made = RepeatedWorld()
    repetition.make(made.job, made.write(tmp_path), tmp_path)
    assert sorted(shown) == sorted(
        [made.losses[f"{corpus}/B/{method}/s0"] for corpus in line]
        for line in (("once", "four"), ("once", "fresh"))
        for method in ("mdc", "arc")
    )


@pytest.mark.parametrize(
    ("pairs", "epochs", "says"),
    [
        (None, {"once": 4, "four": 4, "fresh": 1}, "runs of once and four both saw 3,200 samples"),
        ({"once": 800, "four": 800, "fresh": 800}, {"once": 1, "four": 2, "fresh": 2}, "four and fresh both saw 1,600"),
    ],
)
def test_two_that_have_seen_the_same_are_refused(tmp_path: Path, pairs: Any, epochs: Any, says: str) -> None:
    made = RepeatedWorld(pairs=pairs, epochs=epochs)
    with pytest.raises(UserError, match=says):
        Repetition(made.job, made.write(tmp_path))


def test_a_run_without_held_out_pairs_is_told(tmp_path: Path) -> None:
    made = RepeatedWorld()
    made.losses["once/B/mdc/s0"] = None  # type: ignore[assignment]
    with pytest.raises(UserError, match="runs/once/B/mdc/s0 has no held-out loss; give its corpus held-out pairs"):
        Repetition(made.job, made.write(tmp_path))


def test_passes_are_told_as_they_were_asked_for() -> None:
    asked = (29920 / 6000, 239360 / 6000, 1.0, 0.5, 2.5, 128)
    assert [times(n) for n in asked] == ["5", "40", "1", "0.5", "2.5", "128"]
