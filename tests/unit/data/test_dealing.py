"""A parquet corpus whose images are dealt into splits anew."""

from pathlib import Path
from typing import Any

import pytest
from data_samples import encoded, iter_corpus, write_corpus, write_parquet

from mdc.data.formats.samples import Skipped, rank_hash
from mdc.data.shards.index import ShardReader
from mdc.data.shards.set_job import splits_of
from mdc.data.sources.corpora.parquet import resplit
from mdc.plan.config.kinds.sources import ParquetCorpus
from mdc.plan.records import UserError

SOURCE: dict[str, Any] = {"kind": "parquet", "path": "a.parquet", "key_column": "image_id"}
SPLITS = ("train", "val", "test")


def rows(path: Path, names: list[str]) -> Path:
    columns = {
        "image": [encoded(i) for i in range(len(names))],
        "captions": [[f"first of {name}", f"second of {name}"] for name in names],
        "split": [("train", "dev", "test")[i % 3] for i in range(len(names))],
        "image_id": names,
    }
    return write_parquet(path, columns)


def keys(source: dict[str, Any], folder: Path) -> dict[str, list[str]]:
    return {split: [sample.key for sample in iter_corpus(source, split, folder)] for split in SPLITS}


def test_each_image_is_of_one_split_by_its_rank(tmp_path: Path) -> None:
    source = SOURCE | {"resplit": {"seed": 3, "test": 7, "val": 5}}
    names = [f"n{i}" for i in range(40)]
    ranked = sorted(names, key=lambda name: rank_hash(3, name))
    wanted = {"test": ranked[:7], "val": ranked[7:12], "train": ranked[12:]}
    for order in (names, names[::-1]):
        rows(tmp_path / "a.parquet", order)
        # in the file's order, whatever split the file says they are of
        assert keys(source, tmp_path) == {s: [name for name in order if name in wanted[s]] for s in SPLITS}
    for sample in iter_corpus(source, "test", tmp_path):
        assert sample.captions == (f"first of {sample.key}", f"second of {sample.key}")


def test_rows_of_one_image_stay_together() -> None:
    found = resplit(["a", "b", "a", "c", "d", "d"], 0, 1, 1, "here")
    assert sorted(key for of_split in found.values() for key in of_split) == ["a", "b", "c", "d"]
    assert [len(found[split]) for split in ("test", "val", "train")] == [1, 1, 2]


@pytest.mark.parametrize("how", [{"splits": {"val": "dev"}}, {"resplit": {"seed": 0, "test": 25, "val": 1}}])
def test_pairs_are_nested_subsets_of_the_train_split_alone(tmp_path: Path, how: dict[str, Any]) -> None:
    rows(tmp_path / "a.parquet", [f"n{i}" for i in range(40)])
    whole = keys(SOURCE | how, tmp_path)
    assert len(whole["train"]) == 14 and whole["val"] and not set(whole["train"]) & {*whole["val"], *whole["test"]}
    ranked = sorted(whole["train"], key=lambda key: rank_hash(0, key))
    for pairs in (4, 10, 14):
        few = {"train": [key for key in whole["train"] if key in ranked[:pairs]]}
        assert keys(SOURCE | how | {"pairs": pairs}, tmp_path) == whole | few
    with pytest.raises(UserError, match="15 pairs requested, its train split has 14"):
        keys(SOURCE | how | {"pairs": 15}, tmp_path)


def test_a_corpus_of_it_has_the_splits_that_were_asked_for(tmp_path: Path) -> None:
    rows(tmp_path / "a.parquet", [f"n{i}" for i in range(30)])
    for how, there in (({"seed": 0, "test": 8}, {"train": 22, "test": 8}), ({"seed": 0, "test": 8, "val": 2}, None)):
        source = ParquetCorpus(**SOURCE, resplit=how)  # type: ignore[arg-type]
        out = tmp_path / str(len(how))
        whole = source.complete()
        index = write_corpus("x", whole, out, tmp_path, context_length=16, splits=splits_of(whole))
        counts = {split: told["samples"] for split, told in index["splits"].items()}
        assert counts == (there or {"train": 20, "val": 2, "test": 8})
        assert ShardReader(out / "index.json", "test").read(0)[1].startswith(b"\x89PNG")


def test_mistakes_are_told(tmp_path: Path) -> None:
    rows(tmp_path / "a.parquet", ["a", "b", "c"])
    with pytest.raises(UserError, match=r"a\.parquet: resplit asks for 2 images to test on and 1 held out.*none of 3"):
        list(iter_corpus(SOURCE | {"resplit": {"seed": 0, "test": 2, "val": 1}}, "train", tmp_path, Skipped()))
