"""The figure of many passes over few pairs: who has seen what, where lines begin, whose losses they are, and what is claimed."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from probing_world import ProbingWorld

from mdc.artefacts import ARTEFACTS
from mdc.jobs.shown import ProbingJob
from mdc.records import UserError, sha256_text, write_json
from mdc.report.figures import repetition
from mdc.report.figures.repetition import Repetition, Seen, times

PAIRS = {"once": 800, "four": 800, "fresh": 3200}
EPOCHS = {"once": 1, "four": 4, "fresh": 1}
SKILL = {"once": 0.4, "four": 0.55, "fresh": 0.7}


class World(ProbingWorld):
    """With a record of each run, whose held-out loss ``losses`` tells."""

    def __init__(self, seeds: tuple[int, ...] = (0,), pairs: Any = None, epochs: Any = None, **more: Any) -> None:
        def skill(corpus: str | None, method: str, probe: str, seed: int) -> float:
            return 0.3 if corpus is None else SKILL[corpus] + 0.1 * (method == "arc")

        super().__init__(
            {corpus: ["mdc", "arc", "clip"] for corpus in PAIRS}, skill, pairs or PAIRS, ("shape", "count"), seeds,
            epochs=epochs or EPOCHS, cls=("clip",), contrasts=[("arc", "mdc")], artefact="figure_repetition", **more
        )  # fmt: skip
        runs = [run for system in self.systems if system["corpus"] for run in system["runs"]]
        self.losses = {run: 1.0 + 0.25 * place for place, run in enumerate(runs)}
        names = [*self.records, *(f"runs/{run}" for run in runs)]
        self.fields = {"inputs": names, "expected": {name: sha256_text(name) for name in names}}

    @property
    def job(self) -> ProbingJob:
        return super().job

    def write(self, folder: Path) -> dict[str, Path]:
        given = super().write(folder)
        for run, loss in self.losses.items():
            name = f"runs/{run}"
            given[name] = folder / name / "run.json"
            given[name].parent.mkdir(parents=True, exist_ok=True)
            objective = "contrastive" if "/clip/" in run else "masked"
            config = {"scale": self.scale, "method": {"objective": objective}}
            told = {"id": name, "config": config, "config_sha256": sha256_text(name)}
            write_json(given[name], {**told, "validation_loss": loss})
        return given


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_who_has_seen_what(tmp_path: Path) -> None:
    made = World()
    found = Repetition(made.job, made.write(tmp_path))
    assert found.seen == {
        "once": Seen(800, 800, False), "four": Seen(800, 3200, False), "fresh": Seen(3200, 3200, True)
    }  # fmt: skip
    assert [found.seen[name].passes for name in PAIRS] == [1, 4, 1]
    lines = found.lines(made.job.systems)
    assert {key: [system.key for system in line] for key, line in lines.items()} == {
        (method, fresh): [f"{corpus}/B/{method}" for corpus in ("once", "fresh" if fresh else "four")]
        for method in ("mdc", "arc", "clip")
        for fresh in (False, True)
    }


def test_its_files(tmp_path: Path) -> None:
    made = World(seeds=(0, 1, 2))
    records, out = made.write(tmp_path / "records"), tmp_path / "out"
    for folder in (out, tmp_path / "again"):
        folder.mkdir()
        repetition.make(made.job, records, folder)
    assert sorted(path.name for path in out.iterdir()) == sorted(ARTEFACTS["figure_repetition"].files)
    for name in ARTEFACTS["figure_repetition"].files:
        assert (out / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    lines = [line for line in read(out / "figure_repetition.csv") if line["dataset"] == "Four"]
    assert {(line["passes"], line["samples_seen"], line["pairs"]) for line in lines} == {("4", "3200", "800")}
    assert {line["benchmark"] for line in lines} == {"Shape", "Count", "Average"}
    losses = {(line["dataset"], line["method"]): line for line in read(out / "figure_repetition_losses.csv")}
    three = [made.losses[f"fresh/B/arc/s{seed}"] for seed in range(3)]
    line = losses["Fresh", "ARC"]
    assert float(line["loss"]) == pytest.approx(sum(three) / 3)
    assert (float(line["low"]), float(line["high"])) == (min(three), max(three))
    claims = [line for line in read(out / "figure_repetition_contrasts.csv") if line["primary"] == "true"]
    assert [(line["dataset"], line["verdict"]) for line in claims] == [(name.title(), "held") for name in PAIRS]
    svg = ElementTree.parse(out / "figure_repetition.svg")
    assert svg.getroot().tag.endswith("svg")


def test_losses_of_captioners_alone_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CLIP's are of pairs in a batch, another unit; a figure of CLIP alone has no such panel."""
    shown: list[tuple[str, list[float]]] = []
    monkeypatch.setattr(
        "matplotlib.axes.Axes.errorbar", lambda self, x, y, **more: shown.append((more["marker"], list(y)))
    )
    monkeypatch.setattr(repetition, "point", lambda *_: None)
    made = World()
    repetition.make(made.job, made.write(tmp_path), tmp_path)
    assert sorted(values for _, values in shown) == sorted(
        [made.losses[f"{corpus}/B/{method}/s0"] for corpus in line]
        for line in (("once", "four"), ("once", "fresh"))
        for method in ("mdc", "arc")
    )


@pytest.mark.parametrize(
    ("pairs", "epochs", "says"),
    [
        (PAIRS, {"once": 4, "four": 4, "fresh": 1}, "runs of once and four both saw 3,200 samples"),
        ({"once": 800, "four": 800, "fresh": 800}, {"once": 1, "four": 2, "fresh": 2}, "four and fresh both saw 1,600"),
    ],
)
def test_two_that_have_seen_the_same_are_refused(tmp_path: Path, pairs: Any, epochs: Any, says: str) -> None:
    made = World(pairs=pairs, epochs=epochs)
    with pytest.raises(UserError, match=says):
        Repetition(made.job, made.write(tmp_path))


def test_a_run_without_its_record_is_told(tmp_path: Path) -> None:
    made = World()
    given = made.write(tmp_path)
    del given["runs/four/B/arc/s0"]
    with pytest.raises(UserError, match="no manifest of runs/four/B/arc/s0 was given"):
        Repetition(made.job, given)


def test_a_run_without_held_out_pairs_is_told(tmp_path: Path) -> None:
    made = World()
    made.losses["once/B/mdc/s0"] = None  # type: ignore[assignment]
    with pytest.raises(UserError, match="runs/once/B/mdc/s0 has no held-out loss; give its corpus held-out pairs"):
        Repetition(made.job, made.write(tmp_path))


def test_passes_are_told_as_they_were_asked_for() -> None:
    assert [times(n) for n in (29920 / 6000, 239360 / 6000, 1.0, 0.5, 2.5, 128)] == [
        "5",
        "40",
        "1",
        "0.5",
        "2.5",
        "128",
    ]
