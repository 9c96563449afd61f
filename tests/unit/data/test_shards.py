import io
import json
import math
import random
import tarfile
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from data_samples import encoded, iter_corpus, scenes, use_scenes, write_corpus, write_parquet, write_probe

from mdc.data.formats.tar import TarWriter, split_span
from mdc.data.shards import index as shards
from mdc.data.shards.caption_statistics import duplicate_share
from mdc.models.text import clip_pieces
from mdc.plan.records import sha256_file

PROBE = {"kind": "scenes", "task": "colour", "train": 8, "test": 7, "seed": 3, "pixels": 12}


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> None:
    use_scenes(monkeypatch)


def corpus(out: Path, **changes: object) -> dict:
    return write_corpus("alt", scenes(**changes), out, out, samples_per_shard=10)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_same_input_same_bytes_and_nothing_stale_stays(tmp_path: Path) -> None:
    corpus(tmp_path / "a")
    corpus(tmp_path / "b", train=60, seed=9)
    (tmp_path / "b" / "train-00077.tar").write_bytes(b"old")
    (tmp_path / "b" / "val-00077.offsets.npy").write_bytes(b"old")
    corpus(tmp_path / "b")
    assert content(tmp_path / "a") == content(tmp_path / "b")
    shard_names = ["train-00000", "train-00001", "train-00002", "val-00000"]
    names = [
        "images.safetensors",
        "index.json",
        *(name + end for name in shard_names for end in (".offsets.npy", ".tar")),
    ]
    assert sorted(content(tmp_path / "a")) == names
    corpus(tmp_path / "b", seed=2)
    assert content(tmp_path / "a") != content(tmp_path / "b")


def test_tars_that_are_not_ours_stay(tmp_path: Path) -> None:
    theirs = ["backup.tar", "train.tar", "train-1.tar", "train-000001.tar", "train-0000a.tar", "other-00000.tar"]
    theirs += ["numbers.npy", "train.offsets.npy", "other-00000.offsets.npy", "train-00000.npy"]
    for name in theirs:
        (tmp_path / name).write_bytes(b"somebody's")
    # no index tells: a killed job left them, or another source had this split
    for name in ("val-00041.tar", "val-00041.offsets.npy", "train-00009.offsets.npy", "test-00000.tar"):
        (tmp_path / name).write_bytes(b"ours")
    write_corpus("alt", scenes(), tmp_path, tmp_path)
    ours = [f"{split}-00000.{end}" for split in ("train", "val") for end in ("tar", "offsets.npy")]
    assert sorted(content(tmp_path)) == sorted(["images.safetensors", "index.json", *ours, *theirs])
    assert all((tmp_path / name).read_bytes() == b"somebody's" for name in theirs)


def test_webdataset_reads_the_shards(tmp_path: Path) -> None:
    """And finds every sample as it was; that nothing of this machine is in a tar, its own test says."""
    import webdataset

    index = corpus(tmp_path)
    for split, count in (("train", 23), ("val", 5)):
        files = [str(tmp_path / shard["file"]) for shard in index["splits"][split]["shards"]]
        read = list(webdataset.WebDataset(files, shardshuffle=False))
        assert len(read) == count == index["splits"][split]["samples"]
        for found, sample in zip(read, iter_corpus(scenes(), split, tmp_path), strict=True):
            record = {"captions": list(sample.captions), "truth": sample.truth}
            wanted = {"__key__": sample.key, "png": sample.image, "txt": sample.captions[0].encode(), "json": record}
            assert {**found, "json": json.loads(found["json"])}.items() >= wanted.items()


def test_index_says_what_is_there(tmp_path: Path) -> None:
    index = corpus(tmp_path)
    assert shards.read_index(tmp_path) == shards.read_index(tmp_path / "index.json", verify=True) == index
    for split in index["splits"].values():
        assert split["bytes"] == sum((tmp_path / shard["file"]).stat().st_size for shard in split["shards"])
        for shard in split["shards"]:
            assert shard["sha256"] == sha256_file(tmp_path / shard["file"])
    texts = {s: [c for r in iter_corpus(scenes(), s, tmp_path) for c in r.captions] for s in ("train", "val")}
    assert index["pieces"] == sorted({piece for both in texts.values() for c in both for piece in clip_pieces(c)})
    for split, captions in texts.items():
        lengths = [len(clip_pieces(caption)) for caption in captions]
        found = index["captions"]["per_split"][split]
        assert found["count"] == len(captions) and found["max"] == max(lengths) and found["truncated_share"] == 0
        assert found["mean"] == pytest.approx(np.mean(lengths)) and found["median"] == np.median(lengths)
        assert found["histogram"] == {str(k): v for k, v in Counter(lengths).items()}


def test_truncated_share_counts_what_the_context_cuts(tmp_path: Path) -> None:
    captions = [" ".join(["a"] * length) for length in (3, 4, 5, 6)]
    columns = {"image": [encoded(i) for i in range(4)], "caption": captions, "split": ["train"] * 4}
    write_parquet(tmp_path / "c.parquet", columns)
    source = {"kind": "parquet", "path": "c.parquet"}
    index = write_corpus("c", source, tmp_path / "out", tmp_path, context_length=6)
    assert index["captions"]["per_split"]["train"]["truncated_share"] == 0.5
    # cut to four pieces, three of the four captions are equal
    assert index["captions"]["duplicate_share"] == {"4": 0.75}
    assert index["splits"]["val"]["samples"] == 0 and index["captions"]["per_split"]["val"]["count"] == 0


def test_pieces_beyond_the_cut_are_none_that_training_sees(tmp_path: Path) -> None:
    captions = ["red red red red zebra", "blue zebra", "green green green green green horse"]
    columns = {"image": [encoded(i) for i in range(3)], "caption": captions, "split": ["train", "val", "train"]}
    write_parquet(tmp_path / "c.parquet", columns)
    index = write_corpus("c", {"kind": "parquet", "path": "c.parquet"}, tmp_path / "out", tmp_path, context_length=6)
    assert index["pieces"] == sorted(clip_pieces("red zebra blue green horse"))
    assert index["train_pieces"] == sorted(clip_pieces("red green"))


def test_probe_index(tmp_path: Path) -> None:
    index = write_probe("colour", PROBE, tmp_path, tmp_path)
    assert (index["kind"], index["task"], index["classes"][0]) == ("probe", "single", "red")
    assert index["chance"] == 3 / 7 and index["class_counts"] == {"train": [3, 3, 2, 0], "test": [3, 2, 2, 0]}
    assert shards.read_index(tmp_path, verify=True) == index
    reader = shards.ShardReader(tmp_path, "test")
    assert [reader.read(i)[2]["label"] for i in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_multi_label_chance_is_the_average_precision_of_constant_scores(tmp_path: Path) -> None:
    from sklearn.metrics import average_precision_score

    caption = "a dog is near two boats and the house is by a wug . the boat sits near a dog ."
    held_out = [["dog"], ["boat dog"], [], ["house"], ["dog boat"]]
    columns = {
        "image": [encoded(i) for i in range(16)],
        "captions": [[caption]] * 10 + [["a"]] + held_out,
        "split": ["train"] * 10 + ["dev"] + ["test"] * 5,
    }
    write_parquet(tmp_path / "n.parquet", columns)
    source = {"kind": "caption_nouns", "path": "n.parquet"}
    index = write_probe("nouns", source, tmp_path / "out", tmp_path)
    reader = shards.ShardReader(tmp_path / "out", "test")
    labels = np.array([reader.read(i)[2]["labels"] for i in range(5)])
    assert index["task"] == "multi" and labels.sum(0).tolist() == index["class_counts"]["test"]
    scores = [average_precision_score(column, np.zeros(5)) for column in labels.T if column.any()]
    assert index["chance"] == pytest.approx(np.mean(scores))
    assert len(scores) < len(index["classes"])  # "wug" is never positive


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, "a/../../b", "/b"]
)
def test_hostile_tar_members_are_refused(kind: bytes | str) -> None:
    info = tarfile.TarInfo("b.png" if isinstance(kind, bytes) else kind)
    info.type = kind if isinstance(kind, bytes) else tarfile.REGTYPE
    with pytest.raises(ValueError, match="not a"):
        split_span(info.tobuf(tarfile.USTAR_FORMAT))


@pytest.mark.parametrize("count", [0, 1, 7, 40])
def test_tars_are_those_of_pythons_own_writer(count: int) -> None:
    draw = random.Random(count)
    names = ["ä.png", *("".join(draw.choices("abc_-0", k=draw.choice([1, 5, 96, 100]))) for _ in range(39))][:count]
    files = [(name, draw.randbytes(draw.choice([0, 1, 511, 512, 513, 9000]))) for name in names]
    ours, theirs = io.BytesIO(), io.BytesIO()
    writer = TarWriter(ours)
    with tarfile.open(fileobj=theirs, mode="w", format=tarfile.USTAR_FORMAT, encoding="utf-8") as tar:
        for name, content in files:
            writer.add(name, content)
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    writer.close()
    assert ours.getvalue() == theirs.getvalue()
    with pytest.raises(ValueError, match="name is too long"):
        writer.add("x" * 101, b"")


def test_duplicate_share_equals_the_hypergeometric_expectation() -> None:
    """One caption a sample: a sample is alone if none of the batch's other b − 1 shares its caption."""
    captions = ["a"] * 5 + ["b"] * 2 + list("cdefghijklm")
    n, batch = len(captions), 6
    counts = Counter(captions)
    alone = [math.comb(n - counts[c], batch - 1) / math.comb(n - 1, batch - 1) for c in captions]
    found = duplicate_share(*_hashes(captions), batch, seed=1)
    assert found == pytest.approx(1 - np.mean(alone), abs=0.04)
    assert found == duplicate_share(*_hashes(captions), batch, seed=1)
    assert duplicate_share(*_hashes(sorted(set(captions))), 10, seed=1) == 0


def _hashes(captions: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    """The captions of each sample as a share of duplicates takes them."""
    starts = np.cumsum([0, *(len(some) for some in captions)])[:-1]
    return np.array([ord(text) for some in captions for text in some], dtype=np.int64), starts


def test_duplicate_share_of_several_captions_equals_enumeration() -> None:
    captions = [["a", "b"], ["a"], ["c", "a", "d"], ["b", "e"]]
    share = 0.0
    for left, right in combinations(captions, 2):
        share += sum(x == y for x in left for y in right) / (len(left) * len(right)) / 6
    draws = [duplicate_share(*_hashes(captions), 2, seed) for seed in range(2)]
    assert np.mean(draws) == pytest.approx(share, abs=0.04)
