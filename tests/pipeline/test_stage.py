"""`mdc stage`: Snakemake starts only if a record, a file or a copy is not as it is asked for now."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_project
from small_project import SCALE
from tampering import put

from mdc.app.cli import main
from mdc.plan.records import read_json, write_json, write_text
from mdc.plan.stage import INDEX
from mdc.plan.verbs import LAYERS

pytestmark = pytest.mark.usefixtures("own_copy")
RUN = "runs/alt/ViT-T-12/mdc/s0"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str] | None]:
    """What a stage asks Snakemake for, None if it starts none."""

    def call(name: str, scale: str = SCALE) -> list[str] | None:
        asked: list[list[str]] = []
        monkeypatch.setattr(os, "execv", lambda path, words: asked.append(words[1:]))
        assert main(["stage", name, "--scale", scale]) == 0, capsys.readouterr().err
        return asked[0] if asked else None

    return call


def test_what_is_as_asked_starts_no_snakemake(stage: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index"]) == 0
    for name in (*LAYERS, "table1", "figure_loss", INDEX):
        assert stage(name) is None
    assert "table1: as asked; nothing to do" in capsys.readouterr().out


def _changed_value() -> None:
    values = small_project.values(seeds=(0, 1))
    values["probe"]["lr"] = 0.2
    small_project.write_params(Path(), values)


def _changed_input() -> None:
    path = Path("results", SCALE, "data/probes/shape/index.json")
    write_json(path, {**read_json(path), "more": 1})


def _lost(file: str) -> Callable[[], None]:
    return lambda: Path("results", file).unlink()


def _other_copy() -> None:
    write_text(Path("results/table1.csv"), "another scale's\n")


def _other_record() -> None:
    write_json(Path("results/table1.json"), {"config": {"scale": "another"}})


@pytest.mark.parametrize(
    ("change", "probes", "forced"),
    [
        (_changed_value, True, ""),
        (_changed_input, True, ""),
        (_lost(f"{SCALE}/{RUN}/checkpoint.safetensors"), True, ""),
        (_lost(f"{SCALE}/data/corpora/alt/index.json"), True, ""),
        (_lost(f"{SCALE}/table1/table1.csv"), False, "make_table1"),
        (_lost("table1.html"), False, "table1"),
        (_other_copy, False, "table1"),
        (_other_record, False, "table1"),
    ],
)
def test_what_is_not_asks_snakemake(change: Callable[[], None], probes: bool, forced: str, stage: Any) -> None:
    change()
    rest = ["--cores", "all", "--config", f"scale={SCALE}"]
    assert stage("probe") == (["probe_all", *rest] if probes else None)
    assert stage("table1") == ["table1", *rest, *(["--forcerun", forced] if forced else [])]
    assert stage("table9") is None


ITEMS = f"results/{SCALE}/probe/alt/ViT-T-12/mdc/s0/items.parquet"


def test_a_file_that_is_gone_is_made_again(stage: Any) -> None:
    Path(ITEMS).unlink()
    assert stage("probe")[-2:] == ["--forcerun", ITEMS.replace("items.parquet", "probe.json")]


@pytest.mark.parametrize(
    ("asked", "edited", "mend"),
    [
        ("table1", ["table1.csv", f"{SCALE}/table1/table1.csv"], "table1 --cores all --forcerun make_table1"),
        (INDEX, [f"{SCALE}/table9/table9.md"], "table9 --cores all --forcerun make_table9"),
        ("probe", [ITEMS[8:]], "probe.json --cores all --forcerun results/"),
    ],
)
def test_an_edited_result_is_not_certified(
    asked: str, edited: list[str], mend: str, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "execv", lambda *_: None)
    assert main(["index"]) == 0
    for file in edited:
        path = Path("results", file)
        put(path, path.read_bytes().replace(b"1", b"7") + b" ")
        if asked != "probe":  # of tables the time counts for nothing
            os.utime(path, (1e9, 1e9))
    for scale in ("", f" --config scale={SCALE}"):
        said = refused("stage", asked, "--scale", SCALE)
        assert f"results/{edited[-1]}: not the file" in said and mend.replace("all", f"all{scale}") in said
        put(Path("params.yaml"), Path("params.yaml").read_text().replace(f"scale: {SCALE}", "scale: mini"))


def test_a_users_file_that_changed_asks_snakemake(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdc.plan.stage.files_of_user", lambda job, data: [Path("mine")] * (job.verb == "corpus"))
    Path("mine").touch()
    assert stage("data") and stage("table1") and stage("table9") is None
    os.utime("mine", (1e9, 1e9))
    assert stage("data") is None


def test_a_page_that_is_older_than_what_it_shows_asks_snakemake(stage: Any) -> None:
    assert stage(INDEX) is not None, "there is none"
    assert main(["index"]) == 0
    assert stage(INDEX) is None
    os.utime("results/index.html", (1e9, 1e9))
    assert stage(INDEX) == ["results/index.html", "--cores", "all", "--config", f"scale={SCALE}"]


def test_of_a_table_that_the_scale_does_not_name_a_note_is_kept(stage: Any) -> None:
    values = {**small_project.values(), "scale": "lone"}
    values["tables"] = {"table9": {}}
    small_project.write_params(Path(), values)
    note = Path("results/lone/table1/not_named.txt")
    assert stage("table1", "lone") is None and re.search("lone names no table1", note.read_text())
    values["tables"] = small_project.values()["tables"]
    small_project.write_params(Path(), values)
    assert stage("table1", "lone") is not None and not note.exists()


def test_the_page_of_a_scale_without_tables_is_made(stage: Any) -> None:
    values = {**small_project.values(), "scale": "lone", "tables": {}}
    small_project.write_params(Path(), values)
    assert stage(INDEX, "lone") == ["results/index.html", "--cores", "all", "--config", "scale=lone"]
    assert not Path("results/lone/index/not_named.txt").exists()
    assert main(["index", "--scale", "lone"]) == 0 and stage(INDEX, "lone") is None


@pytest.mark.parametrize("link", ["results", f"results/{SCALE}"])
def test_results_elsewhere_are_refused_before_any_work(
    link: str, stage: Any, refused: Callable[..., str], tmp_path: Path
) -> None:
    Path(link).rename(tmp_path / "scratch")
    Path(link).symlink_to(tmp_path / "scratch")
    for name in ("data", "table1"):
        assert str(tmp_path / "scratch") in refused("stage", name, "--scale", SCALE)


def test_a_stage_that_there_is_not(refused: Callable[..., str]) -> None:
    assert "mean table1?); allowed: data, pretrain" in refused("stage", "tabel1", "--scale", SCALE)
