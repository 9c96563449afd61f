"""`mdc init`: a scale for one's own data, in a file of its own; every refusal in one line."""

import gzip
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import own_data
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image
from read_table import read_table

from mdc.app.cli import main
from mdc.app.init import estimate
from mdc.app.init.survey import Survey
from mdc.app.init.values import SIZES, TOWERS, choose
from mdc.data.formats.samples import Skipped, held_out
from mdc.data.formats.tar import TarWriter
from mdc.data.sources.source import open_corpus, open_probe
from mdc.plan.config.params import Params
from mdc.plan.config.read import load
from mdc.plan.jobs import context
from mdc.plan.jobs.plan import Plan

ROOT = Path(__file__).resolve().parents[3]
PHOTOS = ["photos", "photos"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with our params.yaml, of one scale, and, in data/, photos with captions and birds of two classes."""
    own_data.parameters(tmp_path)
    own_data.everything(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MDC_DATA", raising=False)
    monkeypatch.setattr(estimate, "training_seconds", lambda *_: (600.0, "CPU"))
    return tmp_path


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
    assert len(text.splitlines()) < 80 and text.count(" # ") > 4 and "$schema=" in text.splitlines()[0]


def test_it_can_become_the_scale_where_no_mode_can_be_set(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On CIFS every chmod is refused."""
    monkeypatch.setattr(os, "chmod", Mock(side_effect=PermissionError))
    _init(*PHOTOS, "--default")
    assert load("params.yaml").scale == "photos"


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
    held_out = ["table3", "figure6", "table_retrieval", "figure_position"]
    tables = [*(["table1", "table6"] if probe else []), *held_out, "table9", "figure3", "figure_loss"]
    assert set(params.tables) == set(tables)
    monkeypatch.setattr(context, "fingerprint", lambda *modules: "0" * 64)
    jobs: dict[str, Any] = dict(Plan(params).jobs)
    runs = [f"photos/ViT-T-8/{method}" for method in ("clip", "arc", "mdc")]
    probes = [f"probe/{run}/s0" for run in runs] + [
        f"probe/untrained/ViT-T-8/{one}/s0" for one in ("cls", "patch_mean")
    ]
    expected = {*tables, "data/corpora/photos", "data/vocabularies/words", *(f"runs/{run}/s0" for run in runs)}
    of_held_out = {one for one in jobs if one.startswith(("captions/", "metrics/", "retrieval/", "positions/"))}
    expected |= {"data/overlaps/photos/corpora/photos/val"}
    of_probe = {"data/probes/birds", "data/overlaps/photos/probes/birds", *probes} if probe else set()
    assert set(jobs) - of_held_out == expected | of_probe
    assert {one.split("/")[3] for one in of_held_out if one.startswith("retrieval/")} == {"clip", "arc", "mdc"}
    if probe:
        clip, arc, mdc = runs
        assert [list(pair) for pair in jobs["table1"].primary] == [[mdc, arc], [mdc, clip]]


def _command(capsys: pytest.CaptureFixture[str]) -> str:
    return next(line for line in capsys.readouterr().out.splitlines() if "snakemake" in line).strip()


def test_what_is_printed_names_the_command(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(estimate, "training_seconds", lambda *given: (asked.append(given[1:]), (600.0, "CPU"))[1])
    monkeypatch.setattr(sys.modules[Survey.__module__], "time", Mock(perf_counter=Mock(side_effect=[0.0, 480.0] * 2)))
    _init(*PHOTOS, "--probe", "birds")
    said = capsys.readouterr().out
    assert "8 minutes" in said, "what reading the images takes of all"
    assert f"splits:   {asked[0][0]} images" in said and not asked[0][2]
    assert "\n  snakemake results/table1.csv --cores all --config scale=photos\n" in said
    assert "2 classes, 24 images to train on, 16 to test" in said
    assert [line.split()[0] for line in said.splitlines()[1:11]] == [
        *("images:", "captions:", "sizes:", "splits:", "left", "probe:", "chosen:", "overfits:"),
        *("warning:", "time:"),  # the birds are pictures of photos
    ]
    assert "40 with captions in photos" in said and "median 32 × 40" in said and "left out: nothing so far" in said
    assert "about 10 minutes on this machine's CPU" in said
    elsewhere = project / "my data"
    (project / "data").rename(elsewhere)
    monkeypatch.setenv("MDC_DATA", str(elsewhere))
    _init("more", *PHOTOS[1:], "--vocabulary", "full")
    assert asked[1][2], "of the whole vocabulary it takes longer"
    command = _command(capsys)
    assert shlex.split(command)[0] == f"MDC_DATA={elsewhere}"
    assert "results/table3.csv" in command and command.endswith("scale=more")


@pytest.mark.parametrize("count", [16, 17, 40, 130, 1000, 5000])
def test_values_fit_the_number_of_images(count: int, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["p000.jpg", *(f"{number}.jpg" for number in range(1, count))]  # the others are not looked at
    own_data.table(project / "data/photos/captions.csv", [(name, "a photo of it") for name in names])
    for name in names[40:]:
        (project / "data/photos" / name).touch()
    for number in range(1, min(40, count)):
        (project / f"data/photos/p{number:03d}.jpg").rename(project / f"data/photos/{number}.jpg")
    scale = _init(*PHOTOS)
    recipe, source = scale.pretrain.recipe, scale.data.corpora["photos"].source
    assert source.kind == "caption_table"
    val = sum(held_out(name, source.val_fraction) for name in names)  # as the source itself does it
    train = count - val
    assert recipe.batch_size <= max(2, count // 8)
    assert recipe.batch_size <= val <= train and (count < 100 or val >= min(64, count // 8))
    steps = recipe.epochs * (train // recipe.batch_size)
    assert steps >= 300 and (recipe.epochs == 40 or steps < 300 + train // recipe.batch_size)
    assert recipe.warmup_steps < steps / 4 and recipe.validate_every <= steps and recipe.batch_size <= 32
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
    _init("own", "photos", file)
    source = _source("own")
    assert source.pop("val_fraction") > 0
    assert source == {"kind": "caption_table", "path": file, "images": "photos", **expected}
    opened = open_corpus(load("params.yaml", "own").data.corpora["own"].source.complete(), project / "data")
    found = [one for split in ("train", "val") for one in opened.samples(split, Skipped())]
    assert len(found) == 40 and "a bird, number 7" in {sample.captions[0] for sample in found}


def test_json_lines_with_lists_of_captions(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f'{{"file": "{name}", "captions": ["{text}", "{text} too"], "id": 3}}\n' for name, text in _rows()]
    (project / "data/a.jsonl").write_text("".join(lines), encoding="utf-8")
    _init("own", "photos", "a.jsonl")
    assert _source("own")["image_column"] == "file" and _source("own")["caption_column"] == "captions"
    assert "captions: 80 from a.jsonl (column captions)" in capsys.readouterr().out


def test_the_tables_own_splits_are_kept(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train"] * 30 + ["dev"] * 6 + ["test"] * 4
    rows = [(*row, word) for row, word in zip(_rows(), words, strict=True)]
    own_data.table(project / "data/a.csv", rows, ("image", "caption", "split"))
    scale = _init("own", "photos", "a.csv")
    source = _source("own")
    assert source["splits"] == {"train": "train", "val": "dev", "test": "test"} and "val_fraction" not in source
    assert scale.pretrain.recipe.batch_size <= 6
    assert "30 images to train on, 6 held out (the data's own)" in capsys.readouterr().out
    rows = [(*row, word) for row, word in zip(_rows(), ["train"] * 17 + ["dev"] * 11 + ["test"] * 12, strict=True)]
    own_data.table(project / "data/b.csv", rows, ("image", "caption", "split"))
    scale = _init("more", "photos", "b.csv")
    captions, tables = scale.captions, scale.tables
    assert captions is not None and captions.datasets["more"].split == "test"
    assert tables["table_retrieval"].pairs == 10  # of 11 in val
    own_data.table(project / "data/c.csv", [row for row in rows if row[2] != "dev"], ("image", "caption", "split"))
    _init("other", "photos", "c.csv")
    assert _source("other")["splits"] == {"train": "train", "val": "test"}


def test_names_that_yaml_reads_otherwise_are_quoted(project: Path) -> None:
    (project / "data/birds").rename(project / "data/2024")
    (project / "data/photos").rename(project / "data/My photos, 1: {best}")
    folder = "My photos, 1: {best}"
    params = _init("own", folder, "--probe", "2024")
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
        _init(f"own{number}", f"{start}photos")
        assert _source(f"own{number}")["path"] == "photos/captions.csv"


def test_a_folder_that_is_linked_into_mdc_data_lies_there(project: Path) -> None:
    (project / "data/photos").rename(project / "elsewhere")
    (project / "data/photos").symlink_to(project / "elsewhere")
    _init(*PHOTOS)
    assert _source("photos")["path"] == "photos/captions.csv"


def test_photos_that_are_links_and_linked_folders_are_found(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos, elsewhere = project / "data/photos", project / "elsewhere"
    elsewhere.mkdir()
    for number, path in enumerate(sorted(photos.glob("*.jpg"))):
        path.rename(elsewhere / path.name)
        if number % 2:
            path.symlink_to(elsewhere / path.name)
    (photos / "more").symlink_to(elsewhere)
    rows = [(name if number % 2 else f"more/{name}", text) for number, (name, text) in enumerate(_rows())]
    own_data.table(photos / "captions.csv", rows)
    _init(*PHOTOS)
    said = capsys.readouterr().out
    assert "40 with captions in photos" in said and "left out: nothing so far" in said
    assert "images" not in _source("photos"), "names start from the table's folder"


def test_links_to_the_same_photos_count_once_and_a_broken_one_is_counted(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos, elsewhere = project / "data/photos", project / "elsewhere"
    (photos / "captions.csv").unlink()
    _sidecars(project / "data")
    photos.rename(elsewhere)
    photos.mkdir()
    for name in ("train", "val"):
        (photos / name).symlink_to(elsewhere)
    (photos / "gone").symlink_to(project / "nowhere")
    _init(*PHOTOS)
    said = capsys.readouterr()
    assert "40 with captions in photos" in said.out and "links that lead nowhere: 1" in said.out
    assert "photos/val" in said.err


def test_small_classes_are_taken_and_a_class_of_one_image_is_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (f"c{number:02d}" for number in range(37)):
        for number in range(10):
            own_data.photo(project / f"data/pets/{name}/{number}.jpg", (number, 0, 0), number)
    _init(*PHOTOS, "--probe", "pets")
    assert "37 classes" in capsys.readouterr().out
    own_data.photo(project / "data/pets/lone/1.jpg", (0, 0, 0), 0)
    assert "lone" in _refused(capsys, "other", PHOTOS[1], "--probe", "pets")


def test_what_is_left_out_is_counted_and_named_by_the_persons_files(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(str(project / "data/photos" / name), text) for name, text in _rows()]
    own_data.table(project / "data/photos/captions.csv", [*rows, (rows[0][0], ""), ("gone.jpg", "a bird")])
    _init(*PHOTOS)
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "left out" in line]
    assert "nothing captions" not in said and "captions without words: 1" in said
    assert "image file is missing: 1 (first: file gone.jpg)" in said


def test_files_outside_of_mdc_data(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pictures").mkdir()
    (project / "data/photos").rename(project / "pictures/photos")
    own = ["own", "pictures/photos", "data/photos.csv", "--probe", "data/birds"]
    (project / "pictures/photos/captions.csv").rename(project / "data/photos.csv")
    said = _refused(capsys, *own)
    assert f"{project}/pictures/photos: is outside {project}/data" in said
    assert f"set MDC_DATA={project}, which holds what you name" in said
    os.environ["MDC_DATA"] = str(project)  # the fixture takes it back
    _init(*own)
    assert _source("own")["path"] == "data/photos.csv" and _source("own")["images"] == "pictures/photos"


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
    shutil.rmtree(project / "data/birds")
    (project / "data/birds/train").mkdir(parents=True)
    assert "birds: contains no class; at least two" in _refused(capsys, *PHOTOS, "--probe", "birds")


def test_a_parameter_file_that_is_not_good_is_left_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("params.yaml").write_text("scale: 7\n", encoding="utf-8")
    assert "params.yaml:1: scale = 7" in _refused(capsys, *PHOTOS)


def _captions(count: int = 40) -> dict[str, list[str]]:
    return {name: [text, f"{text} again"] for name, text in _rows(count)}


def _sidecars(data: Path) -> None:
    for name, texts in _captions().items():
        (data / "photos" / name).with_suffix(".txt").write_text("\n".join(texts), encoding="utf-8")


def _coco(data: Path) -> None:
    names = list(enumerate(_captions().items()))
    images = [{"id": 7 + number, "file_name": name} for number, (name, _) in names]
    notes = [{"image_id": 7 + number, "caption": text} for number, (_, texts) in names for text in texts]
    with gzip.open(data / "photos/captions.json.gz", "wt") as file:
        json.dump({"images": images, "annotations": notes}, file)


def _json_list(data: Path) -> None:
    rows = [{"image": name, "caption": texts} for name, texts in _captions().items()]
    (data / "photos/captions.json").write_text(json.dumps(rows))


def _json_object(data: Path) -> None:
    (data / "photos/captions.json").write_text(json.dumps(_captions()))


def _flickr8k(data: Path) -> None:
    lines = [f"{name}#{number}\t{text}\n" for name, texts in _captions().items() for number, text in enumerate(texts)]
    (data / "photos/Flickr8k.token.txt").write_text("".join(lines))


def _tars(data: Path) -> None:
    for shard in range(2):
        with (data / f"photos/{shard:05d}.tar").open("wb") as file:
            tar = TarWriter(file)
            for name, texts in list(_captions().items())[shard::2]:
                tar.add(name, (data / "photos" / name).read_bytes())
                tar.add(f"{name.removesuffix('.jpg')}.json", json.dumps({"captions": texts}).encode())
            tar.close()
    _gone(data)


def _parquet(data: Path) -> None:
    """As a dataset of the hub lies there: an image struct, a split in the files' names."""
    for split, rows in (("train", list(_captions().items())[:32]), ("test", list(_captions().items())[32:])):
        images = [{"bytes": (data / "photos" / name).read_bytes(), "path": name} for name, _ in rows]
        table = pyarrow.table(
            {"image": images, "id": list(range(len(rows))), "sentences": [texts for _, texts in rows]}
        )
        (data / "photos/data").mkdir(exist_ok=True)
        pyarrow.parquet.write_table(table, data / f"photos/data/{split}-00000-of-00001.parquet")
    _gone(data)


def _gone(data: Path) -> None:
    for path in (data / "photos").glob("p*.jpg"):
        path.unlink()


@pytest.mark.parametrize(("kind", "lay"), [
    ("caption_files", _sidecars), ("caption_table", _coco), ("caption_table", _json_list), ("caption_table", _json_object),
    ("caption_table", _flickr8k), ("webdataset", _tars), ("parquet", _parquet),
])  # fmt: skip
def test_a_folder_is_recognised_and_read(
    kind: str, lay: Callable[[Path], None], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "data/photos/captions.csv").unlink()
    lay(project / "data")
    source = _init(*PHOTOS).data.corpora["photos"].source
    said = capsys.readouterr().out
    assert source.kind == kind and "40 with captions in photos" in said and " 80 from " in said
    opened = open_corpus(source.complete(), project / "data")
    found = {split: [sample.captions for sample in opened.samples(split, Skipped())] for split in ("train", "val")}
    assert sorted(map(str, found["train"] + found["val"])) == sorted(
        str(tuple(texts)) for texts in _captions().values()
    )
    assert f"{len(found['train'])} images to train on, {len(found['val'])} held out" in said and len(found["val"]) >= 4


@pytest.mark.parametrize("several", ["train", "val"])
def test_what_the_first_of_several_tars_tells_is_an_estimate(
    several: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"train": ["p000.jpg"] * 20, "val": ["p001.jpg"] * 10}
    (project / "data/tars").mkdir()
    for split in names:
        for shard in range(2 if split == several else 1):
            with (project / f"data/tars/{split}-{shard:05d}.tar").open("wb") as file:
                tar = TarWriter(file)
                for number, name in enumerate(names[split]):
                    tar.add(f"{number}.jpg", (project / "data/photos" / name).read_bytes())
                    tar.add(f"{number}.txt", b"a bird")
                tar.close()
    _init("own", "tars")
    assert f"about {40 if several == 'val' else 50} with captions" in capsys.readouterr().out


def test_a_validation_split_of_parquet_files_is_not_the_test_split(project: Path) -> None:
    for split in ("train", "val", "test"):
        images = [
            {"bytes": (project / f"data/photos/p{n:03d}.jpg").read_bytes(), "path": f"{n}.jpg"} for n in range(20)
        ]
        (project / "data/hub").mkdir(exist_ok=True)
        pyarrow.parquet.write_table(
            pyarrow.table({"image": images, "caption": ["a bird"] * 20}),
            project / f"data/hub/{split}-00000-of-00001.parquet",
        )
    _init("own", "hub")
    assert _source("own")["splits"] == {split: split for split in ("train", "val", "test")}


def test_what_is_left_out_is_said_with_its_reason(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos = project / "data/photos"
    (photos / "p000.jpg").write_bytes(b"no image")
    (photos / "p001.jpg").unlink()
    own_data.photo(photos / "more.jpg", (1, 2, 3), 7)
    _init(*PHOTOS)
    said = capsys.readouterr().out
    assert "39 with captions in photos" in said and "images that nothing captions: 1" in said
    assert "image file is missing: 1 (first:" in said and "p001.jpg)" in said
    assert "image cannot be decoded: 1 (first:" in said and "p000.jpg)" in said
    assert "max_skipped" not in said, "2 of 41 are a job's 5 %"
    (photos / "p002.jpg").unlink()
    _init("again", "photos")
    assert "above max_skipped (5%), so the job will stop" in capsys.readouterr().out


def test_many_files_beside_images_are_no_tables(project: Path) -> None:
    """A record and a text of each image, as img2dataset leaves them, and the labels of something else."""
    (project / "data/photos/captions.csv").unlink()
    _sidecars(project / "data")
    for name, _ in _rows():
        (project / "data/photos" / name).with_suffix(".json").write_text(
            json.dumps({"image": name, "caption": "a bird, not this"})
        )
        label = project / "data/photos/labels" / name
        label.parent.mkdir(exist_ok=True)
        label.with_suffix(".txt").write_text("0 0.5 0.5 0.1 0.1\n")
    assert _init(*PHOTOS).data.corpora["photos"].source.kind == "caption_files"


def test_large_photos_are_kept_small(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("photos/p000.jpg", *(f"photos/p{number:03d}.jpg" for number in range(40))):
        Image.new("RGB", (400, 300), (200, 10, 10)).save(project / "data" / name)
    data = _init(*PHOTOS, "--probe", "birds").data
    assert data.corpora["photos"].source.image_size == data.probes["birds"].source.image_size == 64
    assert "median 400 × 300" in (said := capsys.readouterr().out) and "larger ones are kept at 64 pixels" in said


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size.pairs))
def test_values_by_the_number_of_pairs(size: Any) -> None:
    pairs = max(size.pairs, 8000)
    values = choose(Survey({"train": pairs}, about=True), True, None, {})
    assert values.size == size and values.val_fraction is not None and values.stored is not None
    assert values.stored >= 8 / 7 * size.image_size and not size.image_size % TOWERS[size.tower][0]["patch_size"]
    assert (size.vocabulary == "full") == (pairs >= 20_000)
    assert values.train + values.val == pairs and values.val >= size.batch_size


@pytest.mark.parametrize(("pairs", "chosen"), [(19_999, "words"), (20_000, "full")])
def test_the_whole_vocabulary_is_taken_from_so_many_pairs_on_or_where_it_is_asked_for(pairs: int, chosen: str) -> None:
    for asked, expected in ((None, chosen), ("words", "words"), ("full", "full")):
        values = choose(Survey({"train": pairs}, about=True), True, None, {"vocabulary": asked})
        assert values.size.vocabulary == expected


def test_flags_choose_otherwise(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--tower", "ViT-S-16", "--image-size", "96", "--batch-size", "4", "--epochs", "2", "--vocabulary", "full"]
    params = _init(*PHOTOS, *flags)
    backbone, recipe = params.pretrain.backbones["ViT-S-16"], params.pretrain.recipe
    assert (backbone.image_size, recipe.batch_size, recipe.epochs) == (96, 4, 2)
    assert params.data.vocabularies == {"words": "full"}
    assert "ViT-S-16 at 96 pixels, 2 passes in batches of 4, CLIP's whole vocabulary" in capsys.readouterr().out
    assert "--image-size 100: ViT-S-16 has patches of 16" in _refused(
        capsys, "own", "photos", "--tower", "ViT-S-16", "--image-size", "100"
    )
    assert "--epochs 0: needed: a positive number" in _refused(capsys, "own", "photos", "--epochs", "0")
    assert "--batch-size 64: there are 40 images" in _refused(capsys, "own", "photos", "--batch-size", "64")


def test_the_time_is_measured(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short, params = (_init(f"of{epochs}", "photos", "--epochs", epochs) for epochs in ("2", "6"))
    monkeypatch.undo()
    assert estimate.training_seconds(params, 10**5, 9, False)[0] > 10
    monkeypatch.setattr(estimate, "_seconds", lambda *_: 0.5)
    once, ten_times = (estimate.training_seconds(params, pairs, 9, False)[0] for pairs in (10**5, 10**6))
    assert 5 < ten_times / once < 20
    monkeypatch.setattr(estimate, "_seconds", lambda *_: 0.0)  # which leaves what reading takes, of every pass
    less, more = (estimate.training_seconds(one, 10**5, 9, False)[0] for one in (short, params))
    assert more == pytest.approx(3 * less) and less > 0


def test_two_tables_and_none(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos = project / "data/photos"
    shutil.copy(photos / "captions.csv", photos / "more.csv")
    said = _refused(capsys, *PHOTOS)
    assert (
        "data/photos: captions in captions.csv and in more.csv; name one: mdc init NAME photos photos/captions.csv"
        in said
    )
    _init("own", "photos", "photos/more.csv")
    for name in ("captions.csv", "more.csv"):
        (photos / name).unlink()
    assert "data/photos: contains 40 images and no captions; needed: a table" in _refused(capsys, *PHOTOS)
    (project / "data/empty").mkdir()
    assert "empty: contains no images and no .tar or .parquet file; it has nothing" in _refused(
        capsys, "other", "empty"
    )
    (project / "data/empty/gone").symlink_to(project / "nowhere")
    assert "gone" in _refused(capsys, "other", "empty")
    for path in photos.glob("*.jpg"):
        path.write_bytes(b"none")
    own_data.table(photos / "captions.csv", _rows())
    assert "photos: none of 40 images can be read (image cannot be decoded: 40" in _refused(capsys, *PHOTOS)


@pytest.mark.slow
def test_it_runs_as_printed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("Snakefile", "workflow", "pyproject.toml"):
        (project / name).symlink_to(ROOT / name)
    own_data.everything(project / "data", 300)
    assert main(["init", *PHOTOS, "--probe", "birds", "--epochs", "10"]) == 0
    command = shlex.split(_command(capsys))
    command[2:2] = ["results/table3.csv", "results/table_retrieval.csv"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = Path(command[1]).read_text(encoding="utf-8")
    assert all(label in rows for label in ("CLIP", "ARC", "MDC", "birds")), rows
    counts = Counter(path.parent.parent.name for path in Path("results/photos/runs").rglob("run.json"))
    assert counts == {"clip": 1, "arc": 1, "mdc": 1}
    assert "MDC" in Path("results/table3.csv").read_text() and "CLIP" in Path("results/table_retrieval.csv").read_text()
    again = subprocess.run([*command, "-n"], env=environment, capture_output=True, text=True)
    assert "Nothing to be done" in again.stdout + again.stderr
