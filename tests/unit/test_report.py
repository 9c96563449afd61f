"""Tables, their estimates, published numbers and figures."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdc.records import UserError
from mdc.report import published
from mdc.report.estimates import Estimator
from mdc.report.figures import drawing as figures
from mdc.report.figures import losses
from mdc.report.items import ProbeItems, read_items
from mdc.report.tables import table1
from mdc.report.tables.layout import Cell, Column, Row, Table, mark_rows, rank, write_csv, write_html, write_latex
from mdc.report.tables.layout import write_markdown as write_md

METHODS = {
    "clip_lb": {"label": "CLIP-LB", "pooling": "cls", "grey": True},
    "clip": {"label": "CLIP", "pooling": "cls", "grey": False},
    "arc": {"label": "ARC", "pooling": "patch_mean", "grey": False},
    "mdc": {"label": "MDC", "pooling": "patch_mean", "grey": False},
}
SKILL = {"untrained": 0.4, "clip": 0.6, "clip_lb": 0.62, "arc": 0.68, "mdc": 0.72}


def average_precision(scores: Any, targets: Any, counts: Any) -> np.ndarray:
    """Mean average precision through scikit-learn's weights: slow, and independent of the project's own."""
    from sklearn.metrics import average_precision_score

    columns = range(scores.shape[1])
    return np.array(
        [
            np.mean([average_precision_score(targets[:, k], scores[:, k], sample_weight=c) for k in columns])
            for c in counts
        ]
    )


class World:
    """Records, items and a specification made up for two backbones and two corpora."""

    def __init__(self, scale: str = "mini", seeds: tuple[int, ...] = (0,), multi: bool = False, n: int = 150) -> None:
        self.rng = np.random.default_rng(7)
        paper = scale == "paper"
        self.spec: dict[str, Any] = {
            "scale": scale,
            "scale_label": f"{scale} (made up)",
            "corpora": [
                {"key": "alt", "label": "CC12M" if paper else "Alt <text> & co", "methods": ["clip", "arc", "mdc"]},
                {"key": "dense", "label": "Dense_2", "methods": ["clip_lb", "clip", "arc", "mdc"]},
            ],
            "backbones": [{"key": "B", "label": "ViT-B/32"}, {"key": "A", "label": "ViT-T/8"}],
            "methods": METHODS,
            "probes": [{"key": "imagenet1k", "label": "ImageNet-1K"}, {"key": "pets", "label": "Pets"}],
            "contrasts": [["mdc", "arc"], ["alt/clip", "dense/clip"], ["mdc", "clip"], ["dense/mdc", "alt/mdc"]],
            "seeds": list(seeds),
            "bootstrap": 200,
            "expected": {},
        }
        self.n, self.multi = n, multi
        self.easy = self.rng.random((2, n))
        self.targets = (self.rng.random((n, 3)) < 0.3).astype(np.int64)
        self.records: list[dict[str, Any]] = []
        self.items: dict[str, dict[str, ProbeItems]] = {}
        for seed in seeds:
            for backbone in ("A", "B"):
                for pooling in ("cls", "patch_mean"):
                    self._add(f"untrained/{backbone}/{pooling}/s{seed}", "untrained")
                for corpus in self.spec["corpora"]:
                    for method in corpus["methods"]:
                        self._add(f"{corpus['key']}/{backbone}/{method}/s{seed}", method)

    def _add(self, id_: str, method: str) -> None:
        skill = SKILL[method] + 0.05 * self.rng.random()
        ids = tuple(f"item{i}" for i in range(self.n))
        probes: dict[str, Any] = {}
        self.items[id_] = {}
        for place, name in enumerate(("imagenet1k", "pets")):
            if self.multi and name == "pets":
                scores = 2 * skill * self.targets + self.rng.normal(size=self.targets.shape)
                self.items[id_][name] = ProbeItems(ids, scores=scores, targets=self.targets)
                value = float(average_precision(scores, self.targets, np.ones((1, self.n)))[0])
                probes[name] = {"metric": "map", "value": 100 * value, "n": self.n, "chance": 30.0}
            else:
                right = (self.easy[place] + 0.2 * self.rng.normal(size=self.n) < skill).astype(float)
                right[0] = 1 / 3  # a tie
                self.items[id_][name] = ProbeItems(ids, value=right)
                probes[name] = {"metric": "top1", "value": 100 * right.mean(), "n": self.n, "chance": 12.5}
        sha = hashlib.sha256(id_.encode()).hexdigest()
        self.spec["expected"][id_] = sha
        # a record may write a run's id with its folder
        written = id_ if id_.startswith("untrained") else f"runs/{id_}"
        record = {"kind": "probe", "scale": self.spec["scale"], "encoder": {"id": written}, "config_sha256": sha}
        self.records.append({**record, "probes": probes})

    def record(self, id_: str) -> dict[str, Any]:
        return next(r for r in self.records if r["encoder"]["id"].removeprefix("runs/") == id_)

    def build(self, out: Path, records: list[dict[str, Any]] | None = None) -> table1.Table1:
        chosen = self.records if records is None else records
        return table1.build(
            chosen,
            lambda record: self.items[record["encoder"]["id"].removeprefix("runs/")],
            self.spec,
            out,
            average_precision if self.multi else None,
        )


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, table1.Table1, Path]:
    world, out = World(), tmp_path_factory.mktemp("table1")
    return world, world.build(out), out


# --- marks ----------------------------------------------------------------------------------------------------------


def test_rank_equals_brute_force() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(500):
        size = int(rng.integers(1, 6))
        values = [None if rng.random() < 0.1 else float(v) for v in rng.choice([50.0, 50.04, 50.06, 51.0, 49.0], size)]
        ranked = [bool(b) for b in rng.random(size) < 0.8]
        marks = rank(values, ranked)
        seen |= set(marks)
        rivals = sorted((float(f"{v:.1f}") for v, r in zip(values, ranked, strict=True) if r and v is not None))[::-1]
        for value, counts, mark in zip(values, ranked, marks, strict=True):
            if value is None:
                assert mark is None
            elif not counts:
                assert mark == "grey"
            elif len(rivals) == 1:
                assert mark is None
            else:
                place = rivals.index(float(f"{value:.1f}"))
                assert mark == {0: "best", 1: "second"}.get(place)
    assert seen == {"best", "second", "grey", None}


def test_marks_stand_within_dataset_and_backbone(built: tuple[World, table1.Table1, Path]) -> None:
    _, made, _ = built
    for column in range(3):
        blocks: dict[tuple[str, str], list[tuple[str, Cell]]] = {}
        for row in made.table.rows:
            if row.reference:
                assert row.cells[column].mark is None
            else:
                blocks.setdefault(row.labels[:2], []).append((row.labels[2], row.cells[column]))
        assert len(blocks) == 4
        for block in blocks.values():
            assert all((cell.mark == "grey") == (method == "CLIP-LB") for method, cell in block)
            top = max(round(float(cell.value or 0), 1) for method, cell in block if method != "CLIP-LB")
            assert all((round(float(c.value or 0), 1) == top) == (c.mark == "best") for m, c in block if m != "CLIP-LB")


# --- estimates ------------------------------------------------------------------------------------------------------


def group(rng: np.random.Generator, seeds: int, share: float, n: int = 400) -> list[dict[str, ProbeItems]]:
    ids = tuple(map(str, range(n)))
    return [{k: ProbeItems(ids, value=(rng.random(n) < share).astype(float)) for k in "xy"} for _ in range(seeds)]


def test_one_seed_is_the_bootstrap_over_items() -> None:
    rng = np.random.default_rng(1)
    a, b = group(rng, 1, 0.7), group(rng, 1, 0.6)
    x, y = a[0]["x"].value, b[0]["x"].value
    assert x is not None and y is not None
    level = Estimator(draws=20_000).level(a, ["x"])
    half = 196 * x.std() / np.sqrt(len(x))
    assert level.value == pytest.approx(100 * x.mean())
    assert (level.low, level.high) == (
        pytest.approx(level.value - half, abs=0.35),
        pytest.approx(level.value + half, abs=0.35),
    )
    gap = Estimator(draws=20_000).difference(a, b, ["x"])
    half = 196 * (x - y).std() / np.sqrt(len(x))
    assert gap.value == pytest.approx(100 * (x.mean() - y.mean()))
    assert (gap.high - gap.low) / 2 == pytest.approx(half, rel=0.05)
    average = Estimator(draws=20_000).difference(a, b, ["x", "y"])
    assert average.high - average.low < 0.85 * (gap.high - gap.low)  # two benchmarks, each resampled within itself


def test_two_seeds_average_over_seeds_and_resample_items() -> None:
    rng = np.random.default_rng(2)
    a = group(rng, 2, 0.7)
    mean = (a[0]["x"].value + a[1]["x"].value) / 2  # type: ignore[operator]
    level = Estimator(draws=20_000).level(a, ["x"])
    assert level.kind == "items" and level.value == pytest.approx(100 * mean.mean())
    assert (level.high - level.low) / 2 == pytest.approx(196 * mean.std() / np.sqrt(len(mean)), rel=0.05)


def test_three_seeds_are_a_paired_t_test() -> None:
    from scipy import stats

    rng = np.random.default_rng(3)
    a, b = group(rng, 4, 0.7), group(rng, 4, 0.66)
    means = [[np.mean([m[k].value.mean() for k in "xy"]) for m in side] for side in (a, b)]  # type: ignore[union-attr]
    ours = Estimator().difference(a, b, ["x", "y"])
    theirs = stats.ttest_rel(*means)
    low, high = theirs.confidence_interval(0.95)
    assert (ours.low, ours.high, ours.p) == (pytest.approx(100 * low), pytest.approx(100 * high), theirs.pvalue)
    assert ours.kind == "seeds" and ours.n == 4


def test_multi_label_is_resampled_average_precision() -> None:
    rng = np.random.default_rng(4)
    n, ids = 60, tuple(map(str, range(60)))
    targets = (rng.random((n, 2)) < 0.4).astype(np.int64)
    sides = [
        [{"x": ProbeItems(ids, scores=targets * s + rng.normal(size=(n, 2)), targets=targets)}] for s in (2.0, 0.0)
    ]
    gap = Estimator(draws=200, mean_average_precision=average_precision).difference(*sides, ["x"])
    # by hand: the same items for both sides in every resample
    picks = np.random.default_rng(9).integers(0, n, size=(200, n))
    counts = np.stack([np.bincount(p, minlength=n) for p in picks]).astype(float)
    a, b = (average_precision(s[0]["x"].scores, targets, counts) for s in sides)
    low, high = 100 * np.quantile(a - b, [0.025, 0.975])
    assert (gap.low, gap.high) == (pytest.approx(low, abs=4), pytest.approx(high, abs=4))
    one = np.ones((1, n))
    exact = [average_precision(s[0]["x"].scores, targets, one)[0] for s in sides]
    assert gap.value == pytest.approx(100 * (exact[0] - exact[1]))
    with pytest.raises(UserError, match="mean average precision"):
        Estimator().level(sides[0], ["x"])


def test_other_items_cannot_be_compared() -> None:
    rng = np.random.default_rng(5)
    a, b = group(rng, 1, 0.5), group(rng, 1, 0.5)
    b[0]["x"] = ProbeItems(b[0]["x"].ids[::-1], value=b[0]["x"].value)
    with pytest.raises(UserError, match=r"benchmark x: .* same items"):
        Estimator().difference(a, b, ["x"])


# --- table 1 --------------------------------------------------------------------------------------------------------


def test_layout_csv_round_trip(built: tuple[World, table1.Table1, Path]) -> None:
    world, made, out = built
    rows = read(out / "table1.csv")
    assert list(rows[0]) == ["dataset", "backbone", "method", "ImageNet-1K", "Pets", "Average", "scale"]
    rows, chance = rows[:-1], rows[-1]
    assert [chance[k] for k in ("method", "ImageNet-1K", "Pets", "Average")] == ["chance", "12.5", "12.5", "12.5"]
    # by backbone as specified, untrained first, then corpora and methods as specified
    cc, dense = "Alt <text> & co", "Dense_2"
    names = ["untrained, [CLS]", "untrained, mean of patches", "CLIP", "ARC", "MDC", "CLIP-LB", "CLIP", "ARC", "MDC"]
    sets = ["none"] * 2 + [cc] * 3 + [dense] * 4
    expected = [(s, b, m) for b in ("ViT-B/32", "ViT-T/8") for s, m in zip(sets, names, strict=True)]
    assert [(r["dataset"], r["backbone"], r["method"]) for r in rows] == expected
    long = read(out / "table1_long.csv")
    assert len(long) == 3 * len(rows)
    for number, line in enumerate(long):
        row = rows[number // 3]
        assert (line["dataset"], line["backbone"]) == (row["dataset"], row["backbone"])
        assert row[line["benchmark"]] == f"{made.numbers[number].value:.1f}"
        assert float(line["value"]) == pytest.approx(made.numbers[number].value, abs=5.1e-5)
        assert float(line["low"]) <= float(line["value"]) <= float(line["high"])
        if line["benchmark"] != "Average":
            key = {"ImageNet-1K": "imagenet1k", "Pets": "pets"}[line["benchmark"]]
            assert float(line["value"]) == pytest.approx(100 * world.items[line["run"]][key].value.mean(), abs=5.1e-5)  # type: ignore[union-attr]
        else:
            parts = [float(x["value"]) for x in long[number - 2 : number]]
            assert float(line["value"]) == pytest.approx(np.mean(parts), abs=2e-4)
            assert int(line["n"]) == 2 * world.n


def test_gain_is_over_the_own_initial_weights(built: tuple[World, table1.Table1, Path]) -> None:
    _, _, out = built
    long = read(out / "table1_long.csv")
    value = {(x["run"], x["benchmark"]): float(x["value"]) for x in long}
    for line in long:
        if line["method"] == "untrained":
            assert line["gain"] == ""
            continue
        _, backbone, method, seed = line["run"].split("/")
        control = f"untrained/{backbone}/{METHODS[method]['pooling']}/{seed}"
        gain = value[line["run"], line["benchmark"]] - value[control, line["benchmark"]]
        assert float(line["gain"]) == pytest.approx(gain, abs=2e-4)
        assert float(line["gain_low"]) < float(line["gain"]) < float(line["gain_high"])


def test_contrasts_are_named_corrected_and_judged(built: tuple[World, table1.Table1, Path]) -> None:
    _, made, out = built
    lines = read(out / "table1_contrasts.csv")
    blocks = {(x["dataset"], x["backbone"]) for x in lines}
    named = {(d, b, "MDC", m, d) for d, b in blocks for m in ("ARC", "CLIP")}
    alt, dense = "Alt <text> & co", "Dense_2"
    named |= {x for _, b in blocks for x in ((dense, b, "MDC", "MDC", alt), (alt, b, "CLIP", "CLIP", dense))}
    gains = {(x.dataset, x.backbone, x.method, "untrained", "none") for x in made.numbers if x.gain is not None}
    keys = ("dataset", "backbone", "method", "against", "against_dataset")
    assert {tuple(line[key] for key in keys) for line in lines} == named | gains
    assert len(lines) == 3 * (12 + 14)
    value = {(n.dataset, n.backbone, n.method, n.benchmark): n.value for n in made.numbers if n.method != "untrained"}
    for line in (line for line in lines if line["against"] != "untrained"):
        first, second = (tuple(line[key] for key in side) for side in (keys[:3], (keys[4], keys[1], keys[3])))
        difference = value[*first, line["benchmark"]] - value[*second, line["benchmark"]]
        assert float(line["difference"]) == pytest.approx(difference, abs=2e-4)
    # Holm by its definition: the k-th smallest is rejected at level a only if it and all smaller ones pass
    p = np.array([contrast.p for contrast in made.contrasts])
    ordered = np.sort(p, kind="stable")
    steps = [max((len(p) - j) * ordered[j] for j in range(k + 1)) for k in range(len(p))]
    for contrast in made.contrasts:
        assert contrast.p_holm == pytest.approx(
            min(1.0, max(s for s, o in zip(steps, ordered, strict=True) if o == contrast.p))
        )
    assert min(x.p_holm for x in made.contrasts) < 0.05  # the bootstrap has draws enough for the family's size
    for line in lines:
        low, high = float(line["low"]), float(line["high"])
        verdict = "held" if low > 0 else "comparable" if low >= -2 and high <= 2 else "cannot be told"
        assert line["verdict"] == verdict
        assert float(line["smallest_detectable"]) > (high - low) / 2


def test_every_output_names_scale_and_intervals(built: tuple[World, table1.Table1, Path]) -> None:
    _, _, out = built
    for name in table1.FILES:
        text = (out / name).read_text(encoding="utf-8").replace("&#x27;", "'")
        assert "mini" in text, name
        if name not in ("table1_long.csv", "table1_contrasts.csv"):  # these have a column for the scale's name
            assert "not a reproduction of the paper's numbers" in text, name
        if name != "table1.csv":
            assert "this checkpoint only" in text, name
    assert {line["published"] for line in read(out / "table1_long.csv")} == {""}


def test_published_values_stand_only_at_scale_paper(tmp_path: Path) -> None:
    World(scale="paper").build(tmp_path)
    found = {
        (x["dataset"], x["backbone"], x["method"], x["benchmark"]): x["published"]
        for x in read(tmp_path / "table1_long.csv")
    }
    assert found["CC12M", "ViT-B/32", "MDC", "ImageNet-1K"] == "54.8000"
    assert found["CC12M", "ViT-B/32", "CLIP", "Pets"] == "74.8000"
    assert found["none", "ViT-B/32", "untrained", "Pets"] == ""
    assert found["CC12M", "ViT-T/8", "MDC", "Pets"] == ""
    page = (tmp_path / "table1.html").read_text(encoding="utf-8")
    assert "paper 54.8" in page and "not a reproduction" not in page


@pytest.mark.parametrize(("seeds", "words"), [((0, 1), "mean of 2 seeds"), ((0, 1, 2), "t over 3 seeds")])
def test_more_seeds_change_the_interval(tmp_path: Path, seeds: tuple[int, ...], words: str) -> None:
    World(seeds=seeds).build(tmp_path)
    lines = read(tmp_path / "table1_long.csv")
    assert all(words in line["interval"] for line in lines)
    assert {line["seeds"] for line in lines} == {" ".join(map(str, seeds))}
    assert all(len(line["run"].split()) == len(seeds) for line in lines)


def test_multi_label_column(tmp_path: Path) -> None:
    world = World(multi=True, n=40)
    world.spec["backbones"], world.spec["corpora"] = world.spec["backbones"][:1], world.spec["corpora"][:1]
    world.spec["corpora"][0]["methods"] = ["mdc"]
    # scikit-learn is slow here, and no comparison between methods is left to draw
    world.spec["probes"] = world.spec["probes"][1:]
    made = world.build(tmp_path)
    assert {n.metric for n in made.numbers} == {"mAP", "mean"}
    told = {r["encoder"]["id"].removeprefix("runs/"): r["probes"]["pets"]["value"] for r in world.records}
    assert all(n.value == pytest.approx(told[n.run]) for n in made.numbers)


def test_same_input_same_bytes_whatever_the_order(built: tuple[World, table1.Table1, Path], tmp_path: Path) -> None:
    world, _, out = built
    world.build(tmp_path, world.records[::-1])
    for name in table1.FILES:
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes(), name


def test_bad_records_are_refused_by_name(tmp_path: Path) -> None:
    world = World()
    id_ = "dense/A/mdc/s0"
    good = world.record(id_)

    def refused(match: str, *instead: dict[str, Any]) -> None:
        others = [record for record in world.records if record is not good]
        with pytest.raises(UserError, match=match):
            world.build(tmp_path, [*others, *instead])
        assert not list(tmp_path.iterdir())

    refused(f"no probe record for {id_}")
    refused(f"two probe records for {id_}", good, good)
    refused(f"{id_} is stale", {**good, "config_sha256": "0" * 64})
    refused(f"{id_} is of kind probe, scale paper", {**good, "scale": "paper"})
    refused(f"{id_} lacks pets", {**good, "probes": {"imagenet1k": good["probes"]["imagenet1k"]}})
    wrong = {**good["probes"], "pets": {**good["probes"]["pets"], "value": 1.0}}
    refused(f"{id_} on pets: the record says 1.000", {**good, "probes": wrong})
    other = {**good["probes"], "pets": {**good["probes"]["pets"], "chance": 1.0}}
    refused(f"{id_} was probed with another chance level on pets", {**good, "probes": other})


# --- writers --------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    VOID = frozenset({"meta"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[tuple[str, str]] = []  # class, text
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "td":
            self.cells.append((dict(attrs).get("class") or "", ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open:
            kind, text = self.cells[-1]
            self.cells[-1] = (kind, text + (" " if text else "") + data)


def test_html_is_whole_and_holds_every_number(built: tuple[World, table1.Table1, Path]) -> None:
    _, made, out = built
    text = (out / "table1.html").read_text(encoding="utf-8")
    assert "http" not in text and "<text>" not in text and "&lt;text&gt; &amp; co" in text
    cells = Page(text).cells
    width = len(made.table.labels) + len(made.table.columns)
    for i, row in enumerate(made.table.rows):
        shown = cells[i * width : (i + 1) * width]
        assert tuple(text for _, text in shown[:3]) == row.labels
        for (kind, text), cell in zip(shown[3:], row.cells, strict=True):
            assert kind == (cell.mark or "")
            interval = "" if cell.low is None else f" [{cell.low:.1f}, {cell.high:.1f}]"
            assert text == f"{cell.value:.1f}{interval}"


def test_latex_balances_and_marks(built: tuple[World, table1.Table1, Path]) -> None:
    _, made, out = built
    text = re.sub(r"(\\\\)|\\[{}%&_#$]", r"\1", (out / "table1.tex").read_text(encoding="utf-8"))
    depth = 0
    for character in text:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    marks = [cell.mark for row in made.table.rows for cell in row.cells]
    for command, mark in ((r"\textbf", "best"), (r"\underline", "second"), (r"\textcolor{gray}", "grey")):
        assert text.count(command) == marks.count(mark) > 0  # type: ignore[arg-type]
    body = text.split(r"\midrule", 1)[1].split(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(lines) == len(made.table.rows)
    assert all(line.count(" & ") == 5 for line in lines)  # the & of a label is escaped
    assert not set("_<>&%#^~") & set(text.replace(" & ", "").replace("$<$", "").replace("$>$", "").split("\n", 1)[1])


def test_markdown_is_rectangular_and_marks(built: tuple[World, table1.Table1, Path]) -> None:
    _, made, out = built
    text = (out / "table1.md").read_text(encoding="utf-8")
    for part in text.split("### ")[1:]:
        lines = [line for line in part.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    first = text.split("### ")[1]
    marks = [cell.mark for row in made.table.rows for cell in row.cells]
    assert len(re.findall(r"\*\*[0-9.]+\*\*", first)) == marks.count("best")
    assert first.count("<ins>") == marks.count("second")
    assert len(re.findall(r"[0-9]†", first)) == marks.count("grey")


def test_awkward_text_and_signs(tmp_path: Path) -> None:
    table = Table(
        title="a_b | <c> 50% & {d}",
        caption=("x^2 ~ \\ #1 $",),
        labels=("Na|me",),
        columns=(Column("p_q"),),
        rows=(Row(("*e* [f]",), (Cell(-0.04, -1.26, 2.0, note="<g>"),)), Row(("empty",), (Cell(None),))),
        signed=True,
    )
    write_html([table], tmp_path / "t.html")
    assert ("", "+0.0 [−1.3, +2.0] <g>") in Page((tmp_path / "t.html").read_text(encoding="utf-8")).cells
    write_csv(table, tmp_path / "t.csv", {"k": "v,w"})
    assert read(tmp_path / "t.csv") == [
        {"na|me": "*e* [f]", "p_q": "0.0", "k": "v,w"},
        {"na|me": "empty", "p_q": "", "k": "v,w"},
    ]
    write_md([table], tmp_path / "t.md")
    assert r"\*e\* \[f\]" in (tmp_path / "t.md").read_text(encoding="utf-8")
    write_latex(table, tmp_path / "t.tex")
    tex = (tmp_path / "t.tex").read_text(encoding="utf-8")
    assert r"a\_b $|$ $<$c$>$ 50\% \& \{d\}" in tex
    assert r"x\textasciicircum{}2 \textasciitilde{} \textbackslash{} \#1 \$" in tex
    with pytest.raises(UserError, match="where 1 and 1 are needed"):
        Table("t", (), ("a",), (Column("b"),), (Row(("c",), ()),))


def test_reference_rows_are_never_ranked() -> None:
    rows = [Row((m,), (Cell(v),), reference=m == "untrained") for m, v in (("untrained", 99.0), ("a", 5.0), ("b", 4.0))]
    assert [row.cells[0].mark for row in mark_rows(rows, [True, True, True])] == [None, "best", "second"]


# --- items, published numbers ---------------------------------------------------------------------------------------


def test_items_round_trip_and_are_held_to_their_hash(tmp_path: Path) -> None:
    import pandas as pd

    path = tmp_path / "items.parquet"
    frame = pd.DataFrame(
        {
            "probe": ["one", "many", "one", "many"],
            "item": ["a", "x", "b", "y"],
            "value": np.array([1, np.nan, 1 / 3, np.nan], dtype=np.float32),
            "scores": [None, [0.5, -1.0], None, [2.0, 3.0]],
            "targets": [None, [1, 0], None, [0, 1]],
        }
    )
    frame.to_parquet(path)
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    items = read_items(path, sha)
    assert items["one"].ids == ("a", "b") and items["one"].value == pytest.approx([1, 1 / 3])
    assert items["many"].ids == ("x", "y") and items["many"].value is None
    np.testing.assert_array_equal(items["many"].scores, [[0.5, -1.0], [2.0, 3.0]])  # type: ignore[arg-type]
    np.testing.assert_array_equal(items["many"].targets, [[1, 0], [0, 1]])  # type: ignore[arg-type]
    frame.iloc[:2].to_parquet(path)
    with pytest.raises(UserError, match="is not the"):
        read_items(path, sha)


def test_published_averages_are_the_means_of_their_columns() -> None:
    assert len(published.TABLE1) == 21
    for (dataset, backbone, method), row in published.TABLE1.items():
        # five columns and their mean, each rounded to 0.1
        assert abs(np.mean(row[:5]) - row[5]) <= 0.1 + 1e-9, (dataset, backbone, method)
        assert published.lookup("table1", dataset, backbone, method, "Average") == row[5]
    blocks: dict[tuple[str, str], set[str]] = {}
    for dataset, backbone, method in published.TABLE1:
        blocks.setdefault((dataset, backbone), set()).add(method)
    three = {"CLIP", "ARC", "MDC"}
    assert all(m == (three if d == "CC12M" else three | {"CLIP-LB"}) for (d, _), m in blocks.items())
    # the paper's tables 4 and 5 repeat two of these numbers
    assert published.lookup("table1", "CC12M", "ViT-B/32", "MDC", "ImageNet-1K") == 54.8
    assert published.lookup("table1", "Recap-DataComp-10M", "ViT-B/32", "MDC", "ImageNet-1K") == 60.7
    assert published.lookup("table1", "CC12M", "ViT-B/32", "MDC", "Shape") is None
    assert published.lookup("table1", "Alt-text", "ViT-B/32", "MDC", "Pets") is None
    with pytest.raises(UserError, match="table1"):
        published.lookup("table9", "CC12M", "ViT-B/32", "MDC", "Pets")


# --- figures --------------------------------------------------------------------------------------------------------


def test_smooth_equals_brute_force() -> None:
    values = np.random.default_rng(0).normal(size=23)
    for window in (0, 1, 2, 5, 100):
        for i, found in enumerate(figures.smooth(values, window)):
            reach = min(max(window, 1) // 2, i, len(values) - 1 - i)
            assert found == pytest.approx(np.mean(values[i - reach : i + reach + 1]))
    line = np.arange(9.0)
    np.testing.assert_allclose(figures.smooth(line, 5), line)  # no shift, at the ends neither


def test_a_method_keeps_its_style() -> None:
    styles = figures.method_styles(["mdc", "bert_15", "arc", "bert_90"])
    assert styles["mdc"] == figures.METHOD_STYLE["mdc"] == figures.method_styles(["mdc"])["mdc"]
    assert len(set(styles.values())) == 4
    assert len({colour for colour, _ in figures.METHOD_STYLE.values()}) == len(figures.METHOD_STYLE)


def _logs() -> list[dict[str, Any]]:
    steps = list(range(1, 31))
    return [
        {
            "corpus": c,
            "backbone": "B",
            "method": m,
            "seed": 0,
            "steps": steps,
            "loss": [5 / s for s in steps],
            "validation": v,
        }
        for c, m, v in (("alt", "mdc", [[30, 0.2]]), ("alt", "clip", []), ("dense", "arc", [[15, 0.4], [30, 0.2]]))
    ]


def test_figures_are_equal_to_the_byte_and_leave_no_trace(
    built: tuple[World, table1.Table1, Path], tmp_path: Path
) -> None:
    import matplotlib

    _, made, _ = built
    before = dict(matplotlib.rcParams)
    for turn in ("a", "b"):
        (tmp_path / turn).mkdir()
        losses.loss_curves(_logs(), [tmp_path / turn / f"loss.{s}" for s in ("png", "svg", "pdf")], "scale mini")
        figures.table1_bars(made.numbers, [tmp_path / turn / "table1.svg"], "scale mini")
        # what a user set must not change the next one
        matplotlib.rcParams["lines.linewidth"] = 7
        matplotlib.rcParams["svg.hashsalt"] = "other"
    assert matplotlib.rcParams["lines.linewidth"] == 7
    matplotlib.rcParams.update(before)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["loss.pdf", "loss.png", "loss.svg", "table1.svg"]  # and no temporary file
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    for name in ("loss.svg", "table1.svg"):
        ElementTree.parse(tmp_path / "a" / name)


def test_figures_refuse_what_they_cannot_draw(built: tuple[World, table1.Table1, Path], tmp_path: Path) -> None:
    _, made, _ = built
    with pytest.raises(UserError, match=r"png, .svg, .pdf"):
        losses.loss_curves(_logs(), [tmp_path / "loss.bmp"], "t")
    with pytest.raises(UserError, match="no run"):
        losses.loss_curves([], [tmp_path / "loss.png"], "t")
    with pytest.raises(UserError, match="alt/B/mdc/s0 has 30 steps and 1 losses"):
        losses.loss_curves([{**_logs()[0], "loss": [1.0]}], [tmp_path / "loss.png"], "t")
    with pytest.raises(UserError, match="no trained encoder"):
        figures.table1_bars([n for n in made.numbers if n.gain is None], [tmp_path / "t.png"], "t")
    assert not list(tmp_path.iterdir())
