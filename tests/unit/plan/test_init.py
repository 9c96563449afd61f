"""`mdc init`: a scale for one's own data, in a file of its own; every refusal in one line."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import own_data
import pytest
from read_table import read_table

from mdc.app.cli import main
from mdc.data.formats.samples import held_out
from mdc.data.sources.source import open_probe
from mdc.plan.config.params import Params
from mdc.plan.config.read import load
from mdc.plan.jobs import context
from mdc.plan.jobs.plan import Plan

ROOT = Path(__file__).resolve().parents[3]
PHOTOS = ["photos", "--images", "photos", "--captions", "photos/captions.csv"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with our params.yaml, of one scale, and, in data/, photos with captions and birds of two classes."""
    _params(tmp_path)
    own_data.everything(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MDC_DATA", raising=False)
    return tmp_path


def _params(folder: Path) -> None:
    """params.yaml as it is, and a scale of almost nothing: every call reads both."""
    shutil.copy(ROOT / "params.yaml", folder)
    (folder / "scales").mkdir()
    (folder / "scales/mini.yaml").write_text("label: Small\ndata: {samples_per_shard: 4000}\n", encoding="utf-8")


def _init(*arguments: str) -> Params:
    """The parameters of the new scale after `mdc init`."""
    assert main(["init", *arguments]) == 0
    return load("params.yaml", arguments[0])


def _files() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in [*Path().glob("*.yaml"), *Path("scales").glob("*")]}


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is said, a line for each problem, with all files as they were."""
    before = _files()
    assert main(["init", *arguments]) == 2
    said = capsys.readouterr().err
    assert said and all(line.startswith("mdc init: ") for line in said.splitlines()), said
    assert _files() == before
    return said


def test_a_scale_is_a_short_commented_file_of_its_own(project: Path) -> None:
    before = _files()
    _init(*PHOTOS, "--probe", "birds")
    after = _files()
    text = after.pop(Path("scales/photos.yaml")).decode()
    assert after == before and load("params.yaml").scale == "mini"
    assert len(text.splitlines()) < 50 and text.count(" # ") > 4 and "$schema=" in text.splitlines()[0]


def test_it_can_become_the_scale_of_every_call(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path("params.yaml").read_bytes().splitlines(keepends=True)
    Path("params.yaml").chmod(0o640)
    _init(*PHOTOS, "--default")
    new = Path("params.yaml").read_bytes().splitlines(keepends=True)
    (changed,) = [(old, now) for old, now in zip(lines, new, strict=True) if old != now]
    assert changed[1] == changed[0].replace(b"scale: mini", b"scale: photos") and b"#" in changed[1]
    assert load("params.yaml").scale == "photos" and Path("params.yaml").stat().st_mode & 0o777 == 0o640
    assert "--config" not in capsys.readouterr().out
    Path("params.yaml").write_bytes(Path("params.yaml").read_bytes().replace(b"scale: photos", b"'scale': photos"))
    assert main(["init", "more", *PHOTOS[1:], "--default"]) == 2
    assert "by hand" in capsys.readouterr().err and load("params.yaml").scale == "photos"


@pytest.mark.parametrize("probe", [True, False])
def test_a_scale_plans_its_jobs_and_without_a_probe_no_table_1(
    probe: bool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = _init(*PHOTOS, *(["--probe", "birds"] if probe else []))
    tables = [*(["table1", "table6"] if probe else []), "table9", "figure3", "figure_loss"]
    assert list(params.tables) == tables
    monkeypatch.setattr(context, "fingerprint", lambda *modules: "0" * 64)
    jobs: dict[str, Any] = dict(Plan(params).jobs)
    runs = [f"photos/ViT-T-8/{method}" for method in ("clip", "arc", "mdc")]
    probes = [f"probe/{run}/s0" for run in runs] + [
        f"probe/untrained/ViT-T-8/{one}/s0" for one in ("cls", "patch_mean")
    ]
    expected = {*tables, "data/corpora/photos", "data/vocabularies/words", *(f"runs/{run}/s0" for run in runs)}
    assert set(jobs) == expected | ({"data/probes/birds", *probes} if probe else set())
    if probe:
        clip, arc, mdc = runs
        assert [list(pair) for pair in jobs["table1"].primary] == [[mdc, arc], [mdc, clip]]


def _command(capsys: pytest.CaptureFixture[str]) -> str:
    return next(line for line in capsys.readouterr().out.splitlines() if "snakemake" in line).strip()


def test_what_is_printed_names_the_command(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _init(*PHOTOS, "--probe", "birds")
    said = capsys.readouterr().out
    assert "\n  snakemake results/table1.csv --cores all --config scale=photos\n" in said
    assert "33 images to train on, 7 held out" in said and "2 classes, 24 images to train on, 16 to test" in said
    elsewhere = project / "my data"
    (project / "data").rename(elsewhere)
    monkeypatch.setenv("MDC_DATA", str(elsewhere))
    _init("more", *PHOTOS[1:])
    command = _command(capsys)
    assert shlex.split(command)[0] == f"MDC_DATA={elsewhere}"
    assert "results/figure_loss.png" in command and command.endswith("scale=more")


@pytest.mark.parametrize("count", [16, 17, 40, 130, 1000, 5000])
def test_values_fit_the_number_of_images(count: int, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["p000.jpg", *(f"{number}.jpg" for number in range(1, count))]  # the others are not looked at
    own_data.table(project / "data/photos/captions.csv", [(name, "a photo of it") for name in names])
    scale = _init(*PHOTOS)
    recipe, source = scale.pretrain.recipe, scale.data.corpora["photos"].source
    assert source.kind == "caption_table"
    val = sum(held_out(name, source.val_share) for name in names)  # as the source itself does it
    train = count - val
    assert recipe.batch_size <= val <= train
    steps = recipe.epochs * (train // recipe.batch_size)
    assert 300 <= steps < 300 + train // recipe.batch_size and recipe.warmup_steps < steps / 4
    assert recipe.validate_every <= steps and recipe.batch_size <= 64
    assert f"{train:,} images to train on, {val:,} held out" in capsys.readouterr().out


def _source(name: str) -> dict[str, Any]:
    return load("params.yaml", name).data.corpora[name].source.model_dump(exclude_unset=True)  # type: ignore[no-any-return]


def _rows(count: int = 40) -> list[tuple[str, str]]:
    return [(f"p{number:03d}.jpg", f"a bird, number {number}") for number in range(count)]


@pytest.mark.parametrize(("file", "columns", "header", "expected"), read_table(__file__, "shapes"))
def test_columns_are_found(
    file: str, columns: list[str], header: tuple[str, ...] | None, expected: dict[str, Any], project: Path
) -> None:
    named = _rows() if header else [("gone.jpg", "a bird"), *_rows()]  # a first line that is no header and no file's
    rows = [tuple(column.format(name=name, text=text) for column in columns) for name, text in named]
    own_data.table(project / "data" / file, rows, header)
    _init("own", "--images", "photos", "--captions", file)
    source = _source("own")
    assert source.pop("val_share") > 0
    assert source == {"kind": "caption_table", "path": file, "images": "photos", **expected}


def test_json_lines_with_lists_of_captions(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f'{{"file": "{name}", "captions": ["{text}", "{text} too"], "id": 3}}\n' for name, text in _rows()]
    (project / "data/a.jsonl").write_text("".join(lines), encoding="utf-8")
    _init("own", "--images", "photos", "--captions", "a.jsonl")
    assert _source("own")["image_column"] == "file" and _source("own")["caption_column"] == "captions"
    assert "80 captions" in capsys.readouterr().out


def test_the_tables_own_splits_are_kept(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train"] * 30 + ["dev"] * 6 + ["test"] * 4
    rows = [(*row, word) for row, word in zip(_rows(), words, strict=True)]
    own_data.table(project / "data/a.csv", rows, ("image", "caption", "split"))
    scale = _init("own", "--images", "photos", "--captions", "a.csv")
    source = _source("own")
    assert source["splits"] == {"train": "train", "val": "dev", "test": "test"} and "val_share" not in source
    assert scale.pretrain.recipe.batch_size <= 6
    assert "30 images to train on, 6 held out, 40 captions" in capsys.readouterr().out


def test_names_that_yaml_reads_otherwise_are_quoted(project: Path) -> None:
    (project / "data/birds").rename(project / "data/2024")
    (project / "data/photos").rename(project / "data/My photos, 1: {best}")
    folder = "My photos, 1: {best}"
    params = _init("own", "--images", folder, "--captions", f"{folder}/captions.csv", "--probe", "2024")
    data = params.data
    assert data.corpora["own"].source.path == f"{folder}/captions.csv"
    assert data.probes["2024"].source.path == "2024" and params.tables["table1"].probes == ["2024"]


def test_a_test_folder_called_val(project: Path) -> None:
    (project / "data/birds/test").rename(project / "data/birds/val")
    source = _init(*PHOTOS, "--probe", "birds").data.probes["birds"].source
    found = open_probe(source.model_dump(mode="json"), project / "data")
    assert found.facts == {"layout": "val: tests, since there is no folder test"}


def test_a_path_may_start_from_here_or_from_mdc_data(project: Path) -> None:
    for number, start in enumerate(("", "data/", f"{project}/data/")):
        _init(f"own{number}", "--images", f"{start}photos", "--captions", f"{start}photos/captions.csv")
        assert _source(f"own{number}")["path"] == "photos/captions.csv"


def test_a_folder_that_is_linked_into_mdc_data_lies_there(project: Path) -> None:
    (project / "data/photos").rename(project / "elsewhere")
    (project / "data/photos").symlink_to(project / "elsewhere")
    _init(*PHOTOS)
    assert _source("photos")["path"] == "photos/captions.csv"


def test_files_outside_of_mdc_data(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pictures").mkdir()
    (project / "data/photos").rename(project / "pictures/photos")
    own = ["own", "--images", "pictures/photos", "--captions", "pictures/photos/captions.csv", "--probe", "data/birds"]
    said = _refused(capsys, *own)
    assert f"--images {project}/pictures/photos: is outside {project}/data" in said
    assert f"set MDC_DATA={project}, which holds what you name" in said
    os.environ["MDC_DATA"] = str(project)  # the fixture takes it back
    _init(*own)
    assert _source("own")["path"] == "pictures/photos/captions.csv"


@pytest.mark.parametrize(("arguments", "said"), read_table(__file__, "refused"), ids=lambda x: str(x)[:40])
def test_mistakes_are_told_in_one_line(
    arguments: list[str], said: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in _refused(capsys, *arguments)


@pytest.mark.parametrize(("text", "said"), read_table(__file__, "tables"), ids=lambda x: x[:40])
def test_tables_that_cannot_be_meant(text: str, said: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "data/photos/captions.csv").write_text(text, encoding="utf-8")
    assert said in _refused(capsys, *PHOTOS)


def test_a_class_in_one_split_only(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(project / "data/birds/test/red bird")
    said = "birds/test: 1 classes of the other split are missing: red bird"
    assert said in _refused(capsys, *PHOTOS, "--probe", "birds")
    (project / "data/birds/test/red bird").mkdir()  # a folder without images is none
    assert "birds: split test contains no images of red bird" in _refused(capsys, *PHOTOS, "--probe", "birds")
    shutil.rmtree(project / "data/birds/train/red bird")
    (project / "data/birds/test/red bird").rmdir()
    assert "birds: contains one class, blue bird; at least two" in _refused(capsys, *PHOTOS, "--probe", "birds")


def test_a_parameter_file_that_is_not_good_is_left_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("params.yaml").write_text("scale: 7\n", encoding="utf-8")
    assert "params.yaml:1: scale = 7" in _refused(capsys, *PHOTOS)


@pytest.mark.slow
def test_it_runs_as_printed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("Snakefile", "workflow", "pyproject.toml"):
        (project / name).symlink_to(ROOT / name)
    assert main(["init", *PHOTOS, "--probe", "birds"]) == 0
    command = shlex.split(_command(capsys))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = Path(command[1]).read_text(encoding="utf-8")
    assert all(label in rows for label in ("CLIP", "ARC", "MDC", "birds")), rows
    counts = Counter(path.parent.parent.name for path in Path("results/photos/runs").rglob("run.json"))
    assert counts == {"clip": 1, "arc": 1, "mdc": 1}
    again = subprocess.run([*command, "-n"], env=environment, capture_output=True, text=True)
    assert "Nothing to be done" in again.stdout + again.stderr
