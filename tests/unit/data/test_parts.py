"""Corpora in parts: the same shards however many jobs and processes make them, what a kill loses, and nested corpora."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import tar_of
from data_samples import encoded, write_corpus
from made_in_parts import HELD, SPLITS, as_whole, hashes, join, parts_of
from obtained_pairs import CHOSEN, PER_SHARD, downloaded, sample, take_account

from mdc.data.shards import parts
from mdc.data.shards.index import read_index
from mdc.plan.records import UserError, read_json

WRITE_PART = parts.write_part


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return downloaded(tmp_path, 1)


def test_any_number_of_processes_makes_the_same_bytes(folder: Path) -> None:
    made = []
    for processes in (1, 2, 9):
        at = folder / f"{processes}"
        join(folder, at, parts_of(folder, at, processes=processes))
        made.append((hashes(at / "parts/d"), (at / "corpora/c/index.json").read_bytes()))
    assert made[0] == made[1] == made[2]


def test_the_corpus_is_the_one_that_a_single_job_writes(folder: Path) -> None:
    """Its samples, and all that its index tells of them; only the cuts between shards are others."""
    one = encoded(99, kind="JPEG")  # the image of four pairs, two of them in val
    files = [(name, one if name.endswith("jpg") else content) for n in range(30, 34) for name, content in sample(n)]
    (folder / "d/shards/00003.tar").write_bytes(tar_of(files))
    take_account(folder, 3)
    join(folder, folder, parts_of(folder, folder))
    whole, joined = as_whole(HELD, folder, folder)
    assert whole == joined and joined["repeated"] == {"val": {"train": {"images": 2, "first": "000032"}}}


@pytest.mark.parametrize("pairs", [1, 10, 22, 30, 34, None])
def test_nested_corpora_share_their_parts(folder: Path, pairs: int | None) -> None:
    made = parts_of(folder, folder)
    index = join(folder, folder, made, "nested", source={**HELD, "pairs": pairs})
    as_whole({**HELD, "pairs": pairs}, folder, folder, "nested")
    own = {path.name for path in (folder / "corpora/nested").iterdir()} - {"images.safetensors", "index.json"}
    cut = 0 if pairs in (None, 10, 30, 34) else (pairs or 0) // PER_SHARD
    allowed = {f"{split}-{cut:05d}{end}" for split in SPLITS for end in (".jsonl", ".offsets.npy")}
    assert own <= allowed and bool(own) == (pairs in (1, 22))  # a part that it takes whole, it does not write
    named = [shard["file"] for split in index["splits"].values() for shard in split["shards"]]
    assert all(name.startswith("../../parts/d/") or name in own for name in named)


def test_what_is_left_out_is_counted_and_listed_as_ever(folder: Path) -> None:
    for shard in (0, 2):
        place = shard * PER_SHARD
        broken = [(name, b"no image" if name.endswith("jpg") else content) for name, content in sample(place)]
        (folder / f"d/shards/{shard:05d}.tar").write_bytes(tar_of([*broken, *sample(place + 1)]))
        take_account(folder, shard)
    index = join(folder, folder, parts_of(folder, folder))
    whole = write_corpus("c", HELD, folder / "whole", folder, max_skipped=0.5)
    assert index["skipped"] == whole["skipped"] == {"image cannot be decoded": 2}
    lists = [sorted((at / "skipped.jsonl").read_text().splitlines()) for at in (folder / "whole", folder / "corpora/c")]
    assert lists[0] == lists[1] and len(lists[0]) == 2
    with pytest.raises(UserError, match=r"2 of \d+ samples were skipped.*first: split"):
        join(folder, folder, folder / "parts/d/index.json", max_skipped=0.01)


def made_from_here(monkeypatch: pytest.MonkeyPatch, dies_in: int | None = None) -> list[int]:
    """Which parts are made from here on; the work ends behind that of ``dies_in``."""
    made: list[int] = []
    real = WRITE_PART

    def write(source: Any, number: int, *rest: Any) -> Any:
        made.append(number)
        entry = real(source, number, *rest)
        if number == dies_in:
            raise KeyboardInterrupt
        return entry

    monkeypatch.setattr(parts, "write_part", write)
    return made


def test_a_job_that_was_ended_loses_the_part_under_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = hashes(parts_of(folder, folder / "other").parent)
    for dies_in in range(1, 4):
        at = folder / str(dies_in)
        with pytest.raises(KeyboardInterrupt):
            made_from_here(monkeypatch, dies_in)
            parts_of(folder, at)
        again = made_from_here(monkeypatch)
        parts_of(folder, at)
        assert again == list(range(dies_in, 4))
        assert hashes(at / "parts/d") == expected
        monkeypatch.undo()


def test_what_was_changed_is_made_again_and_nothing_else(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts_of(folder, folder)
    expected = hashes(folder / "parts/d")
    made = made_from_here(monkeypatch)
    parts_of(folder, folder)
    assert made == []
    (folder / "parts/d/train-00001.jsonl").write_bytes(b"x")  # somebody changes a shard
    (folder / "parts/d/captions-00002.safetensors").unlink()
    parts_of(folder, folder)
    assert made == [1, 2] and hashes(folder / "parts/d") == expected
    take_account(folder, 3)  # the same files: the same account
    parts_of(folder, folder)
    assert made == [1, 2]
    (folder / "d/shards/00003.tar").write_bytes((folder / "d/shards/00003.tar").read_bytes())
    take_account(folder, 3)  # downloaded anew
    parts_of(folder, folder)
    assert made == [1, 2, 3] and hashes(folder / "parts/d") == expected
    parts_of(folder, folder, other="code")
    assert made == [1, 2, 3, 0, 1, 2, 3]


def test_a_corpus_that_grows_makes_the_new_parts_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_from_here(monkeypatch)
    parts_of(folder, folder, source={**HELD, "pairs": 20})
    assert made == [0, 1]
    parts_of(folder, folder, source={**HELD, "pairs": CHOSEN})
    assert made == [0, 1, 2, 3]
    # and one that shrinks keeps no file that nobody names
    entries = read_json(parts_of(folder, folder, source={**HELD, "pairs": 20}))["parts"]
    assert [entry["part"] for entry in entries] == [0, 1]
    assert not list((folder / "parts/d").glob("*-0000[23]*"))


def test_a_part_that_was_cut_stands_for_no_whole_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """15 of 34 pairs in parts of ten, then 25: nothing that was cut at 15 may stand for a whole part."""
    made = made_from_here(monkeypatch)
    before: dict[int, list[int]] = {}
    for pairs in (15, 25, 17, CHOSEN):
        source = {**HELD, "pairs": pairs}
        join(folder, folder, parts_of(folder, folder, source=source), "grows", source=source)
        as_whole(source, folder, folder, "grows")
        before[pairs] = list(made)
    assert before == {15: [0], 25: [0, 1], 17: [0, 1], CHOSEN: [0, 1, 1, 2, 3]}


@pytest.mark.parametrize(
    ("other", "key", "made"),
    [("train-1.tar", 1, [0, 1]), ("train-1.tar", 0, [0, 0, 1]), ("val-0.tar", 1, [0, 0, 1])],
    ids=["other keys", "keys that restart", "a split's name"],
)
def test_a_shard_is_made_again_where_another_changes_its_keys_or_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, key: int, made: list[int]
) -> None:
    source, found = webdatasets(tmp_path), made_from_here(monkeypatch)
    for name, number in (("train-0.tar", 0), (other, key)):
        (tmp_path / "w" / name).write_bytes(tar_of(sample(number)))
        parts_of(tmp_path, tmp_path, source=source)
    assert found == made


def test_what_was_under_way_when_a_part_failed_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, begun = WRITE_PART, folder / "begun"

    def write(source: Any, number: int, *rest: Any) -> Any:
        if number == 0:
            while not begun.exists():
                time.sleep(0.01)
            raise UserError("part 0 is damaged")
        begun.touch()
        time.sleep(0.3)
        return real(source, number, *rest)

    monkeypatch.setattr(parts, "write_part", write)
    with pytest.raises(UserError, match="part 0 is damaged"):
        parts_of(folder, folder, processes=2)
    monkeypatch.undo()
    made = made_from_here(monkeypatch)
    parts_of(folder, folder)
    assert 0 in made and 1 not in made


def test_a_process_that_is_ended_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "write_part", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(UserError, match=r"was killed; out of memory\? use fewer processes"):
        parts_of(folder, folder, processes=2)


def test_damage_is_told(folder: Path) -> None:
    made = parts_of(folder, folder)
    captions = folder / "parts/d/captions-00000.safetensors"
    content = captions.read_bytes()
    captions.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(UserError, match=r"captions-00000\.safetensors: not the file that"):
        join(folder, folder, made)
    captions.write_bytes(content)
    join(folder, folder, made)
    shard = folder / "parts/d/train-00002.jsonl"
    shard.write_bytes(shard.read_bytes() + b"\0")
    with pytest.raises(UserError, match=r"train-00002\.jsonl: not of the size in index"):
        read_index(folder / "corpora/c", verify="auto")


def webdatasets(folder: Path, *shards: list[tuple[str, bytes]]) -> dict[str, Any]:
    """A source of tars with these members."""
    (folder / "w").mkdir()
    for number, members in enumerate(shards):
        (folder / f"w/{number}.tar").write_bytes(tar_of(list(members)))
    return {"kind": "webdataset", "path": "w", "val_fraction": 0.0}


def test_keys_that_repeat_across_parts_are_told(tmp_path: Path) -> None:
    source = webdatasets(tmp_path, *([file for n in (number, 7) for file in sample(n)] for number in range(3)))
    with pytest.raises(UserError, match="1 duplicate keys, the first is '000007'"):
        join(tmp_path, tmp_path, parts_of(tmp_path, tmp_path, source=source), source=source)


def test_shares_of_duplicates_count_through_all_parts(tmp_path: Path) -> None:
    files = [[file for n in range(4) for file in sample(10 * number + n)] for number in range(4)]
    same = [[(name, b"always the same" if name.endswith("txt") else data) for name, data in one] for one in files]
    source = webdatasets(tmp_path, *same)
    index = join(tmp_path, tmp_path, parts_of(tmp_path, tmp_path, source=source), max_skipped=0, source=source)
    assert index["captions"]["duplicate_share"] == {"16": 1.0}
    train = index["captions"]["per_split"]["train"]
    assert train["count"] == 16 and np.isclose(train["mean"], 3)
