"""`mdc init` with a dataset of the hub: what is asked of it, what the scale then says, and shards made of it."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import own_data
import pyarrow
import pyarrow.parquet
import pytest
from fake_hub import COMMIT, Hub, hub_of

from mdc.app.cli import main
from mdc.app.init import estimate
from mdc.data.formats.tar import TarWriter
from mdc.data.shards.index import INDEX
from mdc.plan.config.read import load
from mdc.plan.jobs.plan import Plan

CONVERTED = "89abcdef0123456789abcdef0123456789abcdef"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with forty birds in two parquet files, and a project beside it."""
    monkeypatch.setenv("MDC_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(estimate, "training_seconds", lambda *_: (600.0, "CPU"))
    own_data.parameters(tmp_path)
    rows = own_data.photos(tmp_path / "photos", 40)
    halves = [_parquet(tmp_path / "photos", rows[part::2]) for part in range(2)]
    files = {f"data/train-0000{part}-of-00002.parquet": half for part, half in enumerate(halves)}
    with hub_of("someone/birds", {"README.md": b"a card", **files}, monkeypatch) as hub:
        yield hub


def _parquet(folder: Path, rows: list[tuple[str, str]]) -> bytes:
    images = [{"bytes": (folder / name).read_bytes(), "path": name} for name, _ in rows]
    table = pyarrow.table({"picture": images, "text": [text for _, text in rows]})
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["init", *arguments]) == 2 and not Path("scales/own.yaml").exists()
    said = capsys.readouterr().err
    assert said.startswith("mdc init: ") and said.count("\n") == 1
    return said


@pytest.mark.parametrize("name", ["hub:someone/birds", "someone/birds", "hub:someone/birds/data@main"])
def test_a_dataset_is_looked_at_and_pinned(name: str, hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "own", name]) == 0
    data = load("params.yaml", "own").data
    mirror = data.datasets["own"].mirror
    assert mirror is not None and (mirror.repo, mirror.revision) == ("someone/birds", COMMIT)
    assert mirror.patterns == ["data/*.parquet"]
    source = data.corpora["own"].source
    assert (
        (source.image_column, source.caption_field) == ("picture", "text")
        and source.val_fraction
        and source.image_size == 64
    )
    said = capsys.readouterr().out
    assert "about 40 with captions in someone/birds on the hub, commit 0123456789ab" in said
    assert "about 28 images to train on, 12 held out" in said
    assert "table3" not in load("params.yaml", "own").tables, "of about twelve, half may be too few to caption"


def test_what_was_looked_at_becomes_shards(hub: Hub, tmp_path: Path) -> None:
    assert main(["init", "own", "someone/birds"]) == 0
    hub.revisions["main"] = CONVERTED  # the branch goes on, and the scale stays where it was
    scale, place = ["--scale", "own"], tmp_path / "results/own/data"
    for job in Plan(load("params.yaml", "own")).jobs.values():
        if job.verb in ("obtain", "corpus-parts", "corpus"):
            state = ["--state", str(tmp_path / "state")] if job.verb == "corpus-parts" else []
            assert main([job.verb, job.job, *scale, *state]) == 0
    index = json.loads((place / "corpora/own" / INDEX).read_text())
    counts = {split: there["samples"] for split, there in index["splits"].items()}
    assert sum(counts.values()) == 40 and counts["val"] >= 8 and index["skipped"] == {}


def test_another_formats_parquet_files_are_the_hubs_own(hub: Hub) -> None:
    hub.revisions["refs/convert/parquet"] = CONVERTED
    hub.files[CONVERTED] = {
        f"default/{name.removeprefix('data/')}": data for name, data in hub.files[COMMIT].items() if "data/" in name
    }
    hub.files[COMMIT] = {"birds.zip": b"zip"}
    assert main(["init", "own", "someone/birds"]) == 0
    mirror = load("params.yaml", "own").data.datasets["own"].mirror
    assert mirror is not None and mirror.revision == CONVERTED and mirror.patterns == ["default/*.parquet"]


def test_tars_are_counted_by_their_first_samples(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    buffer = io.BytesIO()
    tar = TarWriter(buffer)
    for number in range(60):
        tar.add(f"{number:03d}.jpg", bytes(4000))
        tar.add(f"{number:03d}.txt", b"a bird")
    tar.close()
    hub.files[COMMIT] = {f"set-train-{part:04d}.tar": buffer.getvalue() for part in range(5)}
    assert main(["init", "own", "someone/birds"]) == 0
    data = load("params.yaml", "own").data
    assert data.datasets["own"].mirror is not None and data.datasets["own"].mirror.patterns == ["*.tar"]
    number = int(capsys.readouterr().out.partition("about ")[2].partition(" ")[0])
    assert 280 < number < 330


def test_what_cannot_be_meant(hub: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    refused = _refused(capsys, "own", "someone/none")
    assert "someone/none (no such file or folder here): no such dataset repository on the hub" in refused
    refused = _refused(capsys, "own", "someone/birds@later")
    assert "someone/birds at later (no such file or folder here): no such commit, branch or tag" in refused
    files = hub.files[COMMIT]
    hub.files[COMMIT] = {**files, "other/train-00000-of-00001.parquet": next(iter(files.values()))}
    assert "has several sets: data, other; name one: hub:someone/birds/data" in _refused(capsys, "own", "someone/birds")
    hub.files[COMMIT] = {"a.zip": b"zip"}
    assert "neither parquet files nor tars of it" in _refused(capsys, "own", "someone/birds")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    refused = _refused(capsys, "own", "someone/birds")
    assert "someone/birds (no such file or folder here): cannot reach the hub" in refused
