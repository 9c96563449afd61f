"""Figure 4: its numbers against the records, and what its panels show."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from probing_world import ProbingWorld
from shown import read_rows, runs_of

from mdc.report.figures import accuracy_panels

RATIOS = {"bert_90": 0.9, "bert_15": 0.15, "bert_55": 0.55, "parallel": 1.0}  # in no order
SKILL = {"bert_90": 0.6, "bert_15": 0.5, "bert_55": 0.62, "parallel": 0.55, "mdc": 0.65, "arc": 0.58, "untrained": 0.4}
CORPORA = {"alt": [*RATIOS, "mdc"], "dense": [*RATIOS, "mdc", "arc"]}


STYLES = {"bert_15": ("#B79FD3", "<"), "mdc": ("#009E73", "o")}


def world(
    untrained: float = SKILL["untrained"], corpora: Mapping[str, Sequence[str]] = CORPORA, **given: Any
) -> ProbingWorld:
    def skill(corpus: str | None, method: str, probe: str, seed: int) -> float:
        return SKILL[method] + 0.01 * seed + 0.05 * (corpus == "dense") if corpus else untrained

    ranges = {method: (ratio, ratio) for method, ratio in RATIOS.items()} | {"mdc": (0.5, 1.0)}
    contrasts = [("mdc", method) for method in RATIOS]
    return ProbingWorld(
        corpora,
        skill,
        ranges=ranges,
        contrasts=contrasts,
        **{"artefact": "figure4", "styles": [(key, *style) for key, style in STYLES.items()], **given},
    )


def panels_of(made: ProbingWorld, out: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The panels that a figure draws, as matplotlib's objects."""
    drawn = []

    @contextmanager
    def kept(*given: Any) -> Iterator[Any]:
        with drawing(*given) as figure:
            yield figure
            drawn.append(figure)

    drawing = accuracy_panels.drawing
    monkeypatch.setattr(accuracy_panels, "drawing", kept)
    made.make(out)
    return list(drawn[0].axes)


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_every_number_has_its_ratios_and_is_that_of_its_records(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    made = world(probes=("shape", "colour"), seeds=seeds)
    out = made.make(tmp_path)
    lines = read_rows(out / "figure4.csv")
    assert {line["published"] for line in lines} == {""}, "the paper only draws it"
    assert len(lines) == 2 * (1 + 5 + 6), "two probes, the untrained encoder once, and no average"
    runs = runs_of(out, "figure4")
    for line in lines:
        values = [made.value(run, line["column"]) for run in runs[line["system"]]]
        assert len(values) == len(seeds)
        assert float(line["value"]) == pytest.approx(sum(values) / len(values), rel=1e-5)
        ratios = {"MDC": ("50", "100"), "ARC": ("", ""), "untrained": ("", ""), "PARALLEL": ("100",) * 2}
        fixed = {f"BERT_{share}": (f"{share}",) * 2 for share in (15, 55, 90)}
        assert (line["mask_ratio_low"], line["mask_ratio_high"]) == (ratios | fixed)[line["method"]]
    contrasts = read_rows(out / "figure4_contrasts.csv")
    assert len(contrasts) == 2 * (2 * 4 + 11), "each ratio in each corpus, and each encoder against its initial weights"
    primary = [line for line in contrasts if line["primary"] == "True"]
    assert len(primary) == 6 and {line["label"] for line in primary} == {"Shape"}
    assert {line["p"] == "" for line in contrasts if line not in primary} == {True}


def test_fixed_ratios_are_a_curve_and_drawn_ones_a_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    alt, dense = panels_of(made, tmp_path, monkeypatch)
    assert (alt.get_title(loc="left"), dense.get_title(loc="left")) == ("Alt", "Dense")
    assert alt.get_ylim() == dense.get_ylim() and alt.get_ylabel() == "Shape, top-1 (%)"
    assert alt.get_xlabel() == "mask ratio (%)" and list(alt.get_xticks()) == [15, 55, 90, 100]
    for panel, corpus in ((alt, "alt"), (dense, "dense")):
        value = {m: made.value(f"{corpus}/B/{m}/s0", "shape") for m in CORPORA[corpus]}
        lines = [(list(map(float, line.get_xdata())), line) for line in panel.get_lines()]
        (curve,) = [line for x, line in lines if x == [15, 55, 90, 100]]
        expected = [value[method] for method in ("bert_15", "bert_55", "bert_90", "parallel")]
        assert list(curve.get_ydata()) == pytest.approx(expected)
        points = {point.get_xdata()[0]: point for x, point in lines if len(x) == 1}
        assert sorted(points) == [15, 55, 90, 100], "methods without a fixed ratio are a level"
        for method in RATIOS:
            point = points[round(100 * RATIOS[method], 6)]
            assert point.get_ydata()[0] == pytest.approx(value[method])
            if method in STYLES:
                assert (point.get_color(), point.get_marker()) == STYLES[method]
        thick = [line.get_ydata()[0] for x, line in lines if x == [50, 100]]
        assert thick == [pytest.approx(value["mdc"])], "over the ratios that it draws"
    legend = {text.get_text() for text in alt.figure.legends[0].get_texts()}
    assert legend == {"BERT_15", "BERT_55", "BERT_90", "PARALLEL", "MDC", "ARC", "untrained, mean of patches"}


@pytest.mark.parametrize("panels", [2, 3])
def test_no_two_ratios_below_a_panel_touch(panels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(corpora={corpus: [*RATIOS, "mdc"] for corpus in ("alt", "dense", "brief")[:panels]})
    for panel in panels_of(made, tmp_path, monkeypatch):
        panel.figure.canvas.draw()
        labels = panel.get_xticklabels()
        assert [label.get_text() for label in labels] == ["15", "55", "90", "100"]
        boxes = [label.get_window_extent() for label in labels]
        assert all(b.x0 - a.x1 > 3 for a, b in itertools.pairwise(boxes)), "three pixels at least"


def test_an_untrained_encoder_far_below_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near = world()
    told = near.value("untrained/B/patch_mean/s0", "shape")
    for panel in panels_of(near, tmp_path, monkeypatch):
        dotted = [line for line in panel.get_lines() if line.get_ydata()[0] == pytest.approx(told)]
        assert len(dotted) == 1 and panel.get_ylim()[0] < told
    monkeypatch.undo()
    far = world(untrained=0.02)
    first, second = panels_of(far, tmp_path, monkeypatch)
    value = far.value("untrained/B/patch_mean/s0", "shape")
    assert first.get_ylim()[0] > 30 and first.get_ylim() == second.get_ylim()
    assert first.get_ylabel() == f"Shape, top-1 (%)\nuntrained, mean of patches: {value:.1f} %"
    assert "untrained, mean of patches" not in {text.get_text() for text in first.figure.legends[0].get_texts()}
