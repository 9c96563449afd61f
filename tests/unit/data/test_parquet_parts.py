"""A folder of parquet files, each a part: the corpus that one job writes, whoever makes the parts, and nothing stale."""

import os
from pathlib import Path
from typing import Any

import pytest
from data_samples import encoded, write_parquet
from made_in_parts import SPLITS, as_whole, hashes, join, parts_of

from mdc.plan.config.kinds.sources import ParquetCorpus

ROWS = [5, 1, 7, 3]


def written(folder: Path, **changes: Any) -> None:
    """Four files with keys, a split column whose values lie mixed, an image that is none, and a caption without a word."""
    first = 0
    for number, rows in enumerate(ROWS):
        ids = range(first, first + rows)
        columns: dict[str, Any] = {
            "id": [f"k{n}" for n in ids],
            "image": [b"no image" if n == 6 else encoded(n) for n in ids],
            "captions": [[" "] if n == 9 else [f"thing {n}", "nan", f"another word {n}"] for n in ids],
            "split": ["val" if n % 4 == 1 else "test" if n % 7 == 5 else "train" for n in ids],
        }
        folder.mkdir(exist_ok=True)
        write_parquet(folder / f"{number:02d}.parquet", columns | changes)
        first += rows


def hub_files(folder: Path) -> None:
    """As the hub lays them out: a file belongs to the split that it is named after."""
    folder.mkdir()
    for split, files in (("train", 2), ("validation", 1), ("test", 1)):
        for number in range(files):
            ids = range(10 * number, 10 * number + 4)
            columns = {"image": [encoded(n) for n in ids], "caption": [f"{split} {n}" for n in ids]}
            write_parquet(folder / f"{split}-{number:05d}-of-{files:05d}.parquet", columns)


def source(**keys: Any) -> dict[str, Any]:
    given = {"kind": "parquet", "path": "p", "sharded": True, **keys}
    return ParquetCorpus.model_validate(given).complete()


def joined(config: dict[str, Any], data: Path, at: Path, processes: int = 1) -> dict[str, Any]:
    """The parts, and the corpus that names them."""
    return join(data, at, parts_of(data, at, source=config, processes=processes), source=config)


def same_as_whole(config: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    return as_whole({**config, "sharded": False}, folder, folder / "in", max_skipped=0.5)


def times(folder: Path) -> dict[str, tuple[str, int]]:
    return {name: (sha256, (folder / name).stat().st_mtime_ns) for name, sha256 in hashes(folder).items()}


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"key_column": "id"},
        {"key_column": "id", "pairs": 6},
        {"pairs": 6},
        {"splits": {"train": "val", "val": "train"}},
    ],
)
@pytest.mark.parametrize("processes", [1, 3])
def test_the_corpus_is_the_one_that_a_single_job_writes(tmp_path: Path, keys: dict[str, Any], processes: int) -> None:
    written(tmp_path / "p")
    config = source(**keys)
    joined(config, tmp_path, tmp_path / "in", processes)
    whole, parts = same_as_whole(config, tmp_path)
    assert whole["skipped"] == parts["skipped"] and whole["captions"] == parts["captions"]
    samples = sum(whole["splits"][split]["samples"] for split in whole["splits"])
    assert whole["captions_left_out"] == parts["captions_left_out"] == samples
    assert all(whole["splits"][split]["samples"] for split in SPLITS)
    lists = [(tmp_path / "in" / path / "skipped.jsonl").read_text() for path in ("whole", "corpora/c")]
    # one account goes through the splits, the other through the files
    assert sorted(lists[0].splitlines()) == sorted(lists[1].splitlines())


@pytest.mark.parametrize("splits", [{"train": "train", "val": "validation"}, {"train": "test", "val": "validation"}])
def test_files_that_are_named_after_their_split(tmp_path: Path, splits: dict[str, str]) -> None:
    hub_files(tmp_path / "p")
    config = source(split_column=None, splits=splits)
    joined(config, tmp_path, tmp_path / "in", 2)
    shared = {"val": {"train": {"images": 4, "first": "00000000"}}}
    assert [index["repeated"] for index in same_as_whole(config, tmp_path)] == [shared, shared]


def test_a_file_of_another_split_is_not_read(tmp_path: Path) -> None:
    hub_files(tmp_path / "p")
    config = source(split_column=None, splits={"train": "train", "val": "validation"}, key_column=None)
    (tmp_path / "p/test-00000-of-00001.parquet").write_bytes(b"no parquet")
    index = joined(config, tmp_path, tmp_path / "in")
    assert {split: index["splits"][split]["samples"] for split in SPLITS} == {"train": 8, "val": 4}


@pytest.mark.parametrize(
    ("keys", "later", "anew"),
    [
        ({"key_column": "id"}, None, [2]),
        ({"key_column": "id", "pairs": 6}, None, [0, 1, 2, 3]),  # a subset depends on every file
        # another subset is another corpus, unlike the pairs of a list, whose first parts a larger corpus shares
        ({"key_column": "id", "pairs": 6}, {"key_column": "id", "pairs": 7}, [0, 1, 2, 3]),
    ],
)
def test_a_file_that_changed_is_read_again_and_no_other(
    tmp_path: Path, keys: dict[str, Any], later: dict[str, Any] | None, anew: list[int]
) -> None:
    written(tmp_path / "p")
    joined(source(**keys), tmp_path, tmp_path / "in")
    if later is None:  # the third file gets another time, as from whoever writes it anew
        os.utime(tmp_path / "p/02.parquet", (1, 1))
    old = times(tmp_path / "in/parts/d")
    joined(source(**(later or keys)), tmp_path, tmp_path / "in")
    new = times(tmp_path / "in/parts/d")
    parts = range(len(ROWS))
    assert [n for n in parts if any(f"-{n:05d}." in name and new[name] != old.get(name) for name in new)] == anew


def test_keys_by_number_depend_on_the_files_before(tmp_path: Path) -> None:
    written(tmp_path / "p")
    config = source()
    joined(config, tmp_path, tmp_path / "in")
    old = hashes(tmp_path / "in/parts/d")
    columns: dict[str, Any] = {"image": [encoded(n) for n in (70, 71)], "captions": [["a b"], ["c d"]]}
    write_parquet(tmp_path / "p/01.parquet", {**columns, "split": ["train", "train"]})  # had one row, of val
    joined(config, tmp_path, tmp_path / "in")
    new = hashes(tmp_path / "in/parts/d")
    assert new["train-00000.tar"] == old["train-00000.tar"]
    assert all(new[f"train-{n:05d}.tar"] != old.get(f"train-{n:05d}.tar") for n in (1, 2, 3))
