"""The sources beside parquet: a table of captions, img2dataset's shards, folders by class."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from bad_input import downloaded, tar_of
from data_samples import encoded, iter_corpus, write_probe

from mdc.data.formats.samples import Skipped
from mdc.data.shards.index import ShardReader
from mdc.plan.records import UserError

TABLE: dict[str, Any] = {"kind": "caption_table", "path": "captions.csv"}


def photos(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encoded(number, kind="JPEG"))


def read(source: dict[str, Any], split: str, folder: Path) -> tuple[dict[str, tuple[str, ...]], Skipped]:
    skipped = Skipped()
    found = {sample.key: sample.captions for sample in iter_corpus(source, split, folder, skipped)}
    return found, skipped


ROWS = [{"image": "a.jpg", "caption": ["one, two", 'say "four"']}]
ROWS.append({"image": "./sub/../sub/b.jpg", "caption": "three lines", "more": {"x": [1]}})
TABLES = {
    "captions.csv": 'image,caption\r\na.jpg,"one, two"\r\nsub/b.jpg,"three\r\nlines"\r\na.jpg,"say ""four"""\r\n',
    "captions.tsv": 'image\tcaption\na.jpg\tone, two\nsub/b.jpg\tthree lines\na.jpg\tsay "four"\n',
    "captions.jsonl": "\n".join(map(json.dumps, ROWS)),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a byte-order mark"])
def test_table_formats_say_the_same(tmp_path: Path, name: str, mark: str) -> None:
    photos(tmp_path, "a.jpg", "sub/b.jpg")
    (tmp_path / name).write_bytes((mark + TABLES[name]).encode())
    found, skipped = read({"kind": "caption_table", "path": name}, "train", tmp_path)
    assert list(found.values()) == [("one, two", 'say "four"'), ("three lines",)] and not skipped.counts


def test_table_without_header_by_number_with_splits_keys_and_a_folder_of_images(tmp_path: Path) -> None:
    photos(tmp_path / "images", "a.jpg", "b.jpg", "c.jpg")
    rows = ["7,a.jpg,train,one,uno", "8,b.jpg,dev,two,dos", "9,c.jpg,other,three,tres"]
    (tmp_path / "t.txt").write_text("\n".join(rows))
    source = {**TABLE, "path": "t.txt", "images": "images", "format": "csv", "header": False}
    source |= {"key_column": 0, "image_column": 1, "split_column": 2, "caption_column": [3, 4]}
    source["splits"] = {"train": "train", "unused": "other"}
    assert read(source, "train", tmp_path)[0] == {"7": ("one", "uno")}
    assert read(source, "val", tmp_path)[0] == {"8": ("two", "dos")}


def test_held_out_share_is_a_matter_of_the_name_alone(tmp_path: Path) -> None:
    names = [f"{i}.jpg" for i in range(200)]
    photos(tmp_path, *names)
    source = {**TABLE, "val_fraction": 0.25}

    def split(listed: list[str], which: str) -> set[str]:
        (tmp_path / "captions.csv").write_text("image,caption\n" + "".join(f"{name},cap {name}\n" for name in listed))
        return {captions[0].removeprefix("cap ") for captions in read(source, which, tmp_path)[0].values()}

    val = split(names, "val")
    assert split(names, "train") == set(names) - val and 25 <= len(val) <= 75
    fewer = names[::-3]
    assert split(fewer, "val") == val & set(fewer)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_img2datasets_shards(tmp_path: Path, form: int) -> None:
    keys = [f"00000{i:04d}" for i in range(12)]
    folder = tarfile.TarInfo("a folder")
    folder.type = tarfile.DIRTYPE
    (tmp_path / "set").mkdir()
    (tmp_path / "set/00000.tar").write_bytes(tar_of([(folder, b""), *downloaded(keys[:3])], form))
    (tmp_path / "set/00001.tar").write_bytes(tar_of(downloaded(keys[3:], 3), form))
    (tmp_path / "set/00000_stats.json").write_text(json.dumps({"count": 9, "successes": 3}))
    (tmp_path / "set/00000.parquet").write_bytes(b"")
    source = {"kind": "webdataset", "path": "set"}
    assert read(source, "train", tmp_path)[0] == {key: (f"a thing {i}",) for i, key in enumerate(keys)}
    assert read(source, "val", tmp_path)[0] == {}
    field = read({**source, "caption_field": "recaption"}, "train", tmp_path)[0]
    assert list(field.values()) == [(f"a long text {i}",) for i in range(12)]
    parts = [read({**source, "val_fraction": 0.5}, split, tmp_path)[0] for split in ("train", "val")]
    assert len(parts[0]) + len(parts[1]) == 12 and parts[0] and parts[1]
    (tmp_path / "set/00000_stats.json").write_text(json.dumps({"count": 9, "successes": 4}))
    with pytest.raises(UserError, match=r"00000\.tar: contains 3 samples, expected 4 \(00000_stats\.json\)"):
        read(source, "train", tmp_path)


def test_what_webdatasets_own_writer_makes(tmp_path: Path) -> None:
    """img2dataset hands its samples to this writer, with these endings in this order."""
    import webdataset

    with webdataset.TarWriter(str(tmp_path / "00000.tar")) as writer:
        for i in range(3):
            sample = {"__key__": f"00000000{i}", "jpg": encoded(i, kind="JPEG"), "txt": f"caption {i}" if i else ""}
            writer.write({**sample, "json": json.dumps({"caption": None, "key": f"00000000{i}"}, indent=4)})
    found, skipped = read({"kind": "webdataset", "path": "00000.tar"}, "train", tmp_path)
    assert found == {f"00000000{i}": (f"caption {i}",) for i in (1, 2)} and skipped.counts == {"no caption": 1}


def test_shards_in_a_folder_a_split(tmp_path: Path) -> None:
    for split, keys in (("training", ["a", "b"]), ("held", ["c"])):
        (tmp_path / split).mkdir()
        (tmp_path / split / "0.tar").write_bytes(tar_of(downloaded(keys)))
    source = {"kind": "webdataset", "path": str(tmp_path), "splits": {"train": "training", "val": "held"}}
    assert list(read(source, "train", tmp_path)[0]) == ["a", "b"] and list(read(source, "val", tmp_path)[0]) == ["c"]


def class_folders(folder: Path, classes: str = "bca", splits: tuple[str, ...] = ("train", "test")) -> None:
    for split in splits:
        photos(folder / split, *(f"{name}/{i}.jpg" for name in classes for i in range(2)))


def test_class_folders_are_classes_in_alphabetical_order(tmp_path: Path) -> None:
    class_folders(tmp_path / "p")
    (tmp_path / "p/train/c/.DS_Store").write_bytes(b"x")
    (tmp_path / "p/train/c/notes.txt").write_bytes(b"x")
    (tmp_path / "p/train/c/PHOTO.JPG").write_bytes(encoded(9, kind="PNG"))
    source = {"kind": "class_folder", "path": "p"}
    index = write_probe("p", source, tmp_path / "out", tmp_path, max_skipped=0.2)
    assert index["classes"] == ["a", "b", "c"] and index["class_counts"] == {"train": [2, 2, 3], "test": [2, 2, 2]}
    assert index["skipped"] == {"not named as an image": 1}
    reader = ShardReader(tmp_path / "out", "train")
    assert [reader.read(i)[2]["label"] for i in range(7)] == [0, 0, 1, 1, 2, 2, 2]
    assert reader.read(6)[1] == encoded(9, kind="PNG") or reader.read(4)[1] == encoded(9, kind="PNG")
