"""The headline numbers: what `dvc metrics` shows of a table."""

from __future__ import annotations

from dataclasses import replace

from mdc.report.lines import Number
from mdc.report.tables.headline import headline

NUMBER = Number(
    scale="mini",
    table="table1",
    dataset="Alt-text",
    backbone="ViT-T/8",
    method="MDC",
    method_key="mdc",
    pooling="patch_mean",
    seeds="0 1",
    benchmark="Average",
    metric="mean",
    value=45.678,
    low=44.0,
    high=47.0,
    interval="95 %",
    n=100,
    chance=10.0,
    gain=-1.234,
    gain_low=-2.0,
    gain_high=0.0,
    pairs=8000,
    steps=250,
    run="alt/ViT-T-8/mdc/s0 alt/ViT-T-8/mdc/s1",
    published=None,
)


def test_one_entry_an_encoder_whatever_its_seeds_and_nothing_but_averages() -> None:
    numbers = [
        NUMBER,
        replace(NUMBER, benchmark="Shape", value=1.0),
        replace(NUMBER, run="dense/ViT-T-8/clip/s0", value=50.0, gain=0.005),
        replace(NUMBER, run="untrained/ViT-T-8/cls/s0", gain=None),
    ]
    assert headline(numbers) == {
        "alt/ViT-T-8/mdc": {"average": 45.68, "gain": -1.23},
        "dense/ViT-T-8/clip": {"average": 50.0, "gain": 0.01},
    }
