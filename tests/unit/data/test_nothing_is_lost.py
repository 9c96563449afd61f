"""What common tools write is read, or named before the work: words for splits, names, folders, tars, column types."""

import gzip
import io
import json
import os
import shutil
import tarfile
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bad_input import tar_of
from data_samples import (
    corpus_of,
    encoded,
    iter_choices,
    iter_corpus,
    probe_of,
    write_corpus,
    write_parquet,
    write_probe,
    write_texts,
)
from obtained_pairs import CHOSEN, SOURCE, downloaded

from mdc.app.zero_shot import _classes
from mdc.data.formats.captions import clean_captions
from mdc.data.formats.foreign_tar import tar_samples
from mdc.data.formats.samples import Skipped, held_out, safe_key, texts_of
from mdc.data.formats.split_words import UNUSED, SplitWords
from mdc.data.shards.index import file_names
from mdc.plan.records import UserError, read_json_lines

PARQUET: dict[str, Any] = {"kind": "parquet", "path": "p"}


def _read(source: dict[str, Any], folder: Path, split: str = "train") -> tuple[list[str], dict[str, int]]:
    """The captions of a split, and what is left out."""
    skipped = Skipped()
    found = [text for sample in iter_corpus(source, split, folder, skipped) for text in sample.captions]
    return found, skipped.counts


def _captions(source: dict[str, Any], split: str, folder: Path) -> list[str]:
    found, left_out = _read(source, folder, split)
    assert not left_out
    return found


def _of_table(folder: Path, text: str) -> list[str]:
    (folder / "t.csv").write_text(text, encoding="utf-8", newline="")
    return _captions({"kind": "caption_table", "path": "t.csv"}, "train", folder)


def _of_tar(folder: Path, files: dict[str, bytes]) -> list[str]:
    (folder / "s.tar").write_bytes(_tar(files))
    return _captions({"kind": "webdataset", "path": "s.tar"}, "train", folder)


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
        _captions(PARQUET, "train", tmp_path)
    both = {**PARQUET, "splits": {"train": ["train", "restval"], "val": "val"}}
    assert _captions(both, "train", tmp_path) == ["one", "two", "three"]
    assert _captions({**PARQUET, "splits": {"train": "train", "unused": "restval"}}, "train", tmp_path) == ["one"]
    with pytest.raises(UserError, match="'restval'"):
        _captions({**PARQUET, "sharded": True}, "train", tmp_path)


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


def test_a_usual_word_among_several_keeps_its_split() -> None:
    words = SplitWords({"train": ["train", "extra"], "val": "val", "test": "other"})
    means = {"Train": "train", "extra": "train", "dev": "val", "test": UNUSED, "Extra": None}
    assert {word: words.of(word) for word in means} == means


def test_hugging_faces_validation_files_are_read_and_a_file_of_no_split_is_named(tmp_path: Path) -> None:
    source = {**PARQUET, "split_column": None}
    for name, caption in (("train-00000-of-00001", "one"), ("validation-00000-of-00001", "two")):
        write_parquet(tmp_path / f"p/{name}.parquet", _rows(caption=[caption]))
    assert [_captions(source, split, tmp_path) for split in ("train", "val")] == [["one"], ["two"]]
    write_parquet(tmp_path / "p/more.parquet", _rows(caption=["three"]))
    with pytest.raises(UserError, match=r"more\.parquet: named after no split, as other files are"):
        _captions(source, "train", tmp_path)


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
        _captions(PARQUET, "train", tmp_path)


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
def test_what_stands_for_no_caption_is_none(tmp_path: Path, text: str) -> None:
    assert clean_captions([text, "a red star"]) == ("a red star",)
    (tmp_path / "l.tsv").write_text(f"caption\n{text}\na red star\n", encoding="utf-8")
    index = write_texts("l", {"path": "l.tsv"}, tmp_path / "out", tmp_path, 77)
    assert index["captions"]["per_split"]["all"]["histogram"] == {"3": 1} and index["skipped"] == {"no caption": 1}


def test_lists_of_captions_are_read_together_gzipped_or_not(tmp_path: Path) -> None:
    (tmp_path / "l").mkdir()
    (tmp_path / "l/a.tsv").write_text("caption\na star\n")
    (tmp_path / "l/b.tsv.gz").write_bytes(gzip.compress(b"caption\na red star\n"))
    index = write_texts("l", {"path": "l"}, tmp_path / "out", tmp_path, 77)
    assert index["captions"]["per_split"]["all"]["histogram"] == {"2": 1, "3": 1}


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
        assert _of_table(tmp_path, f"image,caption\n{name},summer\n") == ["summer"]


def test_names_as_windows_writes_them(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.png").write_bytes(encoded(1))
    assert _of_table(tmp_path, "image,caption\r\na\\b.png,one\r\n.\\a\\b.png,two\r\n") == ["one", "two"]


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
    for sample in tar_samples(path):
        assert sample.read("txt") == f"caption {'abc'.index(sample.key)}".encode()
    path.write_bytes(b"".join(parts) + b"x" * 512)
    with pytest.raises(UserError, match="corrupt tar"):
        list(tar_samples(path))


def test_what_webdataset_passes_over_is_passed_over(tmp_path: Path) -> None:
    files = _sample("a", 0) | {"._a.jpg": b"x", "__MACOSX/a.jpg": b"x", "README": b"x", "__meta__/x.json": b"{}"}
    assert _of_tar(tmp_path, files | _sample("d/B", 1)) == ["caption 0", "caption 1"]


def test_only_the_first_folder_of_a_tar_is_about_it(tmp_path: Path) -> None:
    assert _of_tar(tmp_path, _sample("__meta__/a", 0) | _sample("set/__x__/b", 1)) == ["caption 1"]


@pytest.mark.parametrize("names", [["00000", "00001", "00002"], ["a/00000", "b/00000", "b/00001"]])
def test_keys_that_begin_anew_in_each_shard(tmp_path: Path, names: list[str]) -> None:
    for shard, name in enumerate(names):
        files = _sample("000000", 2 * shard) | _sample("000001", 2 * shard + 1)
        (tmp_path / f"w/{name}.tar").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"w/{name}.tar").write_bytes(_tar(files))
    source = {"kind": "webdataset", "path": "w"}
    for given in (source, {**source, "path": ".", "splits": {"train": "w"}}):
        index = write_corpus("c", given, tmp_path / "out", tmp_path)  # it refuses equal keys
        assert index["splits"]["train"]["samples"] == 6


@pytest.mark.parametrize("kind", ["webdataset", "parquet"])
def test_another_file_moves_no_sample_between_train_and_val(tmp_path: Path, kind: str) -> None:
    """It sorts before the others; a tar's keys begin anew, a row of parquet has no key."""

    def write(name: str, first: int) -> None:
        if kind == "parquet":
            rows = _rows(caption=[f"caption {first + n}" for n in range(30)])
            write_parquet(tmp_path / f"w/{name}.parquet", rows)
        else:
            files = [_sample(f"{n:04d}", first + n) for n in range(30)]
            (tmp_path / "w").mkdir(exist_ok=True)
            (tmp_path / f"w/{name}.tar").write_bytes(
                _tar({name: data for each in files for name, data in each.items()})
            )

    source = {"kind": kind, "path": "w", "val_fraction": 0.4, **({"split_column": None} if kind == "parquet" else {})}
    write("1", 0)
    before = {split: _captions(source, split, tmp_path) for split in ("train", "val")}
    write("0", 30)
    for split, captions in before.items():
        after = _captions(source, split, tmp_path)
        assert captions and [text for text in after if int(text.split()[1]) < 30] == captions
        assert len(after) > len(captions)


def test_captions_of_other_webdatasets(tmp_path: Path) -> None:
    image = encoded(0, kind="JPEG")
    files = {"a.jpg": image, "a.json": b'{"caption": "from json"}', "b.jpg": image, "b.text": b"from text"}
    assert _of_tar(tmp_path, files) == ["from json", "from text"]


def test_a_compressed_shard_is_named_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w/0.tar").write_bytes(_tar(_sample("a", 0)))
    with tarfile.open(tmp_path / "w/1.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("b.txt"), io.BytesIO())
    with pytest.raises(UserError, match=r"1\.tar\.gz: a compressed tar"):
        _captions({"kind": "webdataset", "path": "w"}, "train", tmp_path)


def test_a_download_that_was_copied_without_its_times(tmp_path: Path) -> None:
    folder = downloaded(tmp_path, 1)
    for path in (folder / "d/shards").iterdir():
        os.utime(path, (1, 1))
    assert len(_captions(SOURCE, "train", folder)) == CHOSEN - 2
    shard = folder / "d/shards/00000.tar"
    damaged = bytearray(shard.read_bytes())
    damaged[600] ^= 1
    shard.write_bytes(damaged)
    with pytest.raises(UserError, match="changed since"):
        _captions(SOURCE, "train", folder)


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


@pytest.mark.parametrize("above", [[""], ["train/"], ["train/", "training/"]], ids=["none", "one", "two"])
def test_without_splits_a_hash_of_the_names_draws_one(tmp_path: Path, above: list[str]) -> None:
    _photos(tmp_path / "p", *(f"{folder}{name}" for folder in above for name in "ab"), each=50 // len(above))
    source = {"kind": "class_folder", "path": "p"}
    index = write_probe("p", source, tmp_path / "out", tmp_path)
    train, test = (index["class_counts"][split] for split in ("train", "test"))
    assert [a + b for a, b in zip(train, test, strict=True)] == [50, 50]
    assert 4 < min(test) < max(test) < 20 and "by a hash of their names" in index["layout"]


@pytest.mark.parametrize("each", [2, 3, 10])
def test_small_classes_have_an_image_in_each_split_and_no_other_image_moves(tmp_path: Path, each: int) -> None:
    names = [f"c{number:02d}" for number in range(37)]
    _photos(tmp_path / "p", *names, each=each)
    found = probe_of({"kind": "class_folder", "path": "p"}, tmp_path)
    test = {sample.name for sample in found.samples("test", Skipped())}
    train = {sample.name for sample in found.samples("train", Skipped())}
    assert not test & train and len(test | train) == 37 * each
    for name in names:
        files = [f"{name}/{n}.jpg" for n in range(each)]
        drawn = {file for file in files if held_out(file, 0.2)}
        if drawn and len(drawn) < each:
            assert drawn == test & set(files)
        else:  # the one whose hash is nearest to the threshold
            (moved,) = drawn ^ (test & set(files))
            shares = sorted(share for file in files for share in [_share(file)])
            assert _share(moved) == (shares[-1] if drawn else shares[0])
    (tmp_path / "p/alone").mkdir()
    (tmp_path / "p/alone/1.jpg").write_bytes(encoded(1, kind="JPEG"))
    with pytest.raises(UserError, match=r"one image.*alone"):
        probe_of({"kind": "class_folder", "path": "p"}, tmp_path)


def _share(name: str) -> float:
    """Up to which share ``name`` stays out of test."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if held_out(name, middle) else (middle, high)
    return high


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    _photos(tmp_path / "p", "plane", "train", "ship", each=30)
    assert probe_of({"kind": "class_folder", "path": "p"}, tmp_path).classes == ["plane", "ship", "train"]


def test_the_same_image_in_two_splits_is_counted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _photos(tmp_path / "p", "train/a", "train/b", "test/a", "test/b")
    (tmp_path / "p/test/b/1.jpg").write_bytes(encoded(0, kind="JPEG"))
    index = write_probe("p", {"kind": "class_folder", "path": "p"}, tmp_path / "out", tmp_path)
    assert index["repeated"] == {"test": {"train": {"images": 1, "first": "00000003"}}}
    assert "1 images of split test also occur in train, the first is test/b/1.jpg" in capsys.readouterr().err


# reports of others: webdataset, datasets, open_clip, pandas, pyarrow, torchvision, Pillow, Windows, Spark, Git LFS


def test_files_of_a_sample_that_lie_apart_are_named(tmp_path: Path) -> None:
    files = _sample("a", 0) | _sample("b", 1)
    with pytest.raises(UserError, match=r"s\.tar: the files of sample 'a' are not consecutive.*tar --sort=name"):
        _of_tar(tmp_path, {name: files[name] for name in sorted(files, key=lambda name: name[2:])})


def test_endings_of_several_parts(tmp_path: Path) -> None:
    image = encoded(0, kind="JPEG")
    files = {
        "a.input.jpg": image,
        "a.output.txt": b"one",
        "b.jpg": image,
        "b.mask.png": b"x",
        "b.json": b'{"text": "two"}',
    }
    files |= {"b.ocr.txt": b"no", "c.jpg": image, "c.jsn": b'{"caption": "three"}', "v.1.jpg": image, "v.2.jpg": image}
    (tmp_path / "s.tar").write_bytes(_tar(files))
    found, left_out = _read({"kind": "webdataset", "path": "s.tar"}, tmp_path)
    assert found == ["one", "two", "three"]
    assert left_out == {"several images under one key (it ends at a name's first dot)": 2}, "pictures, not keys"


def test_shards_named_after_splits(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    for number, name in enumerate(("set-train-0.tar", "set-train-1.TAR", "set-validation-0.tar", "._set-train-0.tar")):
        (tmp_path / "w" / name).write_bytes(_tar(_sample(str(number), number)) if name[0] != "." else b"macOS")
    source: dict[str, Any] = {"kind": "webdataset", "path": "w"}
    assert _captions(source, "train", tmp_path) == ["caption 0", "caption 1"]
    assert _captions(source, "val", tmp_path) == ["caption 2"]
    with pytest.raises(UserError, match=r"set-validation-0\.tar: named after a split, but val_fraction"):
        _captions({**source, "val_fraction": 0.1}, "train", tmp_path)
    # without val it is held out of train alone
    (tmp_path / "w/set-validation-0.tar").rename(tmp_path / "w/set-test-0.tar")
    held = {**source, "val_fraction": 0.99}
    assert [_captions(held, split, tmp_path) for split in ("val", "test")] == [
        ["caption 0", "caption 1"],
        ["caption 2"],
    ]
    (tmp_path / "w/more.tar").write_bytes(_tar(_sample("9", 9)))
    with pytest.raises(UserError, match=r"more\.tar: named after no split, as other files are"):
        _captions(source, "train", tmp_path)


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16"])
def test_texts_as_windows_writes_them(tmp_path: Path, coding: str) -> None:
    assert _of_tar(tmp_path, {"a.jpg": encoded(0, kind="JPEG"), "a.txt": "a café".encode(coding)}) == ["a café"]


@pytest.mark.parametrize(
    ("cell", "captions"),
    [
        ('["a cat", "it\'s"]', ["a cat", "it's"]),
        ("['a cat', \"it's\"]", ["a cat", "it's"]),
        ("['a cat' \"it's\"\n 'c\\'']", ["a cat", "it's", "c'"]),
        ("[sic] a cat", ["[sic] a cat"]),
        ("[a cat]", ["[a cat]"]),
        ("['a cat', ...]", ["['a cat', ...]"]),
    ],
)
def test_a_list_that_was_written_out_as_text(cell: str, captions: list[str]) -> None:
    assert texts_of(cell) == captions


def test_a_table_with_the_names_of_another_system(tmp_path: Path) -> None:
    (tmp_path / "d/photos").mkdir(parents=True)
    for place in ("0.png", "d/photos/0.png", "d/photos/1.png"):
        (tmp_path / place).write_bytes(encoded(1))
    names = ("photos\\0.png", str(tmp_path / "d/photos/1.png"), "..\\0.png", str(tmp_path / "0.png"))
    (tmp_path / "d/t.csv").write_text("image,caption\n" + "".join(f"{name},a {n}\n" for n, name in enumerate(names)))
    found = _read({"kind": "caption_table", "path": "d/t.csv"}, tmp_path)
    assert found == (["a 0", "a 1"], {"image outside the folder": 2})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("image;caption\n0.png;a cat\n", "';'"),
        ("image\tcaption\n0.png\ta cat\n", r"'\\t'"),
        ("sep=,\nimage,caption\n0.png,a cat\n", "sep="),
        ("image,caption\r0.png,a cat\r", "a carriage return alone"),
    ],
)
def test_a_csv_of_another_program_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=rf"t\.csv.*{said}"):
        _of_table(tmp_path, text)


def test_parquet_files_of_other_tools(tmp_path: Path) -> None:
    source: dict[str, Any] = {**PARQUET, "split_column": None}
    for split in ("train", "val"):  # Spark's folders
        write_parquet(tmp_path / f"p/split={split}/part-0.parquet", _rows(caption=[f"of {split}"]))
    (tmp_path / "p/split=train/._part-0.parquet").write_bytes(b"macOS")
    assert [_captions(source, split, tmp_path) for split in ("train", "val")] == [["of train"], ["of val"]]
    twice = pa.Table.from_arrays(
        [pa.array([encoded(0)]), pa.array(["a"]), pa.array(["b"])], ["image", *["caption"] * 2]
    )
    pq.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(UserError, match="duplicate column 'caption'"):
        _captions({**source, "path": "twice.parquet"}, "train", tmp_path)
    write_parquet(tmp_path / "q.parquet", {"image": [{"bytes": None, "path": "0.png"}], "caption": ["a"]})
    assert _read({**source, "path": "q.parquet"}, tmp_path) == ([], {"image is a path without bytes": 1})


def test_numbers_and_nothing_in_a_split_column(tmp_path: Path) -> None:
    write_parquet(tmp_path / "p.parquet", _rows(caption=["one", "two"], split=[0, 1]))
    source: dict[str, Any] = {**PARQUET, "path": "p.parquet"}
    with pytest.raises(UserError, match=r"split 0 \(1 rows\) is not known.*`val: \"0\"`"):
        _captions(source, "train", tmp_path)
    assert _captions({**source, "splits": {"train": "0", "val": "1"}}, "val", tmp_path) == ["two"]
    for n in range(2):
        (tmp_path / f"{n}.png").write_bytes(encoded(n))
    lines = [{"image": f"{n}.png", "caption": word, "split": n} for n, word in enumerate(("one", "two"))]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    table = {"kind": "caption_table", "path": "t.jsonl", "split_column": "split", "splits": {"train": "1", "val": "0"}}
    assert [_captions(table, split, tmp_path) for split in ("train", "val")] == [["two"], ["one"]]
    write_parquet(tmp_path / "p.parquet", _rows(caption=["one", "two"], split=["train", None]))
    with pytest.raises(UserError, match=r"no split is given \(1 rows\); fill the column in"):
        _captions(source, "train", tmp_path)


def test_git_lfs_pointers_are_named(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    for name, kind in (("s.tar", "webdataset"), ("p.parquet", "parquet")):
        (tmp_path / name).write_bytes(pointer)
        with pytest.raises(UserError, match=r"a Git LFS pointer: run `git lfs pull`"):
            _captions({"kind": kind, "path": name}, "train", tmp_path)
    (tmp_path / "t.csv").write_text("image,caption\n0.png,one\n")
    (tmp_path / "0.png").write_bytes(pointer)
    assert _read({"kind": "caption_table", "path": "t.csv"}, tmp_path) == ([], {"image is a Git LFS pointer": 1})


def test_a_compressed_tar_by_a_plain_name_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.tar").write_bytes(gzip.compress(_tar(_sample("a", 0))))
    with pytest.raises(UserError, match="it is compressed: unpack it"):
        _captions({"kind": "webdataset", "path": "s.tar"}, "train", tmp_path)


def test_folders_without_images_and_with_accents_of_two_systems(tmp_path: Path) -> None:
    accents = [unicodedata.normalize(form, "é") for form in ("NFC", "NFD")]
    _photos(tmp_path / "p", f"train/{accents[0]}", "train/b", f"test/{accents[1]}", "test/b")
    for split in ("train", "test"):
        (tmp_path / f"p/{split}/c").mkdir()
    index = write_probe("p", {"kind": "class_folder", "path": "p"}, tmp_path / "out", tmp_path)
    assert index["classes"] == ["b", "é"] and index["layout"] == "no images, so no class: c"
    _photos(tmp_path / "q", *(f"{name}/{split}" for name in ("b", *accents) for split in ("train", "test")))
    index = write_probe("q", {"kind": "class_folder", "path": "q"}, tmp_path / "out", tmp_path)
    assert index["classes"] == ["b", "é"] and index["class_counts"] == {"train": [2, 4], "test": [2, 4]}


def test_captions_beside_others_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded(0))
    texts = ["a dog", "nan", None, 7, "\u200b", "n/a", "a cat"]
    (tmp_path / "c.jsonl").write_text(json.dumps({"image": "a.png", "caption": texts}))
    for mode, kept in (("each", ["a dog", "a cat"]), ("join", ["a dog . a cat ."])):
        source = {"kind": "caption_table", "path": "c.jsonl", "caption_mode": mode}
        assert _captions(source, "train", tmp_path) == kept
        assert write_corpus("c", source, tmp_path / "out", tmp_path)["captions_left_out"] == 5
    listed = write_texts("c", {"path": "c.jsonl"}, tmp_path / "out", tmp_path, 77)
    assert listed["captions_left_out"] == 5


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1e", "\x85"])
def test_lines_end_at_line_ends_alone(tmp_path: Path, mark: str) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/C0.jpg").write_bytes(encoded(0, kind="JPEG"))
    (tmp_path / "p/C0.TXT").write_bytes(f"a red{mark}star\r\na cat\ra dog\n".encode())
    (caption, *others) = _captions({"kind": "caption_files", "path": "p", "val_fraction": 0.0}, "train", tmp_path)
    assert caption.split() in (["a", "red", "star"], [f"a red{mark}star".split()[0], "redstar"])
    assert others == ["a cat", "a dog"]
    (tmp_path / "classes.txt").write_bytes(f"a{mark}b\r\nc".encode())
    assert _classes(str(tmp_path / "classes.txt")) == [f"a{mark}b", "c"]
    write = json.dumps({"text": f"a{mark}b"}, ensure_ascii=False)
    (tmp_path / "l.jsonl").write_text(f"{write}\n{write}\n", encoding="utf-8")
    if mark >= " ":  # JSON allows no control character
        assert [row["text"] for row in read_json_lines(tmp_path / "l.jsonl")] == [f"a{mark}b"] * 2


# links to a person's own files


def _some_of(kind: str, folder: Path, first: int) -> None:
    """A few samples of a kind in ``folder``, those of class_folder with two classes."""
    folder.mkdir(parents=True)
    for number in range(first, first + 4):
        if kind == "webdataset":
            (folder / f"{number}.tar").write_bytes(_tar(_sample(str(number), number)))
        elif kind == "parquet":
            rows = {"image": [encoded(number)], "caption": [f"caption {number}"]}
            write_parquet(folder / f"{number}.parquet", rows)
        else:
            place = folder / "ab"[number % 2] if kind == "class_folder" else folder
            place.mkdir(exist_ok=True)
            (place / f"{number}.jpg").write_bytes(encoded(number, kind="JPEG"))
            (place / f"{number}.txt").write_text(f"caption {number}")


def _found(kind: str, folder: Path, name: str) -> dict[str, list[tuple[str, bytes, Any, Any]]]:
    source: dict[str, Any] = {"kind": kind, "path": name}
    source |= {"split_column": None} if kind == "parquet" else {}
    opened, splits = (
        (probe_of(source, folder), "test") if kind == "class_folder" else (corpus_of(source, folder), "val")
    )
    return {
        split: [(s.key, s.image, s.captions, s.label) for s in opened.samples(split, Skipped())]
        for split in ("train", splits)
    }


KINDS = ["caption_files", "webdataset", "parquet", "class_folder"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linked", ["val", "val/more", "all"])
def test_linked_folders_are_read_as_if_they_lay_there(tmp_path: Path, kind: str, linked: str) -> None:
    for name, first in (("real/train", 0), ("real/val", 4)):
        _some_of(kind, tmp_path / name, first)
    if kind == "class_folder":
        linked = linked.replace("more", "a/more")
        _some_of("caption_files", tmp_path / "real/val/a/more", 8)
    else:
        _some_of(kind, tmp_path / "real/val/more", 8)
    shutil.copytree(tmp_path / "real", tmp_path / "own")
    for name in ["train", "val"] if linked == "all" else [linked]:
        shutil.move(tmp_path / "own" / name, tmp_path / "elsewhere" / name)
        (tmp_path / "own" / name).symlink_to(tmp_path / "elsewhere" / name)
    # a loop, and a link to what is there already
    inner = tmp_path / ("own/train/a" if kind == "class_folder" else "own/train")
    (inner / "loop").symlink_to(tmp_path / "own")
    (inner / "again").symlink_to(inner)
    expected, found = (_found(kind, tmp_path, name) for name in ("real", "own"))
    assert found == expected and all(map(len, expected.values()))


@pytest.mark.parametrize("kind", KINDS)
def test_what_two_links_lead_to_counts_once(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    _some_of(kind, tmp_path / "pool", 0)
    (tmp_path / "own").mkdir()
    for name in ("train", "val"):
        (tmp_path / "own" / name).symlink_to(tmp_path / "pool")
    (tmp_path / "own/gone").symlink_to(tmp_path / "nowhere")
    found = _found(kind, tmp_path, "own")
    assert sorted(map(len, found.values())) == [0, 4]
    said = capsys.readouterr().err
    assert "own/val" in said and "own/gone" in said
    if kind == "caption_files":
        index = write_corpus("c", {"kind": kind, "path": "own"}, tmp_path / "out", tmp_path)
        assert index["broken_links"] == {"count": 1, "first": "own/gone"}


def test_a_folder_of_files_that_are_linked_one_by_one_is_reached_once(tmp_path: Path) -> None:
    _some_of("caption_files", tmp_path / "pool", 0)
    (tmp_path / "own/train").mkdir(parents=True)
    for path in (tmp_path / "pool").iterdir():
        (tmp_path / "own/train" / path.name).symlink_to(path)
    (tmp_path / "own/val").symlink_to(tmp_path / "pool")
    assert [len(of) for of in _found("caption_files", tmp_path, "own").values()] == [4, 0]


def _link(files: Path, folder: Path, prefix: str = "") -> None:
    """Links in ``folder`` to all files below ``files``, each in the same subfolder."""
    for path in [path for path in files.rglob("*") if path.is_file() and not path.is_symlink()]:
        place = folder / path.relative_to(files).with_name(prefix + path.name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_links_lead_to_counts_once(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name, first in (("own/train", 0), ("own/val", 4), ("pool", 8)):
        _some_of(kind, tmp_path / name, first)
    for name in ("train", "val"):
        shutil.copytree(tmp_path / "own" / name, tmp_path / "real" / name)
    shutil.copytree(tmp_path / "pool", tmp_path / "real/train", dirs_exist_ok=True)
    _link(tmp_path / "own/train", tmp_path / "own/val", "of-train-")
    _link(tmp_path / "own/val", tmp_path / "own/val", "again-")
    for name in ("train", "val"):
        _link(tmp_path / "pool", tmp_path / "own" / name)
    expected, found = (
        {split: [sample[1:] for sample in samples] for split, samples in _found(kind, tmp_path, name).items()}
        for name in ("real", "own")
    )
    assert found == expected and list(map(len, found.values())) == [8, 4]
    said = capsys.readouterr().err
    assert " 12 " in said and "own/val/" in said
    if kind == "caption_files":
        index = write_corpus("c", {"kind": kind, "path": "own"}, tmp_path / "out", tmp_path)
        assert index["repeated_links"] == {"count": 12, "first": "own/val/10.jpg"}


@pytest.mark.parametrize(
    ("kind", "store"),
    # a visible folder beside the splits is refused by folders of classes
    [
        (kind, store)
        for kind in KINDS
        for store in (".git/annex/objects", "blobs", ".")
        if (kind, store) != ("class_folder", "blobs")
    ],
)
def test_files_in_a_store_below_are_reached_by_their_links(
    tmp_path: Path, kind: str, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, first in (("real/train", 0), ("real/val", 4)):
        _some_of(kind, tmp_path / name, first)
    (tmp_path / "own" / store).mkdir(parents=True)
    for number, path in enumerate(path for path in sorted((tmp_path / "real").rglob("*")) if path.is_file()):
        place = tmp_path / "own" / path.relative_to(tmp_path / "real")
        place.parent.mkdir(parents=True, exist_ok=True)
        held = f"{number:064x}" if store != "." else f".{number}{path.suffix}"  # hidden beside the splits
        place.symlink_to(shutil.copy(path, tmp_path / "own" / store / held))
    expected, found = (_found(kind, tmp_path, name) for name in ("real", "own"))
    assert found == expected and all(map(len, expected.values())) and not capsys.readouterr().err


@pytest.mark.parametrize("kind", ["webdataset", "parquet"])
def test_a_broken_link_to_a_file_of_samples_is_counted(tmp_path: Path, kind: str) -> None:
    ending = "tar" if kind == "webdataset" else kind
    source = {"kind": kind, "path": "own", **({"split_column": None} if kind == "parquet" else {})}
    _some_of(kind, tmp_path / "own", 0)
    (tmp_path / f"own/9.{ending}").symlink_to(tmp_path / "nowhere")
    index = write_corpus("c", source, tmp_path / "out", tmp_path)
    assert index["splits"]["train"]["samples"] + index["splits"].get("val", {"samples": 0})["samples"] == 4
    assert index["broken_links"] == {"count": 1, "first": f"own/9.{ending}"}
    for number in range(4):
        (tmp_path / f"own/{number}.{ending}").unlink()
    with pytest.raises(UserError, match=rf"own: .*own/9\.{ending}"):
        corpus_of(source, tmp_path)


def test_a_folder_of_parquet_files_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(caption=["a cat", "a dog", "a cat"], label=[0, 1, 0], split=["train", "test", "val"])
    write_parquet(tmp_path / "p/a.parquet", rows)
    listed, scandir = list[str](), os.scandir
    monkeypatch.setattr(os, "scandir", lambda place: (listed.append(str(place)), scandir(place))[1])
    for open_source, other in ((probe_of, "test"), (corpus_of, "val")):
        opened = open_source(PARQUET, tmp_path)
        assert all(list(opened.samples(split, Skipped())) for split in ("train", other))
        assert listed == [str(tmp_path / "p")]
        listed.clear()


def test_images_of_a_table_may_be_links_and_names_that_lead_outside_are_left_out(tmp_path: Path) -> None:
    _some_of("caption_files", tmp_path / "elsewhere/sub", 0)
    (tmp_path / "d/deep").mkdir(parents=True)
    (tmp_path / "d/0.jpg").symlink_to(tmp_path / "elsewhere/sub/0.jpg")
    (tmp_path / "d/more").symlink_to(tmp_path / "elsewhere")
    outside = ["../elsewhere/sub/2.jpg", str(tmp_path / "elsewhere/sub/3.jpg"), "deep/../../elsewhere/sub/1.jpg"]
    names = ["0.jpg", "more/sub/1.jpg", str(tmp_path / "d/more/sub/2.jpg"), "more/../0.jpg", *outside]
    rows = "".join(f"{name},a {n},b {n}\n" for n, name in enumerate(names))
    (tmp_path / "d/t.csv").write_text(f"image,caption,wrong\n{rows}")
    found = _read({"kind": "caption_table", "path": "d/t.csv"}, tmp_path)
    assert found == (["a 0", "a 3", "a 1", "a 2"], {"image outside the folder": 3})
    skipped = Skipped()
    items = list(iter_choices({"kind": "choice_table", "path": "d/t.csv"}, tmp_path, skipped))
    assert len(items) == 4 and skipped.counts == found[1]


def test_in_obtained_data_linked_folders_are_passed_over(tmp_path: Path) -> None:
    for kind in ("webdataset", "parquet"):
        _some_of(kind, tmp_path / f"{kind}/mirror", 0)
        _some_of(kind, tmp_path / f"elsewhere/{kind}", 4)
        (tmp_path / f"{kind}/mirror/more").symlink_to(tmp_path / f"elsewhere/{kind}")
        source = {"kind": "pairs", "dataset": kind, "path": kind, "from": "mirror", "pairs": None, "val_fraction": 0.0}
        assert len(_captions(source, "train", tmp_path)) == 4


def test_a_set_keeps_the_names_of_a_persons_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _some_of("caption_files", tmp_path / "own/été", 0)
    (tmp_path / "own/été/2.jpg").write_bytes(b"broken")
    out = Path("results/mini/data/corpora/c")
    write_corpus("c", {"kind": "caption_files", "path": "own"}, out, tmp_path, max_skipped=0.5)
    names = file_names(out / "index.json", "train", ["00000000", "00000003", "other"])
    assert names == {"00000000": "été/0.jpg", "00000003": "été/3.jpg", "other": "other"}
    (out / "names.jsonl").write_text("")
    with pytest.raises(UserError, match=rf"names\.jsonl.*--forcerun {out}/index\.json"):
        file_names(out / "index.json", "train", ["00000000"])
