"""`mdc features`: the numbers that a probe sees, from a folder, parquet files and webdataset shards."""

import io
import json
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from data_samples import encoded
from PIL import Image
from small_project import ARC, CLIP, MDC
from tqdm import tqdm

from mdc.app import resumable
from mdc.app.cli import main
from mdc.app.export import pictures
from mdc.data.formats.images import center_resize
from mdc.models.encoder import pool
from mdc.models.runs import open_run
from mdc.plan.records import read_json

COUNT = 70


@pytest.fixture(scope="module")
def photos() -> dict[str, bytes]:
    """Encoded images by name, of several sizes."""
    return {f"{'ab'[n % 2]}/{n:03d}.png": encoded(n, 50, 40 + n % 3 * 10) for n in range(COUNT)}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FILES", "_ROWS", "_SAMPLES"):
        monkeypatch.setattr(pictures, name, 16)


def folder_of(photos: dict[str, bytes], place: Path) -> Path:
    for name, data in photos.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    return place


def call(r: Path, images: Path, out: Path, *more: str, run: str = MDC) -> list[str]:
    return ["features", run, str(images), "--out", str(out), "--scale", r.name, *more]


def asked(r: Path, images: Path, out: Path, *more: str, run: str = MDC) -> int:
    return main(call(r, images, out, *more, run=run))


def read(out: Path) -> dict[str, np.ndarray[Any, Any]]:
    table = pq.read_table(out)
    values = np.array(table["features"].to_pylist(), dtype=np.float32)
    return dict(zip(table["key"].to_pylist(), values, strict=True))


@torch.no_grad()
def expected(r: Path, run: str, photos: dict[str, bytes], feature: str) -> dict[str, np.ndarray[Any, Any]]:
    """One image at a time."""
    model = open_run(r / "runs" / run)[0].load().eval()
    found = {}
    for name, data in photos.items():
        pixels = center_resize(Image.open(io.BytesIO(data)).convert("RGB"), 48)
        prepared = model.encoder.prepared(torch.from_numpy(pixels).permute(2, 0, 1)[None])
        if feature == "embedding":
            found[name] = model.embed_images(prepared)[0].numpy()
        else:
            found[name] = pool(*model.encoder(prepared), feature)[0].numpy()
    return found


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert list(found) == list(wanted), "in order"
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("run", "feature", "is_"),
    [
        (MDC, "probed", "patch_mean"),
        (ARC, "cls", "cls"),
        (CLIP, "probed", "cls"),
        (CLIP, "embedding", "embedding"),
    ],
)
def test_features_of_a_folder_are_those_of_each_image(
    r: Path, photos: dict[str, bytes], tmp_path: Path, run: str, feature: str, is_: str
) -> None:
    place, out = folder_of(photos, tmp_path / "photos"), tmp_path / "out.parquet"
    assert asked(r, place, out, "--feature", feature, "--processes", "1", run=run) == 0
    assert_same(read(out), dict(sorted(expected(r, run, photos, is_).items())))
    told = json.loads(pq.read_schema(out).metadata[b"mdc"])
    manifest = read_json(r / "runs" / run / "run.json")
    assert told["checkpoint_sha256"] == manifest["outputs"]["checkpoint.safetensors"]
    assert told["run"] == manifest["id"] and told["feature"] == is_
    assert pq.read_table(out)["run"].unique().to_pylist() == [told["checkpoint_sha256"]]


def test_parquet_files_and_shards_give_the_same(r: Path, photos: dict[str, bytes], tmp_path: Path) -> None:
    wanted = expected(r, MDC, photos, "patch_mean")
    names, data = list(photos), list(photos.values())
    plain = pa.table({"id": names, "image": data})
    pq.write_table(plain, tmp_path / "plain.parquet", row_group_size=30)
    nested = pa.table({"img": [{"bytes": one, "path": None} for one in data], "label": list(range(COUNT))})
    (tmp_path / "nested").mkdir()
    pq.write_table(nested.slice(0, 40), tmp_path / "nested/0.parquet")
    pq.write_table(nested.slice(40), tmp_path / "nested/1.parquet")
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        # what a Mac lays beside pictures
        for name in ("._00000.png", ".DS_Store", "./.hidden/x.png"):
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"no "))
        for number, one in enumerate(photos.values()):
            for ending, content in ((".txt", b"words"), (".png", one)):
                info = tarfile.TarInfo(f"{number:05d}{ending}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    for source, keys in (
        ("plain.parquet", names),
        ("nested", [f"{n // 40}.parquet/{n % 40}" for n in range(COUNT)]),
        ("shard.tar", [f"{n:05d}" for n in range(COUNT)]),
    ):
        out = tmp_path / f"{source}-out.parquet"
        assert asked(r, tmp_path / source, out, "--processes", "2") == 0
        assert_same(read(out), dict(zip(keys, wanted.values(), strict=True)))


def test_any_number_of_processes_gives_the_same_bytes(r: Path, photos: dict[str, bytes], tmp_path: Path) -> None:
    place = folder_of(photos, tmp_path / "photos")
    for count in (1, 3):
        assert asked(r, place, tmp_path / f"{count}.parquet", "--processes", str(count)) == 0
    assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "3.parquet").read_bytes()


def test_a_bar_counts_the_images_that_are_done(
    r: Path, photos: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[Any] = []

    def shown(**options: Any) -> Any:
        bars.append(tqdm(**{**options, "disable": False, "file": io.StringIO()}))
        return bars[-1]

    monkeypatch.setattr(resumable, "progress", shown)
    place, out = folder_of(photos, tmp_path / "photos"), tmp_path / "out.parquet"
    assert asked(r, place, out, "--processes", "2") == 0
    (bar,) = bars
    assert bar.n == bar.total == len(photos) and bar.unit == "image" and bar.initial == 0


def test_pieces_of_other_images_are_not_taken(r: Path, photos: dict[str, bytes], tmp_path: Path) -> None:
    place, out = folder_of(photos, tmp_path / "photos"), tmp_path / "out.parquet"
    assert asked(r, place, out) == 0
    first = read(out)
    assert asked(r, place, out) == 0, "is there already"
    out.rename(tmp_path / "first.parquet")
    parts = tmp_path / ".out.parquet.parts"
    parts.mkdir()
    (parts / "state.json").write_text('{"run": "another"}')
    (parts / "00000000.parquet").write_bytes(b"of another call")
    time.sleep(0.01)
    (place / "a/000.png").write_bytes(photos["b/001.png"])
    assert asked(r, place, out) == 0
    np.testing.assert_allclose(read(out)["a/000.png"], first["b/001.png"], atol=1e-5)


def test_images_that_cannot_be_read_are_named_and_the_others_done(
    r: Path, photos: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, out = folder_of(photos, tmp_path / "photos"), tmp_path / "out.parquet"
    (place / "a/002.png").write_bytes(b"not a picture")
    (place / "c.jpg").write_bytes(b"")
    assert asked(r, place, out, "--processes", "2") == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "2 of 71 images could not be read" in said and "a/002.png" in said and "c.jpg" in said
    assert set(read(out)) == set(photos) - {"a/002.png"}
    assert asked(r, place, out) == 2
    assert capsys.readouterr().err.splitlines()[-1] == said, "they are missing still"


def test_a_name_that_is_no_text_is_one_that_cannot_be_read(
    r: Path, photos: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, out = folder_of(photos, tmp_path / "photos"), tmp_path / "out.parquet"
    Path(os.fsdecode(os.fsencode(place) + b"/caf\xe9.png")).write_bytes(photos["a/000.png"])
    assert asked(r, place, out, "--processes", "1") == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "1 of 71 images" in said and "caf\\udce9.png (its name is not UTF-8" in said
    assert set(read(out)) == set(photos) and not (tmp_path / ".out.parquet.parts").exists()


def test_the_same_images_are_known_however_their_folder_is_written_and_whatever_lies_beside_them(
    r: Path, photos: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder_of(photos, tmp_path / "photos")
    out = place / "out.parquet"
    parts = place / ".out.parquet.parts"
    parts.mkdir()
    (parts / "00000000.parquet").write_bytes(b"of a call that was killed")
    (place / "._001.png").write_bytes(b"what a Mac lays there")
    assert asked(r, place, out, "--processes", "1") == 0
    first = out.read_bytes()
    (place / "notes.txt").write_text("a log")
    parts.mkdir()  # of a call that was killed before it tidied up
    assert asked(r, Path(os.path.relpath(place)), Path(os.path.relpath(out))) == 0
    assert "already exists" in capsys.readouterr().out
    assert out.read_bytes() == first and not parts.exists()


def test_keys_of_parquet_files_are_columns_that_tell_their_rows_apart(
    r: Path, photos: dict[str, bytes], tmp_path: Path, refused: Callable[..., str]
) -> None:
    data = list(photos.values())[:4]
    usual = {"key": ["a", "a", "b", "c"], "id": [7, None, 8, 9], "image_id": [4, 3, 2, 1]}
    pq.write_table(pa.table({"image": data, **usual, "lists": [[1], [2], [3], [4]]}), tmp_path / "rows.parquet")
    out = tmp_path / "out.parquet"
    assert asked(r, tmp_path / "rows.parquet", out) == 0
    assert list(read(out)) == ["4", "3", "2", "1"], "the first usual column whose values are each there once"
    for column, said in (
        ("key", "2 rows have 'a'"),
        ("id", "1 of 4 rows have none"),
        ("lists", "it contains list<element: int64>"),
    ):
        error = refused(*call(r, tmp_path / "rows.parquet", tmp_path / "more.parquet", "--key-column", column))
        assert said in error and "texts or whole numbers, each once" in error
    pq.write_table(pa.table({"image": data, "key": ["a"] * 4}), tmp_path / "none.parquet")
    assert asked(r, tmp_path / "none.parquet", tmp_path / "none-out.parquet") == 0
    assert list(read(tmp_path / "none-out.parquet")) == ["0", "1", "2", "3"], "no column: the number of the row"


def test_what_cannot_be_done_ends_in_one_line(
    r: Path, photos: dict[str, bytes], tmp_path: Path, refused: Callable[..., str]
) -> None:
    place, out = folder_of(photos, tmp_path / "photos"), tmp_path / "out.parquet"
    (tmp_path / "mine.parquet").write_bytes(b"mine")
    mixed = folder_of({"a.png": b"", "b.tar": b""}, tmp_path / "mixed")
    pq.write_table(pa.table({"picture": [b""]}), tmp_path / "columns.parquet")
    for images, where, more, said in (
        (mixed, out, [], "1 images, 1 tar"),
        (place, tmp_path / "mine.parquet", [], "choose another file"),
        (tmp_path / "columns.parquet", out, [], "it has picture"),
        (tmp_path / "columns.parquet", out, ["--image-column", "x"], "no such column; it has picture"),
        (tmp_path / "mixed/b.tar", out, [], "corrupt tar"),
    ):
        assert said in refused(*call(r, images, where, *more))
    assert not out.exists() and (tmp_path / "mine.parquet").read_bytes() == b"mine"
