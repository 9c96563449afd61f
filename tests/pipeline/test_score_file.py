"""`mdc score FILE`: the scores of `mdc.load`, from tables of every kind, after an interrupt, and what has none."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shown import read_rows
from small_project import ARC, CLIP, MDC

import mdc
from mdc.app import score_file
from mdc.app.cli import main
from mdc.app.scores import Scores

CAPTIONS = [("0.png", "a red circle"), ("1.png", "a blue star"), ("0.png", "a blue star"), ("2.png", "a red zebra")]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_file, "_IMAGES", 1)


@pytest.fixture
def images(pictures: list[Path]) -> dict[str, bytes]:
    """Three images, which lie beside the tables."""
    return {file.name: file.read_bytes() for file in pictures}


def table(
    path: Path, rows: list[tuple[str, ...]], header: tuple[str, ...] = ("image", "caption"), mark: str = ","
) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=mark, lineterminator="\n").writerows([header, *rows])
    return path


def call(r: Path, path: Path, out: Path, *more: str, run: str = MDC) -> list[str]:
    return ["score", str(path), "--run", run, "--scale", r.name, "--out", str(out), "--samples", "32", *more]


def asked(r: Path, path: Path, out: Path, *more: str, run: str = MDC) -> int:
    return main(call(r, path, out, *more, run=run))


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def expected(r: Path, folder: Path, run: str, pairs: list[tuple[str, str]], **more: Any) -> list[Any]:
    model = mdc.load(run, scale=r.name)
    return [model.score(folder / name, caption, samples=32, **more)[0] for name, caption in pairs]


@pytest.mark.filterwarnings("ignore:not in this model")
@pytest.mark.parametrize("run", [MDC, CLIP, ARC])
def test_scores_are_those_of_the_library(
    r: Path,
    images: dict[str, bytes],
    tmp_path: Path,
    run: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(score_file, "_IMAGES", 2)
    path, out = table(tmp_path / "t.csv", CAPTIONS), tmp_path / "o.jsonl"
    assert asked(r, path, out, "--processes", "1", "--tokens", "--mismatched", run=run) == 0
    rows, wanted = read(out), expected(r, tmp_path, run, CAPTIONS, mismatched=True)
    assert [(row["row"], row["image"], row["caption"]) for row in rows] == [(n, *one) for n, one in enumerate(CAPTIONS)]
    for row, one in zip(rows, wanted, strict=True):
        for name in ("score", "error", "mismatched", "mismatched_error"):
            assert row[name] == pytest.approx(getattr(one, name), abs=1e-5), name
        assert [(token["token"], pytest.approx(token["value"], abs=1e-5)) for token in row["tokens"]] == one.tokens
        assert (row["unknown"], row["estimator"], row["problem"]) == (one.unknown, one.estimator, None)
    said = capsys.readouterr().err
    assert said.count("zebra") == 1 and "data.vocabularies" in said, "one warning names what was left out"


def test_every_kind_of_table_says_the_same(r: Path, images: dict[str, bytes], tmp_path: Path) -> None:
    pairs = [(name, caption) for name in images for caption in ("a red circle", "a blue star")]
    wanted = [one.score for one in expected(r, tmp_path, ARC, pairs)]
    two = [(name, "a red circle", "a blue star") for name in images]
    lists = [{"file_name": str(tmp_path / name), "captions": ["a red circle", "a blue star"]} for name in images]
    (tmp_path / "lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lists))
    columns = {"caption_1": ["a red circle"] * 3, "caption_2": ["a blue star"] * 3}
    stored = [{"bytes": data, "path": None} for data in images.values()]
    pq.write_table(pa.table({"image": stored, **columns}), tmp_path / "stored.parquet", row_group_size=2)
    pq.write_table(pa.table({"image": list(images), **columns}), tmp_path / "named.parquet")
    for path in (
        table(tmp_path / "rows.csv", pairs),
        table(tmp_path / "semicolons.csv", two, ("Image", "caption 1", "caption 2"), ";"),
        table(tmp_path / "tabs.tsv", two, ("image", "text_1", "text_2"), "\t"),
        *(tmp_path / name for name in ("lists.jsonl", "stored.parquet", "named.parquet")),
    ):
        out = tmp_path / f"{path.name}.parquet"
        assert asked(r, path, out, "--processes", "1", run=ARC) == 0, path
        assert pq.read_table(out)["score"].to_pylist() == pytest.approx(wanted, abs=1e-5), path


def test_of_right_and_wrong_captions_it_says_how_often_the_right_one_wins(
    r: Path, images: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [("0.png", "a red circle", "a blue star", "a green cross"), ("1.png", "a blue star", "a red circle", "")]
    options.append(("2.png", "a blue star", "a zebra", ""))  # counts neither way: its score is that of "a"
    path = table(tmp_path / "t.csv", options, ("image", "caption", "negative_caption_1", "negative_caption_2"))
    out = tmp_path / "o.jsonl"
    assert asked(r, path, out, run=CLIP) == 0
    rows = read(out)
    assert [(row["row"], row["column"], row["caption"]) for row in rows] == [
        *zip((0, 0, 0), ("caption", "negative_caption_1", "negative_caption_2"), options[0][1:], strict=True),
        *zip((1, 1), ("caption", "negative_caption_1"), options[1][1:3], strict=True),
        *zip((2, 2), ("caption", "negative_caption_1"), options[2][1:3], strict=True),
    ]
    won = 0
    for number in (0, 1):
        right, *wrong = (row["score"] for row in rows if row["row"] == number)
        won += right > max(wrong)
    said = capsys.readouterr().out
    assert f"{won} of 2 rows" in said and "1 more row" in said


def test_an_image_is_looked_at_once_for_all_its_captions(
    r: Path, images: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    of = Scores.of
    monkeypatch.setattr(
        Scores, "of", lambda self, pixels, some: (looked.append(len(pixels)), of(self, pixels, some))[1]
    )
    monkeypatch.setattr(score_file, "_IMAGES", 64)
    assert asked(r, table(tmp_path / "t.csv", CAPTIONS), tmp_path / "o.csv", "--processes", "1") == 0
    twice = pa.table({"image": [images["0.png"], images["1.png"], images["0.png"]], "caption": ["a red"] * 3})
    pq.write_table(twice, tmp_path / "t.parquet")
    assert asked(r, tmp_path / "t.parquet", tmp_path / "p.csv", "--processes", "1") == 0
    assert looked == [3, 2]


def test_any_number_of_processes_and_every_ending_gives_the_same(
    r: Path, images: dict[str, bytes], tmp_path: Path
) -> None:
    path = table(tmp_path / "t.csv", CAPTIONS)
    for count in ("1", "2"):
        for ending in (".csv", ".jsonl", ".parquet"):
            assert asked(r, path, tmp_path / f"{count}{ending}", "--tokens", "--processes", count) == 0
    for ending in (".csv", ".jsonl", ".parquet"):
        assert (tmp_path / f"1{ending}").read_bytes() == (tmp_path / f"2{ending}").read_bytes()
    lines = read(tmp_path / "1.jsonl")
    assert pq.read_table(tmp_path / "1.parquet").to_pylist() == lines
    for cells, row in zip(read_rows(tmp_path / "1.csv"), lines, strict=True):
        assert float(cells["score"]) == row["score"] and cells["caption"] == row["caption"]
        assert json.loads(cells["tokens"]) == row["tokens"] and json.loads(cells["unknown"] or "[]") == row["unknown"]


def test_a_tie_counts_its_share_and_rows_of_one_image_are_drawn_together() -> None:
    kinds = ((2.0, 1.0, 0.0), (1.0, 1.0, 0.0), (0.0, 3.0, 1.0), (1.0, 1.0, 1.0))  # won, half, lost, a third

    def said(per_image: int) -> tuple[str, float]:
        rows = [
            {"row": row, "image": f"{row // per_image}", "column": column, "score": score}
            for row in range(48)
            for column, score in zip(("right", "wrong", "wrong_2"), kinds[row // 12], strict=True)
        ]
        text = score_file._won(rows, "right")
        low, high = re.findall(r"interval ([0-9.]+) to ([0-9.]+)", text)[0] if "interval" in text else (0.0, 0.0)
        return text.partition(", 95 %")[0], float(high) - float(low)

    assert said(1)[0] == said(4)[0] == "the right caption (right) scores highest in 22 of 48 rows: 45.8 %"
    assert said(4)[1] > 1.5 * said(1)[1] > 0
    assert said(48)[0].endswith("all of one image")


def test_rows_without_a_score_are_named_and_the_others_done(
    r: Path, images: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.png").write_bytes(images["0.png"][:60])
    rows = [("none.png", "a red"), ("none.png", "a blue"), ("broken.png", "a red"), ("1.png", ""), ("", "a red")]
    rows += [("1.png", "zebra"), ("1.png", "circle " * 80), *CAPTIONS]
    path, out = table(tmp_path / "t.csv", rows), tmp_path / "o.jsonl"
    path.write_text(path.read_text() + "one cell\n")
    assert asked(r, path, out, "--processes", "1") == 2
    found = read(out)
    assert [row["row"] for row in found] == list(range(len(rows) + 1))
    bad = [row["row"] for row in found if row["problem"]]
    assert bad == [0, 1, 2, 3, 4, 5, 6, 11] and all((row["score"] is None) == bool(row["problem"]) for row in found)
    assert found[5]["unknown"] == ["zebra"]
    said = capsys.readouterr().err
    assert (
        said.count("none.png") == 1
        and "row 0, 1: none.png" in said
        and f"8 of {len(found)} rows" in said.splitlines()[-1]
    )
    wanted = [one.score for one in expected(r, tmp_path, MDC, CAPTIONS[:3])]
    assert [row["score"] for row in found[7:10]] == pytest.approx(wanted, abs=1e-5)


def test_an_interrupted_call_goes_on_and_another_table_starts_afresh(
    r: Path,
    images: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, out, keep = table(tmp_path / "t.csv", CAPTIONS), tmp_path / "o.csv", score_file._keep
    kept: list[str] = []

    def stopped(file: Path, rows: Any) -> None:
        keep(file, rows)
        kept.append(file.name)
        if len(kept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(score_file, "_keep", stopped)
    assert asked(r, path, out, "--processes", "1") == 130
    assert "rerun to resume" in capsys.readouterr().err and not out.exists() and list(tmp_path.glob(".*.parts"))
    assert asked(r, path, out, "--processes", "1") == 0
    assert kept == [f"{number:08d}.json" for number in range(3)]
    assert asked(r, path, tmp_path / "whole.csv", "--processes", "1") == 0
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes() and not list(tmp_path.glob(".*.parts"))
    before = out.read_bytes()
    assert asked(r, path, out) == 2 and out.read_bytes() == before, "what is there is never written over"

    for change in ("table", "image", "options"):
        kept.clear()
        out.unlink()
        assert asked(r, path, out, "--processes", "1") == 130
        if change == "table":
            table(path, [(name, caption + " and") for name, caption in CAPTIONS])
        elif change == "image":
            (tmp_path / "0.png").write_bytes(images["1.png"])
        more = ["--seed", "3"] if change == "options" else []
        kept.append("")
        assert asked(r, path, out, "--processes", "1", *more) == 0
        assert len(kept) == 2 + 1 + 3, change


def test_what_cannot_be_done_ends_in_one_line(
    r: Path, images: dict[str, bytes], tmp_path: Path, refused: Callable[..., str]
) -> None:
    good, out = table(tmp_path / "t.csv", CAPTIONS), tmp_path / "o.csv"
    for path, where, more, said in (
        (good, tmp_path / "o.txt", [], ".csv, .jsonl, .parquet"),
        (good, out, ["--json"], "--json"),
        (good, out, ["--processes", "0"], "at least 1"),
        (good, out, ["--estimator", "cosine"], "no estimator"),
        (tmp_path / "nowhere.csv", out, [], "no such file"),
        (tmp_path / "0.png", out, [], "no CAPTION follows it"),
        (table(tmp_path / "columns.csv", CAPTIONS, ("picture", "caption")), out, [], "it has picture, caption"),
        (table(tmp_path / "none.csv", CAPTIONS, ("image", "words")), out, [], "it has image, words"),
        (table(tmp_path / "empty.csv", [("0.png", "")]), out, [], "no row has an image and a caption"),
    ):
        assert said in refused(*call(r, path, where, *more))
    assert not out.exists() and not list(tmp_path.glob(".*.parts"))
