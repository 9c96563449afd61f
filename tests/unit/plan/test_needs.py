"""What decides when and where a job runs besides its configuration: cores and GPUs, files of other jobs, the user's own files."""

import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import small_project

from mdc.data.formats.reading import MOST_THREADS
from mdc.plan.config.layers import overlaid
from mdc.plan.config.read import validate
from mdc.plan.data_folder import weights_path
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.needs import check_times, computing, cores, files_of_inputs, files_of_user, value_at
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError

FOLDER = ScaleFolder(Path("r"))
RUN = "alt/ViT-T-12/mdc/s0"
DOWNLOAD: dict[str, Any] = {
    **{"image_size": 64, "rows_per_shard": 9, "max_bytes": 9, "min_image_size": 1, "max_pixels": 9, "max_aspect": 2.0},
    **{"quality": 90, "respect_robots": True},
    "runtime": {
        **{"jobs": 2, "processes": 3, "threads": 64, "timeout": 1.0, "deadline": 2.0, "retries": 0},
        **{"allow_addresses": [], "use_proxy": False},
    },
}


def plan(**scale: Any) -> Plan:
    return Plan(validate(overlaid(small_project.values(), scale)))


def test_images_that_are_made_smaller_take_the_cores_that_read_them() -> None:
    source = {"kind": "caption_table", "path": "own.csv"}
    corpora = {
        name: {"label": name, "source": source | more} for name, more in (("as_is", {}), ("small", {"image_size": 64}))
    }
    found = plan(data={"corpora": corpora})
    assert [cores(found.jobs[f"data/corpora/{name}"], None) for name in corpora] == [1, MOST_THREADS]


def test_cores_and_gpus_follow_from_what_says_how_a_job_computes() -> None:
    shared = {"processes": 2, "threads": 3, "device": "cuda"}
    found = plan(
        data={
            "runtime": {"processes": 5},
            "datasets": {"own": {"path": "own", "list": {"path": "own.csv"}}},
            "download": DOWNLOAD,
        },
        pretrain={"recipe": {**shared, "batch_size": 32}},
        probe={"threads": 2, "runtime": {"workers": 4}},
        score=shared,
        captions=shared,
    )

    def asked(name: str, runtime: str = "") -> tuple[str, int, int]:
        job = found.jobs[name]
        device, processes, _ = computing(job)
        return device, processes, cores(job, value_at(found.scale, runtime))

    assert asked(f"runs/{RUN}", "pretrain.runtime") == ("cuda", 2, 6)
    assert asked(f"scores/{RUN}/last") == asked(f"captions/{RUN}/ft-tuned/best/described") == ("cuda", 2, 6)
    assert asked(f"metrics/{RUN}/ft-tuned/best/described") == ("cuda", 1, 3), "one process measures"
    assert asked(f"probe/{RUN}", "probe.runtime")[1:] == (1, 5), "its workers decode while it computes"
    assert asked("data/obtained/own", "data.download.runtime") == ("cpu", 1, 3), "threads wait for the network"
    assert asked("data/corpora/alt") == asked("table1") == ("cpu", 1, 1)


def test_weights_are_named_that_a_job_reads() -> None:
    jobs = plan().jobs

    def read(name: str) -> list[str]:
        return [str(path) for path in files_of_inputs(jobs[name], FOLDER)]

    assert read(f"probe/{RUN}") == read(f"scores/{RUN}/last") == [f"r/runs/{RUN}/checkpoint.safetensors"]
    assert read("probe/untrained/ViT-T-12/cls/s0") == read("data/vocabularies/words") == []
    written = f"{RUN}/ft-tuned/best/described"
    assert read(f"metrics/{written}") == [f"r/captions/{written}/captions.parquet"]
    assert read("figure_loss") and all(path.endswith("log.jsonl") for path in read("figure_loss"))


@pytest.mark.parametrize(
    ("section", "source", "there", "watched"),
    [
        ("corpora", {"kind": "caption_table", "path": "t.csv", "val_fraction": 0.1}, "t.csv a.png", "t.csv"),
        ("corpora", {"kind": "parquet", "path": "p"}, "p/1.parquet p/b/2.parquet p/c.txt", "p/1.parquet p/b/2.parquet"),
        ("corpora", {"kind": "webdataset", "path": "w", "val_fraction": 0.1}, "w/a/0.tar w/a/0.json", "w/a/0.tar"),
        (
            "probes",
            {"kind": "class_folder", "path": "f"},
            "f/train/cat/1 f/test/cat/2 f/train/x",
            "f/test f/test/cat f/train f/train/cat",
        ),
        ("texts", {"kind": "caption_list", "path": "l"}, "l/a.tsv l/b.csv.gz l/x.png", "l/a.tsv l/b.csv.gz"),
        (
            "choices",
            {"kind": "sugarcrepe_parquet", "path": "s", "task": "add_obj", "images": "i.parquet"},
            "s/add_obj.json s/LICENSE i.parquet",
            "i.parquet s/add_obj.json",
        ),
        ("probes", {"kind": "parquet", "path": "missing.parquet"}, "", ""),
        ("probes", {"kind": "digits"}, "", ""),
    ],
    ids=["table", "parquet", "webdataset", "classes", "lists", "choices", "missing", "none"],
)
def test_the_users_own_files_are_watched(
    section: str, source: dict[str, Any], there: str, watched: str, tmp_path: Path
) -> None:
    for file in there.split():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    jobs = plan(data={section: {"own": {"label": "Own", "source": source}}}).jobs
    assert [
        str(path.relative_to(tmp_path)) for path in files_of_user(jobs[f"data/{section}/own"], tmp_path)
    ] == watched.split()
    if source["kind"] == "webdataset":  # each part of it is a job's
        (parts,) = [job for name, job in jobs.items() if name == "data/parts/own"]
        assert files_of_user(parts, tmp_path) == [tmp_path / "w/a/0.tar"]


@pytest.mark.parametrize(
    ("kind", "watched"),
    [("webdataset", "own/more/deep/0.tar"), ("parquet", "own/more/deep/0.parquet"), ("caption_files", "own/more/deep")],
)
def test_files_below_linked_folders_are_watched(kind: str, watched: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere/deep").mkdir(parents=True)
    for ending in ("tar", "parquet", "txt"):
        (tmp_path / f"elsewhere/deep/0.{ending}").touch()
    (tmp_path / "own").mkdir()
    (tmp_path / "own/more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/loop").symlink_to(tmp_path / "own")
    source = {"kind": kind, "path": "own"}
    job = plan(data={"corpora": {"own": {"label": "Own", "source": source}}}).jobs["data/corpora/own"]
    found = [str(path.relative_to(tmp_path)) for path in files_of_user(job, tmp_path)]
    assert found == (["own", "own/more", watched] if kind == "caption_files" else [watched])


def test_classes_of_splits_elsewhere_are_watched(tmp_path: Path) -> None:
    """A split's folder may be an absolute path."""
    for name in ("elsewhere/cat", "f/test/cat"):
        (tmp_path / name).mkdir(parents=True)
    source = {"kind": "class_folder", "path": "f", "splits": {"train": str(tmp_path / "elsewhere"), "test": "test"}}
    job = plan(data={"probes": {"own": {"label": "Own", "source": source}}}).jobs["data/probes/own"]
    assert files_of_user(job, tmp_path) == [tmp_path / "elsewhere/cat", tmp_path / "f/test/cat"]


def test_a_list_of_urls_is_watched(tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists/1.csv").touch()
    (tmp_path / "own").mkdir()
    (tmp_path / "own/captions.csv").touch()
    data = {"datasets": {"own": {"path": "own", "list": {"path": "lists", "format": "csv"}}}, "download": DOWNLOAD}
    data["texts"] = {"own": {"label": "Own", "source": {"kind": "caption_list", "dataset": "own"}}}
    jobs = plan(data=data).jobs
    for name, watched in (
        ("plans/own", 1),
        ("obtained/own", 1),
        ("downloads/own/0-of-2", 0),
        ("texts/own", 0),
    ):  # which read the plan
        assert files_of_user(jobs[f"data/{name}"], tmp_path) == [tmp_path / "lists/1.csv"] * watched


def test_files_of_models_of_others_are_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("w.pt", "m/open_clip_config.json", "m/open_clip_model.safetensors", "m/README.md", "m/.gitattributes"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    shape = {"image_size": 64, "tokens": 4, "width": 8}
    jobs = plan(
        encoders={
            "file": {
                "label": "A",
                "kind": "timm",
                "model": "resnet18",
                "weights": "w.pt",
                **shape,
            },
            "folder": {"label": "B", "kind": "timm", "model": f"local-dir:{tmp_path}/m", **shape},
            "known": {"label": "C", "kind": "open_clip", "model": "ViT-B-32", "weights": "openai", **shape},
        },
        tables={
            "table1": {"encoders": ["file", "folder", "known"]},
            "table2": {"open_clip": {"own": {"label": "D", "model": "ViT-B-32", "weights": "w.pt"}}},
        },
    ).jobs
    assert weights_path("w.pt", tmp_path) == str(tmp_path / "w.pt") and weights_path("openai", tmp_path) == "openai"
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for file in ("w.pt", "mine.pt"):
        Path(file).touch()
    assert [weights_path(file, tmp_path) for file in ("w.pt", "mine.pt")] == [str(tmp_path / "w.pt"), "mine.pt"]
    folder = [tmp_path / "m/open_clip_config.json", tmp_path / "m/open_clip_model.safetensors"]
    watched = {name: files_of_user(jobs[f"encoders/{name}"], tmp_path) for name in ("file", "folder", "known")}
    assert watched == {"file": [tmp_path / "w.pt"], "folder": folder, "known": []}
    assert files_of_user(jobs["scores/open_clip/own"], tmp_path) == [tmp_path / "w.pt"]


def test_what_is_dated_in_the_future_is_told_with_what_mends_it(tmp_path: Path) -> None:
    """A file, a folder that counts, a link; a minute is a server's clock."""
    table, folder, link = tmp_path / "ein Bild.csv", tmp_path / "classes", tmp_path / "link.csv"
    table.touch()
    folder.mkdir()
    link.symlink_to(table)
    check_times([table, folder, link, tmp_path / "none"])
    for path in (table, folder, link):
        for ahead in (30, 3600):
            os.utime(path, (time.time() + ahead,) * 2, follow_symlinks=False)
            if ahead == 30:
                check_times([table, folder, link])
        with pytest.raises(UserError, match=re.escape(str(path))) as error:
            check_times([folder, link, table] if path != table else [table])
        subprocess.run(str(error.value).partition("to mend: ")[2], shell=True, check=True)
        check_times([table, folder, link])
