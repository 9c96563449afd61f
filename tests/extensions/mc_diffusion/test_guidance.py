"""Kinds of guidance held against each other at equal CIDEr: parallel curves, and curves that share none."""

from pathlib import Path

import pytest
from captioned_world import CaptionedWorld, around
from shown import make, read_rows

from mdc.plan.records import sha256_file
from mdc.report.frame import read_claims
from mdc.report.words import claimed


def _made(folder: Path, shift: float, seeds: int = 1) -> Path:
    """Two curves of three points, the second ``shift`` of CIDEr to the right and 4 points of CLIPScore lower."""
    systems = {
        f"{curve}_{scale}": {
            "CIDEr": [around(40 - 5 * scale + right, 7 * seed + scale, 0.3) for seed in range(seeds)],
            "CLIPScore": [
                around(50 + 5 * scale - low, 90 + 7 * seed + scale + 50 * (curve == "cfg"), 0.3)
                for seed in range(seeds)
            ],
        }
        for curve, right, low in (("mcs", 0.0, 0.0), ("cfg", shift, 4.0))
        for scale in (1, 2, 3)
    }
    world = CaptionedWorld(folder, systems)
    curves = [
        {"key": curve, "label": curve.upper(), "method": curve, "scales": [1.0, 2.0, 3.0]}
        | {"systems": [f"d/{curve}_{scale}" for scale in (1, 2, 3)]}
        for curve in ("mcs", "cfg")
    ]
    job = world.job("mcd_figure3", curves=curves, between=[["mcs", "cfg"]])
    return make(job, world.given, folder / "out")


@pytest.mark.parametrize("seeds", [1, 3])
def test_parallel_curves_are_apart_by_their_heights(tmp_path: Path, seeds: int) -> None:
    out = _made(tmp_path, 0.0, seeds)
    (line,) = read_rows(out / "mcd_figure3_contrasts.csv")
    assert float(line["value"]) == pytest.approx(4, abs=0.15) and line["kind"] == "curves"
    assert (line["first"], line["second"], line["direction"]) == ("mcs", "cfg", "supported")
    assert [float(line["cider_from"]), float(line["cider_to"])] == pytest.approx([25, 35], abs=1e-4)
    levels = read_rows(out / "mcd_figure3.csv")
    assert {(row["curve"], row["guidance"]) for row in levels} == {(c, g) for c in ("mcs", "cfg") for g in "123"}


def test_curves_that_share_no_cider_have_no_value_and_the_figure_says_so(tmp_path: Path) -> None:
    out = _made(tmp_path, 30.0)
    file = out / "mcd_figure3_contrasts.csv"
    (line,) = read_claims(out, {file.name: sha256_file(file)})
    assert (line["first"], line["second"], line["value"], line["cider_from"]) == ("mcs", "cfg", "", "")
    assert claimed(line).verdict == "not compared"
