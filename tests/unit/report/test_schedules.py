"""The figure of the noise schedules, from the runs' manifests and logs to its files."""

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shown import STATISTICS, LoggedRuns, make, read_rows, shown_run

from mdc.plan.jobs.shown import SchedulesJob
from mdc.plan.records import UserError
from mdc.report.csv_file import csv_text
from mdc.report.figures import schedules
from mdc.report.figures.schedule_lines import Track, measure
from mdc.report.frame import CLAIMS, job_cells
from mdc.report.statistics.claims import holm

RANGES = {"mdc_0_100": [0.0, 1.0], "mdc_30_80": [0.3, 0.8], "mdc": [0.5, 1.0]}
NOISE = {"mdc_0_100": 0.12, "mdc_30_80": 0.05, "mdc": 0.04}
LABELS = {"mdc_0_100": "MDC [0.0, 1.0]", "mdc_30_80": "MDC [0.3, 0.8]", "mdc": "MDC"}
WARMUP, EVERY, TOKENS = 30, 10, 400

Log = list[dict[str, Any]]
Rows = list[dict[str, str]]


def log(method: str, seed: int, count: int) -> Log:
    rng = np.random.default_rng([seed, len(method), count])
    lines: Log = []
    for step in range(EVERY, EVERY * count + 1, EVERY):
        loss, norm = 2 + 4 * math.exp(-step / 100), 0.5 + math.exp(-step / 60)
        noise = 1 + NOISE[method] * rng.standard_normal(2)
        wild = {"loss": 50.0, "grad_norm": 40.0} if step <= WARMUP else {}  # must not be counted
        told = {"step": step, "loss": loss * noise[0], "grad_norm": norm * noise[1] ** 2, "tokens": TOKENS}
        lines.append(told | wild)
        if step % 50 == 0:
            lines.append({"step": step, "validation_loss": loss})
    return lines


class Project(LoggedRuns):
    """Runs with logs in a folder, and what is asked of them."""

    def __init__(self, folder: Path, seeds: tuple[int, ...], count: int = 40, clip: float | None = 1.0) -> None:
        super().__init__(folder)
        self.primary = ["short/mdc_0_100", "short/mdc_30_80"]
        config = {"method": {"weight": "inverse_t", "normaliser": "valid_tokens"}}
        config |= {"protocol": {"pretrain": {"least_t": 1e-3}}}
        for method in RANGES:
            for seed in seeds:
                more = {"method": {"key": method, "label": LABELS[method]}, "t_range": RANGES[method]}
                run = shown_run("short", method, seed, warmup_steps=WARMUP, clip_norm=clip, **more)
                self.add(run, log(method, seed, count), **config)

    @property
    def job(self) -> SchedulesJob:
        return self.asked("figure_schedules", reference="mdc", primary=self.primary, statistics=STATISTICS)  # type: ignore[no-any-return]

    def lines(self, method: str, seed: int) -> Log:
        return [json.loads(line) for line in self.log_of(f"runs/short/B/{method}/s{seed}").read_text().splitlines()]

    def edit(self, method: str, seed: int, change: Callable[[Log], Log]) -> None:
        self.log(f"runs/short/B/{method}/s{seed}", change(self.lines(method, seed)))

    def tracks(self) -> list[Track]:
        job = self.job
        return [Track.of(run, job, self.given) for run in job.runs]

    def rows(self) -> tuple[Rows, Rows]:
        """The lines of both csv files, without a drawing: the numbers, and their ratios to the reference."""
        lines = measure(self.tracks(), self.job)
        levels = schedules.levels(lines, self.job)
        ratios = [job_cells(self.job) | line.ratio.cells() for line in lines if line.ratio]
        texts = csv_text(levels, list(levels[0])), csv_text(ratios, CLAIMS)
        numbers, against = (list(csv.DictReader(io.StringIO(text))) for text in texts)
        return numbers, against

    def make(self) -> Rows:
        return read_rows(make(self.job, self.given, self.out) / "figure_schedules.csv")


def of(rows: Rows, statistic: str, method: str) -> dict[str, str]:
    (found,) = [row for row in rows if (row["column"], row["method"]) == (statistic, LABELS[method])]
    return found


def factor(row: dict[str, str], key: str = "value") -> float:
    """Of the logarithm of a ratio."""
    return math.exp(float(row[key]))


def test_the_noise_put_in_comes_out_without_the_warm_up(tmp_path: Path) -> None:
    rows, ratios = Project(tmp_path, (0, 1, 2, 3), count=200).rows()
    assert list(dict.fromkeys(row["method"] for row in rows)) == [LABELS[name] for name in RANGES], "as in the table"
    for method, noise in NOISE.items():
        row = of(rows, "loss_cv", method)
        assert float(row["value"]) == pytest.approx(noise, rel=0.1)
        assert (row["interval"], row["scope"], row["seeds"], row["logged_steps"]) == ("seeds", "methods", "4", "197")
        assert [float(row["t_low"]), float(row["t_high"])] == RANGES[method]
        assert float(of(rows, "grad_norm_largest_over_median", method)["value"]) < 2  # the warm-up's 40 is not counted
    told = of(ratios, "loss_cv", "mdc_0_100")
    assert factor(told) == pytest.approx(3, rel=0.1)
    assert told["direction"] == "supported" and factor(told, "low") > 2
    ratio = of(ratios, "loss_cv", "mdc_30_80")
    values = [float(of(rows, "loss_cv", method)["value"]) for method in ("mdc_30_80", "mdc")]
    assert factor(ratio) == pytest.approx(values[0] / values[1], rel=1e-4)
    assert {row["second_method"] for row in ratios} == {LABELS["mdc"]} and not [
        r for r in ratios if r["first"] == r["second"]
    ]


def test_every_number_follows_from_the_log_by_hand(tmp_path: Path) -> None:
    project = Project(tmp_path, (0,))
    rows, ratios = project.rows()
    counted = [line for line in project.lines("mdc", 0) if "loss" in line and line["step"] > WARMUP]
    for name in ("loss", "grad_norm"):
        logged = np.array([line[name] for line in counted])
        middle = (logged[:-2] + logged[2:]) / 2 - logged[1:-1]
        variance = float(of(rows, f"{name}_variance", "mdc")["value"])
        assert variance == pytest.approx((middle**2).mean() / 1.5, rel=1e-5)
    share = of(rows, "grad_norm_share_over_clip", "mdc")
    assert float(share["value"]) == pytest.approx((logged > 1.0).mean(), rel=1e-5)
    assert (share["interval"], share["scope"]) == ("steps", "checkpoints")
    expected = math.sqrt((2 * math.log(2) - 1) / TOKENS)  # E[1/t] of [0.5, 1] is ln 4
    assert float(of(rows, "loss_cv", "mdc")["expected"]) == pytest.approx(expected, rel=1e-5)
    assert of(rows, "loss_cv", "mdc")["interval"] == "steps"
    # nothing can be said of the largest of one run
    largest = of(rows, "grad_norm_largest_over_median", "mdc_0_100")
    assert largest["low"] == largest["high"] == of(ratios, "grad_norm_largest_over_median", "mdc_0_100")["p"] == ""


def test_loss_and_gradient_norm_of_the_schedules_that_are_named_have_verdicts(tmp_path: Path) -> None:
    project = Project(tmp_path, (0, 1, 2))
    _, rows = project.rows()
    told = [row for row in rows if row["primary"] == "True"]
    assert [(row["method"], row["column"]) for row in told] == [
        (LABELS[method], statistic)
        for method in ("mdc_0_100", "mdc_30_80")
        for statistic in ("loss_cv", "grad_norm_cv")
    ]
    assert [float(row["p_holm"]) for row in told] == pytest.approx(holm([float(row["p"]) for row in told]), rel=1e-4)
    for row in told:
        sure, ratio = float(row["p_holm"]) < 0.05, float(row["value"])
        assert row["direction"] == (("supported" if ratio > 0 else "reversed") if sure else "inconclusive")
        assert row["size"] == row["margin"] == "", "no margin of a ratio was named"
    others = [row for row in rows if row["primary"] == "False"]
    assert {row[key] for row in others for key in ("p", "p_holm", "direction", "detectable")} == {""}
    assert any(row["low"] for row in others), "the others have their intervals"
    project.primary = ["short/mdc_30_80"]
    assert [row["method"] for row in project.rows()[1] if row["primary"] == "True"] == [LABELS["mdc_30_80"]] * 2
    project.primary = []
    assert {row["direction"] for row in project.rows()[1]} == {""}


def test_the_curves_are_the_logs_run_after_run(tmp_path: Path) -> None:
    project = Project(tmp_path, (0, 3))
    assert of(project.make(), "loss_cv", "mdc")["seeds"] == "2"
    shown = [tuple(row.values()) for row in read_rows(project.out / "figure_schedules_curves.csv")]
    keys = ("step", "loss", "grad_norm")
    logged = [
        (
            *("mini", "figure_schedules", f"short/B/{method}", "Corpus short", "ViT-B", LABELS[method], str(seed)),
            *(f"{line[key]:.6g}" for key in keys),
            f"runs/short/B/{method}/s{seed}",
        )
        for method in RANGES
        for seed in (0, 3)
        for line in project.lines(method, seed)
        if "loss" in line
    ]
    assert shown == logged


def test_what_cannot_be_told_is_said_with_what_could_have_been(tmp_path: Path) -> None:
    project = Project(tmp_path, (0, 1, 2))
    tracks = project.tracks()
    reference = {track.run.seed: track for track in tracks if track.method == "mdc"}
    # every schedule varies as the reference does, by draws of another seed
    alike = [t if t.method == "mdc" else replace(reference[(t.run.seed + 1) % 3], run=t.run) for t in tracks]
    lines = measure(alike, project.job)
    told = schedules._note(lines, project.job, 3)
    for statistic in ("loss_cv", "grad_norm_cv"):
        line = next(x for x in lines if (x.run.method.key, x.statistic) == ("mdc_0_100", statistic))
        decision = line.ratio and line.ratio.decision
        assert decision and decision.direction == "inconclusive" and decision.detectable is not None
        assert f"inconclusive (methods), minimum detectable {math.exp(decision.detectable):.2f}×" in told
    assert told.count("MDC [0.0, 1.0] − MDC") == 2, "a sentence for each claim, and the others in the picture"


def test_without_clipping_or_tokens_nothing_is_said_of_them(tmp_path: Path) -> None:
    project = Project(tmp_path, (0,), clip=None)
    for method in RANGES:
        project.edit(method, 0, lambda lines: [{k: v for k, v in x.items() if k != "tokens"} for x in lines])
    rows = project.make()
    assert not [row for row in rows if row["column"] == "grad_norm_share_over_clip" or row["expected"]]


def every(**changes: float) -> Callable[[Log], Log]:
    return lambda lines: [{**line, **changes} if "loss" in line else line for line in lines]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda p: p.edit("mdc", 0, lambda lines: [*lines[:3], {"step": 40, "loss": 1.0}]),
            r"mdc/s0: step 40 has no grad_norm",
        ),
        (
            lambda p: p.edit("mdc", 1, lambda lines: lines[:-3]),
            r"mdc_0_100/s0 has 40 logged steps up to 400 and runs/short/B/mdc/s1 has 38 logged steps up to 380",
        ),
        (
            lambda p: [run.update(warmup_steps=385) for run in p.runs],
            "has 2 logged steps after its warm-up of 385; needed: 3, and 12 for an interval",
        ),
        (lambda p: p.edit("mdc", 0, every(loss=1.0)), "never varies"),
        (lambda p: p.edit("mdc", 0, every(loss=0.0)), "runs/short/B/mdc/s0: stability: a level of 0"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    tmp_path: Path, spoil: Callable[[Project], Any], words: str
) -> None:
    project = Project(tmp_path, (0, 1))
    spoil(project)
    with pytest.raises(UserError, match=words):
        project.make()
    assert not project.out.exists()
