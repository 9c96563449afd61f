"""Kept quality under distortion: what lies above the same captioner on other images, and nothing for one that has none."""

from pathlib import Path
from typing import Any

import pytest
from captioned_world import CaptionedWorld, around
from shown import make, read_rows

from mdc.extensions.blog.figures.robustness import curves_of, kept
from mdc.report.caption_numbers import Captioned
from mdc.report.words import claimed

#: captioner → its mean quality on untouched images, at the strongest distortion, and on other images
QUALITY = {
    "steady": (60.0, 50.0, 20.0),
    "steep": (80.0, 30.0, 20.0),
    "lost": (50.0, 20.0, 20.0),
    "deaf": (55.0, 55.0, 55.0),
}


def world(folder: Path, seeds: int = 1, without: str = "") -> tuple[Any, Any]:
    """The figure's job and its manifests: all captioners but ``without`` have a control."""
    systems = {
        f"{name}{end}": {"CIDEr": [around(mean, 100 * seed + 10 * place + number) for seed in range(seeds)]}
        for number, (name, means) in enumerate(QUALITY.items())
        for place, (end, mean) in enumerate(zip(("", "_worst", "_other"), means, strict=True))
    }
    # one that ignores its image writes the same for every image
    systems |= {f"deaf{end}": systems["deaf"] for end in ("_worst", "_other")}
    made = CaptionedWorld(folder, systems, {name: f"{name}_other" for name in QUALITY})
    curves = [
        {"key": name, "label": name.title(), "kind": "noise", "kind_label": "Noise", "method": name, "backbone": "B"}
        | {"systems": [f"d/{name}", f"d/{name}_worst"], "control": None if name == without else f"d/{name}_other"}
        for name in QUALITY
    ]
    between = [["steady", "steep"], ["steady", "lost"], ["deaf", "steady"], ["steep", "deaf"]]
    return made.job("figure_robustness", curves=curves, between=between, claimed=["noise"]), made.given


def test_what_is_kept_is_of_the_quality_above_other_images(tmp_path: Path) -> None:
    job, given = world(tmp_path)
    found = Captioned(job, given)
    for curve in curves_of(job):
        share = kept(found, curve, "CIDEr")
        own, worst, other = QUALITY[curve.key]
        if curve.key == "deaf":
            assert share is None, "nothing above other images can be kept: it is no 100 %"
        else:
            assert share is not None
            assert share.values[0, 0] == pytest.approx(100 * (worst - other) / (own - other), abs=1e-6)


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_captioner_that_ignores_its_image_is_below_control(tmp_path: Path, seeds: int) -> None:
    out = make(*world(tmp_path, seeds), tmp_path / "out")
    lines, deaf = by_verdict(out, "below control")
    assert deaf == [("d/deaf", "d/steady"), ("d/steep", "d/deaf")]
    assert [(line["first"], line["second"]) for line in lines] == [("d/steady", "d/steep"), ("d/steady", "d/lost")]
    scope = "methods" if seeds == 3 else "checkpoints"
    for line, expected in zip(lines, (75 - 100 / 6, 75.0), strict=True):
        assert float(line["value"]) == pytest.approx(expected, abs=0.01)
        assert (line["kind"], line["condition"], line["unit"]) == ("kept", "noise", "points")
        assert (line["direction"], line["scope"], line["primary"]) == ("supported", scope, "True")
        assert float(line["low"]) < float(line["value"]) < float(line["high"])


def test_without_a_control_nothing_is_compared(tmp_path: Path) -> None:
    out = make(*world(tmp_path, without="steep"), tmp_path / "out")
    lines, without = by_verdict(out, "not compared")
    assert [line["second"] for line in lines if line["value"]] == ["d/lost"] and ("d/steady", "d/steep") in without


def by_verdict(out: Path, direction: str) -> tuple[list[dict[str, str]], list[tuple[str, str]]]:
    """The lines of other claims, and the sides of those without a value, whose direction is this."""
    lines = read_rows(out / "figure_robustness_contrasts.csv")
    none = [line for line in lines if line["direction"] == direction]
    assert not any(line[key] for line in none for key in ("value", "low", "interval", "scope", "size"))
    assert {line["p_holm"] for line in none} == {"1" if direction == "below control" else ""}, "whether it counts"
    assert all(claimed(line).verdict == direction for line in none)
    return [line for line in lines if line not in none], [(line["first"], line["second"]) for line in none]
