"""Corpora whose images stay in the tars that they came in: the samples of a copy, no image stored twice, and one line for a tar
that is not the one that was read."""

import json
import os
import shutil
import tarfile
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import tar_of
from data_samples import encoded
from made_in_parts import join, parts_of, samples_of, without_cuts

from mdc.data.formats.samples import held_out, safe_key
from mdc.data.shards import parts
from mdc.data.shards.index import ShardReader, read_index
from mdc.data.shards.lines import name_below, parse_line, sample_line, source_tar
from mdc.data.shards.offsets import write_offsets
from mdc.data.sources.corpora.webdataset import Webdataset
from mdc.plan.records import UserError, sha256_file, write_json

SHARE, PER_TAR = 0.3, 15
SOURCE: dict[str, Any] = {"kind": "webdataset", "path": "w", "val_fraction": SHARE}
FORMS = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT)


def photo(number: int) -> list[tuple[str, bytes]]:
    """One sample as others write it: formats and captions of several kinds, in folders, some with long names."""
    key = f"{'long' * 30 if number % 7 == 6 else 'photos'}/{number:04d}"
    kind = ("JPEG", "PNG", "WEBP")[number % 3]
    files = {kind.lower().replace("jpeg", "jpg"): encoded(number, 16 + number % 5, 16, kind=kind)}
    files |= (
        {"txt": f"thing {number}".encode()}
        if number % 2
        else {"json": json.dumps({"caption": f"thing {number}"}).encode()}
    )
    return [(f"{key}.{ending}", content) for ending, content in files.items()]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of four tars, one in each form and one that was joined of two."""
    folder = tmp_path / "data"
    (folder / "w/more").mkdir(parents=True)
    made = [[file for n in range(PER_TAR * i, PER_TAR * (i + 1)) for file in photo(n)] for i in range(4)]
    for form, files in zip(FORMS, made, strict=False):
        (folder / f"w/{form}.tar").write_bytes(tar_of([folder_of("photos"), *files], form))
    half = next(i for i, (name, _) in enumerate(made[3]) if f"{PER_TAR * 3 + 8:04d}" in name)
    (folder / "w/more/joined.tar").write_bytes(tar_of(made[3][:half]) + tar_of(made[3][half:]))
    monkeypatch.setenv("MDC_DATA", str(folder))
    return folder


def folder_of(name: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    return info, b""


def corpus(data: Path, at: Path, source: dict[str, Any] = SOURCE, **more: Any) -> Path:
    join(data, at, parts_of(data, at, source=source, **more), source=source)
    return at / "corpora/c"


def copied(data: Path, at: Path) -> Path:
    """The same corpus with its images written: its tars lie outside of the data folder."""
    (at / "other").mkdir(parents=True)
    source = {**SOURCE, "path": str(data / "w")}
    return corpus(at / "other", at, source)


def expected(data: Path) -> dict[str, list[tuple[str, bytes, Any]]]:
    """By Python's tarfile: consecutive files of one key are a sample."""
    found: dict[str, list[tuple[str, bytes, Any]]] = {"train": [], "val": []}
    for path in sorted((data / "w").rglob("*.tar")):
        with tarfile.open(path, ignore_zeros=True) as tar:
            files = [(one.name, tar.extractfile(one).read()) for one in tar if one.isreg()]  # type: ignore[union-attr]
        for key, members in groupby(files, lambda file: file[0].rpartition(".")[0]):
            by_ending = {name.rpartition(".")[2]: content for name, content in members}
            image = next(content for ending, content in by_ending.items() if ending in ("jpg", "png", "webp"))
            text = by_ending["txt"].decode() if "txt" in by_ending else json.loads(by_ending["json"])["caption"]
            split = "val" if held_out(key, SHARE) else "train"
            found[split].append((safe_key(key), image, {"captions": [text]}))
    return found


def stored(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.rglob("*") if path.is_file())


def test_the_samples_are_those_of_the_tars_and_no_image_is_stored_again(data: Path, tmp_path: Path) -> None:
    found = samples_of(corpus(data, tmp_path / "r", processes=2))
    assert found == expected(data) and len(found["train"]) + len(found["val"]) == 4 * PER_TAR and len(found["val"]) > 5
    read_index(tmp_path / "r/corpora/c", verify=True)
    everything = b"".join(path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file())
    assert all(image not in everything for split in found.values() for _, image, _ in split)
    assert ".tar" not in stored(tmp_path / "r") and len(everything) < 60_000


def test_a_copy_has_the_same_samples_in_the_same_order(data: Path, tmp_path: Path) -> None:
    folders = [corpus(data, tmp_path / "r"), copied(data, tmp_path / "copy")]
    assert samples_of(folders[0]) == samples_of(folders[1])
    assert ".tar" in stored(tmp_path / "copy/parts") and ".jsonl" not in stored(tmp_path / "copy/parts")
    index, other = ({**index, "source": None} for index in without_cuts(*folders))
    assert index == other


def test_the_same_tars_at_another_place_give_the_same_bytes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another machine, or moved: with MDC_DATA set the old corpus is read there, and a new one is equal to the byte."""
    first = corpus(data, tmp_path / "r")
    shutil.move(data, tmp_path / "moved")
    shutil.move(tmp_path / "r", tmp_path / "s")
    first = tmp_path / "s/corpora/c"
    with pytest.raises(UserError, match=r"w/0\.tar|w/1\.tar: missing; the images of .*bring it back, or set MDC_DATA"):
        ShardReader(first, "train").read(0)
    monkeypatch.setenv("MDC_DATA", str(tmp_path / "moved"))
    assert samples_of(first) == expected(tmp_path / "moved")
    second = corpus(tmp_path / "moved", tmp_path / "t", processes=3)
    index = [path.read_bytes() for path in (first / "index.json", second / "index.json")]
    assert index[0] == index[1]
    files = [{p.name: p.read_bytes() for p in (tmp_path / at / "parts/d").iterdir() if p.is_file()} for at in "st"]
    assert files[0] == files[1]


def test_what_is_asked_otherwise_is_written(data: Path, tmp_path: Path) -> None:
    found = corpus(data, tmp_path / "small", {**SOURCE, "image_size": 8})
    assert ".tar" in stored(tmp_path / "small/parts") and ".jsonl" not in stored(tmp_path / "small/parts")
    keys = [key for key, _, _ in samples_of(found)["train"]]
    assert keys == [key for key, _, _ in expected(data)["train"]]
    assert name_below(data, data / "w/0.tar") == "w/0.tar"
    assert name_below(data, tmp_path / "x.tar") is None and name_below(data / "w/more", data / "w/0.tar") is None


def test_tars_of_an_earlier_version_are_read_and_go_when_the_job_runs_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then every corpus in parts had copies."""
    with monkeypatch.context() as before:
        before.setattr(parts, "tar_name", lambda source, number: None)
        old = samples_of(corpus(data, tmp_path / "r"))
    assert ".jsonl" not in stored(tmp_path / "r/parts") and old == expected(data)
    assert samples_of(corpus(data, tmp_path / "r")) == old
    assert ".tar" not in stored(tmp_path / "r")


# --- tars that are not those that were read ---------------------------------------------------------------------------


def _in_place(path: Path, content: bytes) -> None:
    """Another content of the same time."""
    times = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


CHANGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda tar: tar.unlink(), "missing; the images of"),
    "a folder": (lambda tar: (tar.unlink(), tar.mkdir()), "missing; the images of"),
    "cut off": (lambda tar: os.truncate(tar, 5000), "is of 5000 bytes"),
    "grown": (lambda tar: _in_place(tar, tar.read_bytes() + bytes(512)), "bring back that file, or rebuild the set"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_tar_is_one_line_and_never_a_sample(data: Path, tmp_path: Path, change: str) -> None:
    folder = corpus(data, tmp_path / "r")
    CHANGES[change][0](data / "w/0.tar")
    for attempt in (
        lambda: ShardReader(folder, "train").read(0),
        lambda: read_index(folder, verify="auto"),
        lambda: read_index(folder, verify=True),
    ):
        with pytest.raises(UserError, match=CHANGES[change][1]) as error:
            attempt()
        assert str(data / "w/0.tar") in str(error.value) and len(str(error.value).splitlines()) == 1


def test_a_tar_replaced_by_one_of_its_size_is_found_by_its_hash(data: Path, tmp_path: Path) -> None:
    folder = corpus(data, tmp_path / "r")
    content = bytearray((data / "w/0.tar").read_bytes())
    content[len(content) // 2] ^= 1
    _in_place(data / "w/0.tar", bytes(content))
    with pytest.raises(UserError, match=r"w/0\.tar: its sha256 is not the one that"):
        read_index(folder, verify="auto")


def test_only_the_part_of_a_changed_tar_is_made_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus(data, tmp_path / "r")
    made: list[int] = []
    real = parts.write_part
    monkeypatch.setattr("mdc.data.shards.parts.write_part", lambda *told: made.append(told[1]) or real(*told))
    (data / "w/1.tar").write_bytes(tar_of([file for n in range(100, 120) for file in photo(n)]))
    assert samples_of(corpus(data, tmp_path / "r")) == expected(data)
    assert made == [1]


def test_a_tar_that_changes_while_it_is_read(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Webdataset.items_in

    def and_changes(source: Webdataset, part: int, splits: Any) -> Any:
        (data / "w/0.tar").touch()
        return real(source, part, splits)

    monkeypatch.setattr(Webdataset, "items_in", and_changes)
    with pytest.raises(UserError, match=r"w/0\.tar: changed while it was read; rerun"):
        corpus(data, tmp_path / "r")


# --- hostile lines ----------------------------------------------------------------------------------------------------


HEAD = {"bytes": 5, "sha256": "0" * 64, "tar": "w/0.tar"}
HEADS = [
    {**HEAD, "tar": name}
    for name in ("/etc/passwd", "../x.tar", "w/../../x.tar", "w//0.tar", "", ".", "..", "w/0.tar\0", 7)
]
HEADS += [{"tar": "w/0.tar"}, [], 3]


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_lines_lead_to_no_other_place(tmp_path: Path, head: Any) -> None:
    shard = tmp_path / "train-00000.jsonl"
    shard.write_text(json.dumps(head) + "\n")
    with pytest.raises(UserError, match="does not begin with the tar of its images"):
        source_tar(shard)


def _edited(folder: Path, shard: Path, content: bytes) -> None:
    """A shard with other lines, of which its index tells."""
    shard.write_bytes(content)
    bounds = np.cumsum([len(line) for line in content.splitlines(keepends=True)]).tolist()
    index = json.loads((folder / "index.json").read_text())
    told = index["splits"]["train"]["shards"][0]
    offsets = write_offsets(shard.with_suffix(".offsets.npy"), bounds)
    told |= {"bytes": len(content), "sha256": sha256_file(shard)}
    told["offsets"] |= {"bytes": offsets["bytes"], "sha256": offsets["sha256"]}
    write_json(folder / "index.json", index)


PLACES = ([-1, 5], [0, 0], [0, -5], [0, 1 << 40], [1 << 50, 5], [1 << 80, 5], [0], "ab")
LINES = [b"[]", b"{}", b"null", b"x", b'{"image":[0,1],"key":"k","record":{}}']
LINES += [json.dumps({"image": place, "key": "k", "record": {"captions": ["a"]}}).encode() for place in PLACES]


def test_a_line_that_is_none_is_told(data: Path, tmp_path: Path) -> None:
    folder = corpus(data, tmp_path / "r")
    shard = tmp_path / "r/parts/d/train-00000.jsonl"
    first, _, *rest = shard.read_bytes().splitlines(keepends=True)
    for line in LINES:
        _edited(folder, shard, b"".join([first, line, b"\n", *rest]))
        reader = ShardReader(folder, "train")
        with pytest.raises(UserError, match=r"train-00000\.jsonl: sample 0 of train is corrupt"):
            reader.read(0)
        assert reader.read(1)[2] == json.loads(rest[0])["record"]


def test_a_line_is_read_as_it_was_written() -> None:
    record = b'{"captions":["a \\"dog\\"\\n"]}'
    place = (1 << 45, 77)
    assert parse_line(sample_line("k-1", place, record)) == ("k-1", place, json.loads(record))
    with pytest.raises(ValueError):
        parse_line(sample_line("k", place, record) * 2)
    assert sample_line("k", place, record).count(b"\n") == 1
