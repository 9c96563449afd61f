"""``mdc caption`` on the runs of a small project: the jobs' captions, words that are given, and what it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from small_project import ARC, MDC, TUNED

from mdc.app.caption import image_ids
from mdc.app.cli import main
from mdc.models.text import clip_pieces


def _written(r: Path, system: str) -> list[dict[str, Any]]:
    """What the job wrote for the images in their order."""
    rows = parquet.read_table(r / f"captions/{TUNED}/best/described/captions.parquet").to_pylist()
    return [row for row in rows if row["system"] == system]


def test_a_person_gets_the_jobs_captions(r: Path, pictures: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder = pictures[0].parent
    (folder / "notes.txt").write_text("no image")
    run = ["caption", "--run", TUNED, "--scale", r.name]
    assert main([*run, str(folder), "--length", "6", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {(one["run"], one["weights"]) for one in told} == {(f"runs/{TUNED}", "best")}
    rows = _written(r, "mdc_6")[:3]
    assert [one["caption"] for one in told] == [row["caption"] for row in rows]
    assert [[p["step"] for p in one["pieces"]] for one in told] == [row["step"] for row in rows]
    assert main([*run, str(folder / "0.png"), "--length", "6", "--explain"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == rows[0]["caption"] and [line.split()[1] for line in said[1:]] == [str(n) for n in range(1, 7)]


def test_what_is_captioned_as_json_are_cocos_results(
    r: Path, pictures: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """… with the files named as COCO names them, and with an image that cannot be read among them."""
    folder = pictures[0].parent
    (folder / "0.png").rename(folder / "COCO_val2014_000000000042.png")
    (folder / "2.png").rename(folder / "a dog.png")
    (folder / "9.png").write_bytes(b"no image")
    assert main(["caption", "--run", TUNED, "--scale", r.name, str(folder), "--length", "6", "--json"]) == 2
    written = {entry["image_id"]: entry["caption"] for entry in json.loads(capsys.readouterr().out)}
    assert list(written) == [1, 42, "a dog.png"] and all(written.values())


def test_images_are_known_by_their_numbers_or_names_and_each_by_its_own() -> None:
    names = ["COCO_8.jpg", "dog.jpg", "1_2.png", "²³.png"]
    numbers = ["42.png", "000000000007.jpg", "COCO_val2014_000000000008.jpg"]
    assert image_ids([Path("x") / name for name in [*numbers, *names]]) == [42, 7, 8, *names]
    # "7.png" and "007.png", and files of one name in two folders
    paths = ["a/7.png", "a/007.png", "a/dog.png", "b/dog.png", "a/dog.jpg"]
    assert image_ids([Path(one) for one in paths]) == ["a/7.png", "a/007.png", "a/dog.png", "b/dog.png", "dog.jpg"]


def test_a_person_fills_words_in(r: Path, pictures: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    run = ["caption", str(pictures[0]), "--scale", r.name, "--json", "--run"]
    assert main([*run, MDC, "--fill", "a ? circle"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    pieces = one["pieces"]
    assert [pieces[0]["piece"], pieces[2]["piece"]] == ["a", "circle"] and [p["step"] for p in pieces] == [0, 1, 0]
    assert len(clip_pieces(one["caption"])) == 3
    assert [piece["probability"] is None for piece in pieces] == [True, False, True], "what no step wrote has none"
    assert main([*run, ARC, "--length", "5"]) == 0
    assert len(json.loads(capsys.readouterr().out)[0]["pieces"]) == 5


def test_a_run_that_ends_its_captions_itself_keeps_all_words_that_are_given(
    r: Path, pictures: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["caption", str(pictures[0].parent), "--scale", r.name, "--json", "--run", f"{MDC}/ft-ends"]
    text = "a ? circle ? ? ? ? ? ? ? ? ? star"
    for more in ([], ["--temperature", "3"], ["--tokens-per-step", "10"]):
        assert main([*run, "--fill", text, *more]) == 0
        for one in json.loads(capsys.readouterr().out):
            pieces = [piece["piece"] for piece in one["pieces"]]
            assert len(pieces) == 13 and (pieces[0], pieces[2], pieces[-1]) == ("a", "circle", "star")


def test_an_image_that_cannot_be_read_is_named_and_the_others_are_captioned(
    r: Path, pictures: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = pictures[0].parent
    (folder / "1.png").write_bytes(b"no image")
    assert main(["caption", "--run", MDC, "--scale", r.name, str(folder), str(folder / "9.png")]) == 2
    told = capsys.readouterr()
    assert [line.split(":")[0] for line in told.out.splitlines()] == [str(folder / "0.png"), str(folder / "2.png")]
    first, second, last = told.err.splitlines()
    assert "2 of 4 images could not be read" in last and "1.png" in first and "9.png" in second


def test_a_name_that_is_no_text_is_no_hindrance(r: Path, pictures: list[Path]) -> None:
    """… also where what is drawn follows from it, and on a terminal of any coding."""
    folder = pictures[0].parent
    name = os.fsdecode(b"caf\xe9.png")
    (folder / "0.png").rename(folder / name)
    command = ["caption", "--run", MDC, "--scale", r.name, "--temperature", "1", str(folder)]
    done = subprocess.run([sys.executable, "-m", "mdc.app.cli", *command], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 3 and b"caf\\udce9.png" in done.stdout
