"""What common tools write is read, or named before the work: words for splits, names, folders, tars, column types."""

from __future__ import annotations

import io
import os
import tarfile
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bad_input import tar_of
from data_samples import encoded, iter_corpus, probe_of, write_corpus, write_parquet, write_probe
from obtained_pairs import CHOSEN, SOURCE, downloaded

from mdc.data.formats.captions import clean_captions
from mdc.data.formats.foreign_tar import tar_places, tar_samples
from mdc.data.formats.samples import Skipped, safe_key
from mdc.data.formats.split_words import SplitWords
from mdc.plan.records import UserError

PARQUET: dict[str, Any] = {"kind": "parquet", "path": "p"}


def _captions(source: dict[str, Any], split: str, folder: Path) -> list[str]:
    skipped = Skipped()
    found = [text for sample in iter_corpus(source, split, folder, skipped) for text in sample.captions]
    assert not skipped.counts
    return found


def _rows(**columns: Any) -> dict[str, Any]:
    count = len(next(iter(columns.values())))
    return {"image": [encoded(n) for n in range(count)], **columns}


# words for splits


@pytest.mark.parametrize("word", ["dev", "validation", "Val", "held", "eval"])
def test_other_words_for_a_split_are_known(tmp_path: Path, word: str) -> None:
    write_parquet(tmp_path / "p/a.parquet", _rows(caption=["one", "two", "three"], split=["train", word, "testing"]))
    assert _captions(PARQUET, "val", tmp_path) == ["two"]
    (tmp_path / "t.csv").write_text(f"image,caption,split\na.png,one,train\nb.png,two,{word}\n")
    for name in "ab":
        (tmp_path / f"{name}.png").write_bytes(encoded(1))
    table = {"kind": "caption_table", "path": "t.csv", "split_column": "split"}
    assert _captions(table, "val", tmp_path) == ["two"]


def test_a_word_that_means_no_split_is_named_before_the_work(tmp_path: Path) -> None:
    write_parquet(
        tmp_path / "p/a.parquet", _rows(caption=["one", "two", "three"], split=["train", "restval", "restval"])
    )
    said = r"a\.parquet: column 'split': split 'restval' \(2 rows\) is not known; say which it is in source\.splits"
    with pytest.raises(UserError, match=said):
        list(iter_corpus(PARQUET, "train", tmp_path, Skipped()))
    both = {**PARQUET, "splits": {"train": ["train", "restval"], "val": "val"}}
    assert _captions(both, "train", tmp_path) == ["one", "two", "three"]
    assert _captions({**PARQUET, "splits": {"train": "train", "unused": "restval"}}, "train", tmp_path) == ["one"]
    with pytest.raises(UserError, match="'restval'"):
        list(iter_corpus({**PARQUET, "in_parts": True}, "train", tmp_path, Skipped()))


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("validation-00000-of-00002.parquet", "val"),
        ("default/train/0000.parquet", "train"),
        ("my_data_test_01.parquet", "test"),
        ("Train.parquet", "train"),
        ("train2/dev.0.parquet", "val"),
        ("latest.parquet", None),
        ("trainable/x.parquet", None),
    ],
)
def test_files_named_after_splits(name: str, split: str | None) -> None:
    assert SplitWords({"train": "train"}).of_name(Path(name)) == split


def test_hugging_faces_validation_files_are_read_and_a_file_of_no_split_is_named(tmp_path: Path) -> None:
    source = {**PARQUET, "split_column": None}
    for name, caption in (("train-00000-of-00001", "one"), ("validation-00000-of-00001", "two")):
        write_parquet(tmp_path / f"p/{name}.parquet", _rows(caption=[caption]))
    assert [_captions(source, split, tmp_path) for split in ("train", "val")] == [["one"], ["two"]]
    write_parquet(tmp_path / "p/more.parquet", _rows(caption=["three"]))
    with pytest.raises(UserError, match=r"more\.parquet: named after no split, as other files are"):
        list(iter_corpus(source, "train", tmp_path, Skipped()))


# columns


@pytest.mark.parametrize("column", ["Caption", "text", "TEXT", "alt_text", "sentences"])
def test_a_column_of_captions_by_another_name(tmp_path: Path, column: str) -> None:
    write_parquet(tmp_path / "p/a.parquet", _rows(**{column: ["one"], "split": ["train"]}))
    assert _captions(PARQUET, "train", tmp_path) == ["one"]


def test_no_column_of_captions_is_named_before_the_work(tmp_path: Path) -> None:
    write_parquet(tmp_path / "p/a.parquet", _rows(words=["one"], split=["train"]))
    with pytest.raises(
        UserError, match=r"no column is called captions; name it in source\.caption_column: image, split, words"
    ):
        list(iter_corpus(PARQUET, "train", tmp_path, Skipped()))


def test_column_types_of_polars_and_arrow(tmp_path: Path) -> None:
    images = [encoded(n) for n in range(3)]
    kinds = {
        "views": (pa.array(images, pa.binary_view()), pa.array(["a", "b", "c"], pa.string_view())),
        "dictionaries": (pa.array(images).dictionary_encode(), pa.array(["a", "b", "c"]).dictionary_encode()),
        "large": (
            pa.array(images, pa.large_binary()),
            pa.array([["a"], ["b"], ["c"]], pa.large_list(pa.string_view())),
        ),
        "fixed": (pa.array(images), pa.array([["a"], ["b"], ["c"]], pa.list_(pa.string(), 1))),
    }
    for name, (image, caption) in kinds.items():
        pq.write_table(
            pa.table({"image": image, "caption": caption, "split": ["train"] * 3}), tmp_path / f"{name}.parquet"
        )
        assert _captions({**PARQUET, "path": f"{name}.parquet"}, "train", tmp_path) == ["a", "b", "c"], name


@pytest.mark.parametrize("text", ["nan", "NaN", "None", "null", "N/A", "<NA>", "\u200b", "\ufeff \u2060", "\u00ad"])
def test_what_stands_for_no_caption_is_none(text: str) -> None:
    assert clean_captions([text, "a red star"]) == ("a red star",)


def test_what_nobody_sees_goes_and_joiners_stay() -> None:
    assert clean_captions(["\ufeffa\u200b red \u00adstar", "می\u200cخواهم"]) == ("a red star", "می\u200cخواهم")


# names


def test_names_of_other_alphabets_stay_apart() -> None:
    names = ["图1", "画1", "é", "è", "a" * 90, "b" + "a" * 89]
    keys = [safe_key(name) for name in names]
    assert len(set(keys)) == len(names) and all(key.isascii() and "." not in key for key in keys)
    assert safe_key(unicodedata.normalize("NFD", "é")) == safe_key("é") and safe_key("a.b c") == "a_b_c"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_that_the_folder_writes_otherwise_is_found(tmp_path: Path, form: str) -> None:
    folder = tmp_path / unicodedata.normalize(form, "père")
    folder.mkdir()
    (folder / unicodedata.normalize(form, "été.png")).write_bytes(encoded(1))
    for other in ("NFC", "NFD"):
        name = unicodedata.normalize(other, "père/été.png")
        (tmp_path / "t.csv").write_text(f"image,caption\n{name},summer\n", encoding="utf-8")
        assert _captions({"kind": "caption_table", "path": "t.csv"}, "train", tmp_path) == ["summer"]


# tars


def _tar(files: dict[str, bytes]) -> bytes:
    return tar_of(list(files.items()))


def _sample(key: str, number: int) -> dict[str, bytes]:
    return {f"{key}.jpg": encoded(number, kind="JPEG"), f"{key}.txt": f"caption {number}".encode()}


def test_tars_that_were_joined_are_read_as_one(tmp_path: Path) -> None:
    parts = [_tar(_sample("a", 0)), _tar(_sample("b", 1)), _tar(_sample("c", 2))]
    path = tmp_path / "s.tar"
    path.write_bytes(b"".join(parts))
    assert [sample.key for sample in tar_samples(path)] == ["a", "b", "c"]
    for place in tar_places(path):
        offset, size = place.files["txt"]
        assert path.read_bytes()[offset : offset + size] == f"caption {'abc'.index(place.key)}".encode()
    path.write_bytes(b"".join(parts) + b"x" * 512)
    with pytest.raises(UserError, match="corrupt tar"):
        list(tar_samples(path))


def test_what_webdataset_passes_over_is_passed_over(tmp_path: Path) -> None:
    files = _sample("a", 0) | {"._a.jpg": b"x", "__MACOSX/a.jpg": b"x", "README": b"x", "__meta__/x.json": b"{}"}
    (tmp_path / "s.tar").write_bytes(_tar(files | _sample("d/B", 1)))
    assert _captions({"kind": "webdataset", "path": "s.tar"}, "train", tmp_path) == ["caption 0", "caption 1"]


def test_keys_that_begin_anew_in_each_shard(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    for shard in range(3):
        files = _sample("000000", 2 * shard) | _sample("000001", 2 * shard + 1)
        (tmp_path / f"w/{shard:05d}.tar").write_bytes(_tar(files))
    source = {"kind": "webdataset", "path": "w"}
    index = write_corpus("c", source, tmp_path / "out", tmp_path)
    assert index["splits"]["train"]["samples"] == 6
    held = [len(list(iter_corpus({**source, "val_share": 0.5}, "val", tmp_path, Skipped())))]
    assert 0 < held[0] < 6


def test_captions_of_other_webdatasets(tmp_path: Path) -> None:
    files = {
        "a.jpg": encoded(0, kind="JPEG"),
        "a.json": b'{"caption": "from json"}',
        "b.jpg": encoded(1, kind="JPEG"),
        "b.text": b"from text",
    }
    (tmp_path / "s.tar").write_bytes(_tar(files))
    assert _captions({"kind": "webdataset", "path": "s.tar"}, "train", tmp_path) == ["from json", "from text"]


def test_a_compressed_shard_is_named_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w/0.tar").write_bytes(_tar(_sample("a", 0)))
    with tarfile.open(tmp_path / "w/1.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("b.txt"), io.BytesIO())
    with pytest.raises(UserError, match=r"1\.tar\.gz: a compressed tar"):
        list(iter_corpus({"kind": "webdataset", "path": "w"}, "train", tmp_path, Skipped()))


def test_a_download_that_was_copied_without_its_times(tmp_path: Path) -> None:
    folder = downloaded(tmp_path, 1)
    for path in (folder / "d/shards").iterdir():
        os.utime(path, (1, 1))
    assert len(list(iter_corpus(SOURCE, "train", folder, Skipped()))) == CHOSEN - 2
    shard = folder / "d/shards/00000.tar"
    damaged = bytearray(shard.read_bytes())
    damaged[600] ^= 1
    shard.write_bytes(damaged)
    with pytest.raises(UserError, match="changed since"):
        list(iter_corpus(SOURCE, "train", folder, Skipped()))


# folders of classes


def _photos(folder: Path, *places: str, each: int = 2) -> None:
    for number, place in enumerate(places):
        (folder / place).mkdir(parents=True, exist_ok=True)
        for n in range(each):
            (folder / place / f"{n}.jpg").write_bytes(encoded(100 * number + n, kind="JPEG"))


FOLDERS: dict[str, tuple[list[str], dict[str, list[int]], str]] = {
    "as named": (["train/a", "train/b", "test/a", "test/b"], {"train": [2, 2], "test": [2, 2]}, ""),
    "capitals": (["Train/a", "Train/b", "Test/a", "Test/b"], {"train": [2, 2], "test": [2, 2]}, ""),
    "other words": (["training/a", "training/b", "testing/a", "testing/b"], {"train": [2, 2], "test": [2, 2]}, ""),
    "validation tests": (
        ["train/a", "train/b", "valid/a", "valid/b"],
        {"train": [2, 2], "test": [2, 2]},
        "valid: tests",
    ),
    "three splits": (
        ["train/a", "train/b", "val/a", "val/b", "test/a", "test/b"],
        {"train": [4, 4], "test": [2, 2]},
        "val: trains too",
    ),
    "class first": (["a/train", "b/train", "a/test", "b/test"], {"train": [2, 2], "test": [2, 2]}, ""),
    "within a class": (
        ["train/a/x", "train/a/y", "train/b", "test/a", "test/b"],
        {"train": [4, 2], "test": [2, 2]},
        "",
    ),
    "clutter": (
        ["train/a", "train/b", "test/a", "test/b", "__MACOSX/train", "train/@eaDir", "train/.cache"],
        {"train": [2, 2], "test": [2, 2]},
        "",
    ),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_of_classes_as_people_have_them(tmp_path: Path, name: str) -> None:
    places, counts, said = FOLDERS[name]
    _photos(tmp_path / "p", *places)
    index = write_probe("p", {"kind": "class_folder", "path": "p"}, tmp_path / "out", tmp_path)
    assert index["classes"] == ["a", "b"] and index["class_counts"] == counts and not index["skipped"]
    assert index.get("layout", "").startswith(said) and bool(said) == ("layout" in index)


@pytest.mark.parametrize("above", ["", "train/"])
def test_without_splits_a_hash_of_the_names_draws_one(tmp_path: Path, above: str) -> None:
    _photos(tmp_path / "p", f"{above}a", f"{above}b", each=50)
    source = {"kind": "class_folder", "path": "p"}
    index = write_probe("p", source, tmp_path / "out", tmp_path)
    train, test = (index["class_counts"][split] for split in ("train", "test"))
    assert [a + b for a, b in zip(train, test, strict=True)] == [50, 50]
    assert 4 < min(test) < max(test) < 20 and "by a hash of their names" in index["layout"]


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    _photos(tmp_path / "p", "plane", "train", "ship", each=30)
    assert probe_of({"kind": "class_folder", "path": "p"}, tmp_path).classes == ["plane", "ship", "train"]


def test_the_same_image_in_two_splits_is_counted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _photos(tmp_path / "p", "train/a", "train/b", "test/a", "test/b")
    (tmp_path / "p/test/b/1.jpg").write_bytes(encoded(0, kind="JPEG"))
    index = write_probe("p", {"kind": "class_folder", "path": "p"}, tmp_path / "out", tmp_path)
    assert index["repeated"] == {"test": {"train": {"images": 1, "first": "00000003"}}}
    assert "1 images of split test also occur in train, the first is 00000003" in capsys.readouterr().err
