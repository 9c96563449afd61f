"""Where samples lie: held against Python's tarfile, and refused wherever it is not what the index names."""

import contextlib
import json
import os
import random
import resource
import shutil
import tarfile
from pathlib import Path
from typing import Any

import data_samples
import numpy as np
import pytest
from confined import forked
from data_samples import encoded, iter_corpus, scenes, use_scenes, write_corpus

from mdc.data.formats.tar import TarWriter, split_span
from mdc.data.shards.index import ShardReader, read_index
from mdc.data.shards.offsets import offsets_name, write_offsets
from mdc.data.shards.opened import RESERVE, OpenShards, need_room
from mdc.plan.records import UserError, sha256_file


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """23 training samples of many sizes in shards of ten, ten and three."""
    use_scenes(monkeypatch)
    monkeypatch.setattr(data_samples, "encoded", lambda seed, w, h: encoded(seed, w + 5 * (seed % 7), h))
    write_corpus("alt", scenes(), tmp_path / "set", tmp_path, samples_per_shard=10)
    return tmp_path / "set"


def shards_of(folder: Path, split: str = "train") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_index(folder)["splits"][split]["shards"]
    return found


def edited(folder: Path, number: int, changes: dict[str, Any]) -> None:
    """The index with other words about the offsets of one training shard."""
    index = json.loads((folder / "index.json").read_text())
    index["splits"]["train"]["shards"][number]["offsets"] |= changes
    (folder / "index.json").write_text(json.dumps(index))


def described(path: Path) -> dict[str, Any]:
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256_file(path)}


def test_offsets_are_where_tarfile_finds_the_samples(corpus: Path) -> None:
    """Read by numpy as a mapping; each sample begins at the header of its first file and ends where the next begins."""
    for split in ("train", "val"):
        for shard in shards_of(corpus, split):
            assert shard["offsets"] == described(corpus / shard["offsets"]["file"])
            assert shard["offsets"]["file"] == shard["file"].replace(".tar", ".offsets.npy")
            bounds = np.load(corpus / shard["offsets"]["file"], mmap_mode="r", allow_pickle=False)
            assert isinstance(bounds, np.memmap) and bounds.dtype == np.int64 and len(bounds) == shard["samples"] + 1
            with tarfile.open(corpus / shard["file"]) as tar:
                members = tar.getmembers()
            firsts = [m for m, before in zip(members, [None, *members], strict=False) if m.name.endswith(".png")]
            last = members[-1]
            end = last.offset_data + -(-last.size // 512) * 512
            assert bounds.tolist() == [*(member.offset for member in firsts), end]


@pytest.mark.parametrize("count", [0, 1, 9, 10_000, 10**6])
def test_numpy_reads_any_number_of_offsets(tmp_path: Path, count: int) -> None:
    bounds = np.arange(count + 1) * 512
    told = write_offsets(tmp_path / "x.offsets.npy", bounds)
    found = np.load(tmp_path / "x.offsets.npy")
    assert np.array_equal(found, bounds) and found.dtype == np.int64
    assert told == described(tmp_path / "x.offsets.npy") and told["bytes"] == 128 + 8 * (count + 1)


def test_the_reader_opens_nothing_before_it_is_asked(corpus: Path) -> None:
    for shard in shards_of(corpus)[1:]:
        (corpus / shard["file"]).unlink()
        (corpus / shard["offsets"]["file"]).unlink()
    reader = ShardReader(corpus, "train")
    assert len(reader) == 23 and reader.sizes == [10, 10, 3]
    expected = list(iter_corpus(scenes(), "train", corpus))
    told = [(one.key, one.image, {"captions": list(one.captions), "truth": one.truth}) for one in expected[:10]]
    assert [reader.read(i) for i in range(10)] == told
    with pytest.raises(UserError, match=r"train-00001\.tar: missing; rebuild the set"):
        reader.read(10)
    for number in (-1, 23):
        with pytest.raises(IndexError):
            reader.read(number)
    with pytest.raises(UserError, match="allowed: train, val"):
        ShardReader(corpus, "test")


def _flip(path: Path, place: int = -3) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def _swap(folder: Path, left: str, right: str) -> None:
    shutil.move(folder / left, folder / "between")
    shutil.move(folder / right, folder / left)
    shutil.move(folder / "between", folder / right)


NAMES = tuple(f"train-0000{number}.offsets.npy" for number in range(3))
GONE, SIZE, OTHER = "missing", "not of the size in index", "the sha256 of the offsets differs|not the file"
DAMAGES = {
    "missing": (lambda f: (f / NAMES[0]).unlink(), GONE),
    "a folder": (lambda f: ((f / NAMES[0]).unlink(), (f / NAMES[0]).mkdir()), GONE),
    "cut off": (lambda f: os.truncate(f / NAMES[0], 128 + 8 * 10), SIZE),
    "empty": (lambda f: os.truncate(f / NAMES[0], 0), SIZE),
    "a number": (lambda f: _flip(f / NAMES[0]), OTHER),
    "its head": (lambda f: _flip(f / NAMES[0], 40), OTHER),
    "another shard's": (lambda f: _swap(f, NAMES[0], NAMES[1]), OTHER),
    "of fewer samples": (lambda f: _swap(f, NAMES[0], NAMES[2]), SIZE),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_offsets_are_one_line_and_never_a_sample(corpus: Path, damage: str) -> None:
    change, said = DAMAGES[damage]
    change(corpus)
    for attempt in (lambda: ShardReader(corpus, "train").read(0), lambda: read_index(corpus, verify=True)):
        with pytest.raises(UserError, match=rf"offsets\.npy: ({said})") as error:
            attempt()
        assert "rebuild" in str(error.value) and str(corpus) in str(error.value)


def test_offsets_of_another_set_under_our_index(corpus: Path, tmp_path: Path) -> None:
    """Stale: the tar was made again and the offsets stayed, or the other way round."""
    write_corpus("alt", scenes(pixels=30), tmp_path / "other", tmp_path, samples_per_shard=10)
    for name, said in (
        (NAMES[0], "sha256 of the offsets"),
        ("train-00000.tar", "not of the size in index"),
    ):
        before = (corpus / name).read_bytes()
        shutil.copy(tmp_path / "other" / name, corpus / name)
        with pytest.raises(UserError, match=said):
            ShardReader(corpus, "train").read(3)
        (corpus / name).write_bytes(before)
    assert ShardReader(corpus, "train").read(3)[0] == "train-000003"


def test_offsets_that_the_index_vouches_for_and_the_tar_does_not(corpus: Path) -> None:
    """Somebody wrote them with a hash that fits: a span that is no sample is refused."""
    path = corpus / NAMES[0]
    true = np.load(path).tolist()
    wrong = [(1, true[1] + 512), (1, true[2]), (1, 3), (0, -512), (1, 1 << 40), (2, true[1]), (10, true[10] + 512)]
    for place, value in wrong:
        edited(corpus, 0, write_offsets(path, [*true[:place], value, *true[place + 1 :]]))
        reader, damaged = ShardReader(corpus, "train"), 0
        for number in range(10):
            try:
                reader.read(number)
            except UserError as error:
                assert f"train-00000.tar: sample {number} of train is corrupt" in str(error)
                damaged += 1
        assert damaged, (place, value)


def test_a_damaged_header_is_found_when_its_sample_is_read(corpus: Path) -> None:
    """No walk has looked at it before."""
    bounds = np.load(corpus / NAMES[0])
    _flip(corpus / "train-00000.tar", int(bounds[4]) + 3)  # a letter of the name
    reader = ShardReader(corpus, "train")
    assert reader.read(3)[0] == "train-000003" and reader.read(5)[0] == "train-000005"
    with pytest.raises(
        UserError, match=r"train-00000\.tar: sample 4 of train is corrupt \(tar header checksum mismatch"
    ):
        reader.read(4)


def test_a_span_of_two_samples_is_none(tmp_path: Path) -> None:
    with (tmp_path / "t.tar").open("w+b") as file:
        writer = TarWriter(file)
        for name in ("a.png", "a.json", "b.json"):
            writer.add(name, b"x" * 600)
        end = file.tell()
        file.seek(0)
        span = file.read(end)
    assert split_span(span[: 2 * 1536]) == {"__key__": b"a", "png": b"x" * 600, "json": b"x" * 600}
    with pytest.raises(ValueError, match=r"'b\.json' is of another sample"):
        split_span(span)
    with pytest.raises(ValueError, match="truncated"):
        split_span(span[:1024])


# --- how many are held open -------------------------------------------------------------------------------------------


def descriptors_of(folder: Path) -> list[str]:
    """Which files of a folder this process has open, as the system sees it."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            path = each.readlink()
        except OSError:  # the one that lists the folder
            continue
        found += [path.name] if path.parent == folder else []
    return sorted(found)


def test_all_that_were_asked_for_stay_open(corpus: Path) -> None:
    reader = ShardReader(corpus, "train")
    for number, there in ((0, "0"), (10, "01"), (1, "01"), (22, "012"), (11, "012"), (0, "012")):
        assert reader.read(number)[0] == f"train-{number:06d}"
        expected = [f"train-0000{k}.{end}" for k in there for end in ("offsets.npy", "tar")]
        assert descriptors_of(corpus) == expected
    reader.close()
    assert descriptors_of(corpus) == []


def test_any_budget_reads_the_same(corpus: Path) -> None:
    order = random.Random(3).choices(range(23), k=200)
    whole = [ShardReader(corpus, "train").read(number) for number in order]
    for most in (1, 2, 3):
        reader = ShardReader(corpus, "train", most=most)
        assert [reader.read(number) for number in order] == whole
        assert len(descriptors_of(corpus)) <= 2 * most
        reader.close()


def test_a_fork_reads_on_and_leaves_the_descriptors_of_others(corpus: Path) -> None:
    reader = ShardReader(corpus, "train")
    expected = [reader.read(number) for number in (0, 10, 22)]

    def work() -> None:
        assert [reader.read(number) for number in (0, 10, 22)] == expected
        reader.close()
        assert descriptors_of(corpus) == []

    assert forked(work) == 0
    assert len(descriptors_of(corpus)) == 6 and reader.read(22) == expected[2]


def test_what_changed_while_it_was_closed_is_looked_at_again(corpus: Path) -> None:
    reader = ShardReader(corpus, "train", most=1)
    assert reader.read(0)[0] == "train-000000" and reader.read(10)[0] == "train-000010"
    _flip(corpus / NAMES[0])
    with pytest.raises(UserError, match="sha256 of the offsets"):
        reader.read(0)
    assert reader.read(10)[0] == "train-000010"


def limited(*limits: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    def work() -> None:
        limited(64, 4096)
        need_room(100, tmp_path)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (4096, 4096)
        with pytest.raises(
            UserError, match=r"its 2000 shards need \d+ open files, allowed are 4096; raise the hard limit"
        ):
            need_room(2000, tmp_path)

    assert forked(work) == 0
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    need_room(1, tmp_path)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before, "no need, so nothing is changed"


def test_where_no_descriptor_is_left_one_line_says_so(corpus: Path) -> None:
    """Another part of the process takes them after there was room."""

    def work() -> None:
        used = sum(1 for _ in Path("/dev/fd").iterdir())
        limited(used + RESERVE + 20, used + RESERVE + 20)
        reader = ShardReader(corpus, "train")
        first = reader.read(0)
        with contextlib.suppress(OSError):
            while True:
                os.open("/dev/null", os.O_RDONLY)
        with pytest.raises(
            UserError, match=r"cannot be opened \(Too many open files\); 1 shards are open; raise the hard"
        ):
            reader.read(10)
        assert reader.read(0) == first

    assert forked(work) == 0


def test_nothing_stays_open_where_opening_fails(corpus: Path) -> None:
    (corpus / NAMES[0]).unlink()
    held = OpenShards(corpus, shards_of(corpus))
    with pytest.raises(UserError):
        held[0]
    assert len(held) == 0 and descriptors_of(corpus) == []
    assert offsets_name("train-00000.tar") == NAMES[0]
