"""MSCOCO, Flickr30k, Flickr8k and CUB in their published layouts, as corpora."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import evaluation_files as files
import pytest
from data_samples import iter_corpus, write_corpus
from read_table import read_table

from mdc.data.formats.samples import RawSample, Skipped
from mdc.data.shards.index import ShardReader, read_index
from mdc.plan.records import UserError

KARPATHY: dict[str, Any] = {"kind": "karpathy", "dataset": "mscoco", "path": "there"}
COCO = {"kind": "coco_captions", "dataset": "mscoco", "path": "there"}
FLICKR8K = {"kind": "flickr8k", "dataset": "flickr8k", "path": "there"}
CUB = {"kind": "cub", "dataset": "cub200", "path": "there"}
ALL = [(KARPATHY, files.karpathy), (COCO, files.coco), (FLICKR8K, files.flickr8k), (CUB, files.cub)]
every_kind = pytest.mark.parametrize(("source", "write"), ALL, ids=[source["kind"] for source, _ in ALL])


def read(source: dict[str, Any], split: str, root: Path, skipped: Skipped | None = None) -> list[RawSample]:
    return list(iter_corpus(source, split, root, skipped))


def test_karpathys_coco_joins_restval_and_looks_where_filepath_says(tmp_path: Path) -> None:
    root = files.karpathy(tmp_path / "there")
    keys = [[s.key for s in read(KARPATHY, split, tmp_path)] for split in ("train", "val", "test")]
    of = "COCO_{}2014_00000000000{}".format
    assert keys == [[of("train", 0), of("val", 1)], [of("val", 2)], [of("val", 3)]]
    alone = read(KARPATHY | {"restval": False}, "train", tmp_path)
    assert [s.key for s in alone] == ["COCO_train2014_000000000000"]
    (sample,) = read(KARPATHY, "test", tmp_path)
    assert sample.image == (root / "val2014/COCO_val2014_000000000003.jpg").read_bytes() and sample.extension == "jpg"
    assert sample.captions == ("A brown dog runs, number 3, near the red car.",) * 2
    # another split of theirs under a name of ours, and no split at all
    theirs = KARPATHY | {"splits": {"train": "train", "val": "test"}}
    assert [s.key for s in read(theirs, "val", tmp_path)] == keys[2] and not read(theirs, "test", tmp_path)


@pytest.mark.parametrize("dataset", ["flickr30k", "flickr8k"])
def test_karpathys_flickr_has_one_folder(dataset: str, tmp_path: Path) -> None:
    root = files.karpathy(tmp_path / "there", dataset)
    source = KARPATHY | {"dataset": dataset}
    assert [s.key for s in read(source, "train", tmp_path)] == ["100000", "100001"]
    (root / f"dataset_{dataset}.json").rename(root / "k.json")
    (moved,) = (path for path in root.iterdir() if path.is_dir())
    moved.rename(tmp_path / "images")
    named = source | {"annotations": "k.json", "images": str(tmp_path / "images")}
    assert [s.key for s in read(named, "test", tmp_path)] == ["100003"]


@pytest.mark.parametrize("year", [2014, 2017])
def test_cocos_official_captions_go_to_their_images(year: int, tmp_path: Path) -> None:
    root = files.coco(tmp_path / "there", year)
    source = COCO | {"year": year}
    assert [(s.key, s.captions) for s in read(source, "train", tmp_path)] == [
        ("000000000030", ("Caption 0 of 30.", "Caption 1 of 30.")),
        ("000000000009", ("Caption 0 of 9.", "Caption 1 of 9.")),
    ]
    (first, _) = read(source, "val", tmp_path)
    assert first.image == (root / f"val{year}/000000000139.jpg").read_bytes()
    assert not read(source, "test", tmp_path)


def test_flickr8ks_own_files(tmp_path: Path) -> None:
    files.flickr8k(tmp_path / "there")
    found = {split: read(FLICKR8K, split, tmp_path) for split in ("train", "val", "test")}
    keys = {split: [s.key for s in samples] for split, samples in found.items()}
    assert keys == {"train": ["b_2", "a_1"], "val": ["c_3"], "test": ["d_4"]}
    # by their numbers, whatever the order of the lines
    assert found["val"][0].captions == ("A child of c_3.jpg , number 0 .", "A child of c_3.jpg , number 1 .")


def test_cub_has_ten_captions_and_holds_out_of_its_training_images(tmp_path: Path) -> None:
    files.cub(tmp_path / "there", count=40)
    train, test = (read(CUB, split, tmp_path) for split in ("train", "test"))
    assert len(test) == 13 and [s.key for s in test][:2] == ["Some_Bird_0002_102", "Some_Bird_0005_105"]
    assert len(train) == 27 and {len(s.captions) for s in train + test} == {10}
    assert train[0].captions[3] == "this bird 0 has feature 3." and not read(CUB, "val", tmp_path)
    shared = CUB | {"val_fraction": 0.3}
    kept, held = ({s.key for s in read(shared, split, tmp_path)} for split in ("train", "val"))
    assert kept | held == {s.key for s in train} and not kept & held and 2 <= len(held) <= 14
    assert read(shared, "test", tmp_path) == test


def test_cub_by_classes_tests_birds_of_which_none_is_trained_on(tmp_path: Path) -> None:
    root = files.cub(tmp_path / "there", count=40)
    by_class = CUB | {"split": "classes", "val_fraction": 0.2}
    train, val, test = ({s.key for s in read(by_class, split, tmp_path)} for split in ("train", "val", "test"))
    every_other = {f"Some_Bird_{n:04d}_{100 + n}" for n in range(0, 40, 2)}
    assert train | val == every_other and len(test) == 20 and not test & every_other and val
    (root / "testclasses.txt").write_text("003.Some_Bird\n")
    with pytest.raises(UserError, match=r"the class 002\.Some_Bird is neither in trainvalclasses"):
        read(by_class, "test", tmp_path)
    (root / "testclasses.txt").write_text("001.Some_Bird\n002.Some_Bird\n")
    with pytest.raises(UserError, match=r"001\.Some_Bird is in both trainvalclasses\.txt and testclasses"):
        read(by_class, "test", tmp_path)
    (root / "testclasses.txt").unlink()
    with pytest.raises(UserError, match="testclasses"):
        read(by_class, "test", tmp_path)


@every_kind
def test_as_corpora_on_disk(source: dict[str, Any], write: Callable[[Path], Path], tmp_path: Path) -> None:
    write(tmp_path / "there")
    joined = source | {"caption_mode": "join"}
    splits = ("train", "val") if source is COCO else ("train", "val", "test")
    index = write_corpus("set", joined, tmp_path / "out", tmp_path, max_skipped=0, splits=splits)
    assert read_index(tmp_path / "out", verify=True, kind="corpus") == index
    _, image, record = ShardReader(tmp_path / "out", "train").read(0)
    (sample, *_) = read(joined, "train", tmp_path)
    assert (image, tuple(record["captions"])) == (sample.image, sample.captions) and len(sample.captions) == 1
    again = write_corpus("set", joined, tmp_path / "again", tmp_path, splits=splits)
    assert again == index  # with the sha256 of every shard in it
    cut = read(source | {"caption_mode": "cut", "max_pieces": 3}, "train", tmp_path)
    assert max(len(text.split()) for s in cut for text in s.captions) <= 3


@every_kind
def test_bad_samples_are_counted(source: dict[str, Any], write: Callable[[Path], Path], tmp_path: Path) -> None:
    root = write(tmp_path / "there")
    before = read(source, "train", tmp_path)
    first, second = (next(root.rglob(f"{sample.key}.jpg")) for sample in before[:2])
    first.write_bytes(first.read_bytes()[:40])
    second.unlink()
    skipped = Skipped()
    assert read(source, "train", tmp_path, skipped) == before[2:]
    assert skipped.counts == {"image cannot be decoded": 1, "image file is missing": 1}


@every_kind
def test_missing_files_are_one_line(source: dict[str, Any], write: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"there: no such folder; put {source['dataset']} there .*of the scale"):
        read(source, "train", tmp_path)
    root = write(tmp_path / "there")
    for path in [*root.glob("*.*"), *root.glob("annotations/*"), *root.glob("CUB_200_2011/*.txt")]:
        if path.suffix in (".json", ".txt"):
            path.rename(path.with_suffix(".away"))
    with pytest.raises(UserError, match=rf"no such file; put {source['dataset']} there"):
        read(source, "train", tmp_path)


def test_names_that_lead_outside_and_images_without_words(tmp_path: Path) -> None:
    root = files.coco(tmp_path / "there")
    files.put(tmp_path / "secret.jpg", files.jpeg(1))
    path = root / "annotations/captions_val2017.json"
    files.damage(path, "images.0.file_name", "../../secret.jpg")
    for number in range(4):
        files.damage(path, f"annotations.{number}.caption", " ")
    skipped = Skipped()
    assert not read(COCO, "val", tmp_path, skipped)
    assert skipped.counts == {"image outside the folder": 1, "no caption": 1}
    files.cub(root)
    names = root / "CUB_200_2011/images.txt"
    names.write_text(names.read_text().replace("1 001", "1 ../001", 1))
    (root / "text_c10/002.Some_Bird/Some_Bird_0001_101.txt").unlink()
    skipped = Skipped()
    assert len(read(CUB, "train", tmp_path, skipped)) == 2
    assert skipped.counts == {"caption file is missing": 2}


@pytest.mark.parametrize(
    ("kind", "file", "said", "edit"), [(*row[:3], row[3:]) for row in read_table(__file__, "formats")]
)
def test_other_formats_are_one_line(kind: str, file: str, said: str, edit: list[Any], tmp_path: Path) -> None:
    source, write = next((source, write) for source, write in ALL if source["kind"] == kind)
    path = write(tmp_path / "there") / file
    files.damage(path, *edit)
    with pytest.raises(UserError, match=said) as error:
        read(source, "train", tmp_path)
    assert path.name in str(error.value)
