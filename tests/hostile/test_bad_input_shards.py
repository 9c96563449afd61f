"""Tars that are cut off or hostile, manifests that do not match their shards, keys that repeat."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from bad_input import WRONG, corpus_config, downloaded, member, tar_of, told
from changed import put
from data_samples import encoded, scenes, use_scenes, write_corpus, write_parquet, write_shard

from mdc.data.formats.foreign_tar import tar_samples
from mdc.data.formats.tar import parse_header, split_span
from mdc.data.shards.index import ShardReader, read_index
from mdc.plan.records import UserError, read_json, write_json

# --- tars of others ---------------------------------------------------------------------------------------------------

HOSTILE = [member(name) for name in ("a/../../evil.jpg", "../evil.jpg", "/etc/evil.jpg")]
HOSTILE += [member("evil.jpg", tarfile.SYMTYPE, "/etc/passwd"), member("evil.jpg", tarfile.LNKTYPE, "a.jpg")]
HOSTILE += [member("evil.jpg", kind) for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)]
HOSTILE += [member("../evil", tarfile.DIRTYPE)]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda info: f"{info.type!r} {info.name}")
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["gnu", "pax"])
def test_a_hostile_member_is_named(
    tmp_path: Path, hostile: tarfile.TarInfo, form: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "00000.tar").write_bytes(tar_of([*downloaded(["a"]), (hostile, b"")], form))
    source = {"kind": "webdataset", "path": str(tmp_path / "00000.tar")}
    said = told(["corpus", corpus_config(tmp_path / "c.json", source), "--out", str(tmp_path / "out")], capsys)
    assert "00000.tar: member" in said and "evil" in said
    assert not list((tmp_path / "out").glob("*")), "nothing half-written"


def test_a_tar_cut_off_anywhere_is_told(tmp_path: Path) -> None:
    whole = tar_of(downloaded(["a", "b"]))
    end = max(position for position in range(0, len(whole), 512) if any(whole[position : position + 512])) + 512
    path = tmp_path / "00000.tar"
    for length in [*range(0, end, 512), *range(1, end, 777), end - 1, end]:
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"00000\.tar"):
            list(tar_samples(path))
    path.write_bytes(whole[: end + 512])
    assert [sample.key for sample in tar_samples(path)] == ["a", "b"]


def test_damage_in_the_middle_is_no_end(tmp_path: Path) -> None:
    """Python's tarfile ends in silence at a header that is none."""
    whole = bytearray(tar_of(downloaded(["a", "b", "c"])))
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        second = [info.offset for info in tar][3]
    whole[second + 10] ^= 1
    (tmp_path / "00000.tar").write_bytes(whole)
    with pytest.raises(UserError, match=f"truncated or corrupt at byte {second}"):
        list(tar_samples(tmp_path / "00000.tar"))


def test_a_member_twice_and_a_sample_without_image(tmp_path: Path) -> None:
    (tmp_path / "t.tar").write_bytes(tar_of([("a.jpg", b"x"), ("a.jpg", b"y")]))
    with pytest.raises(UserError, match=r"duplicate member 'a\.jpg'"):
        list(tar_samples(tmp_path / "t.tar"))
    (tmp_path / "t.tar").write_bytes(tar_of([("b.txt", b"b"), *downloaded(["a"])]))
    index = write_corpus("t", {"kind": "webdataset", "path": "t.tar"}, tmp_path / "out", tmp_path, max_skipped=1)
    assert index["skipped"] == {"no image": 1} and index["splits"]["train"]["samples"] == 1


def test_folders_without_shards(tmp_path: Path) -> None:
    for path, said in (("none", "MDC_DATA"), (".", r"no \.tar file")):
        with pytest.raises(UserError, match=said):
            write_corpus("t", {"kind": "webdataset", "path": path}, tmp_path / "out", tmp_path)


# --- keys -------------------------------------------------------------------------------------------------------------


def test_duplicate_keys_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (0, 1):
        (tmp_path / f"{number}.tar").write_bytes(tar_of(downloaded(["a", "b"] if number else ["b", "c"])))
    source = {"kind": "webdataset", "path": str(tmp_path)}
    said = told(["corpus", corpus_config(tmp_path / "c.json", source), "--out", str(tmp_path / "out")], capsys)
    assert "1 duplicate keys, the first is 'b'" in said and not (tmp_path / "out/index.json").exists()
    columns = {"image": [encoded(0)] * 2, "caption": ["a", "b"], "split": ["train"] * 2, "id": ["x.y", "x/y"]}
    write_parquet(tmp_path / "c.parquet", columns)
    source = {"kind": "parquet", "path": "c.parquet", "key_column": "id"}
    with pytest.raises(UserError, match=r"the first is 'x_y'.*key_column"):
        write_corpus("c", source, tmp_path / "out", tmp_path)


def test_a_key_twice_in_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"kind": "corpus", "kind": "probe"}')
    with pytest.raises(UserError, match="duplicate key 'kind'"):
        read_index(tmp_path)


# --- manifests and shards ---------------------------------------------------------------------------------------------


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_scenes(monkeypatch)
    write_corpus("alt", scenes(), tmp_path / "set", tmp_path, samples_per_shard=10)
    return tmp_path / "set"


def change(folder: Path, path: str, value: Any) -> None:
    write_json(folder / "index.json", put(read_json(folder / "index.json"), path, value))


@pytest.mark.parametrize(("path", "value", "said"), WRONG["manifests"], ids=lambda x: str(x)[-40:])
def test_a_manifest_that_does_not_match_its_shards(corpus: Path, path: str, value: Any, said: str) -> None:
    change(corpus, path, value)
    with pytest.raises(UserError, match=said) as error:
        read_index(corpus, verify="auto")
    assert str(corpus) in str(error.value)


def test_a_manifest_of_another_kind(corpus: Path) -> None:
    with pytest.raises(UserError, match="describes a corpus, a probe is expected here"):
        read_index(corpus, kind="probe")


RECORDS = [b"[]", b"{}", b"no json", b"[" * 100_000]


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r[:20].decode())
def test_a_record_that_is_none_is_told(corpus: Path, record: bytes) -> None:
    write_shard(corpus, "val", [[("a.png", encoded(0)), ("a.json", record)]])
    reader = ShardReader(corpus, "val")
    with pytest.raises(UserError, match=r"val-00000\.tar: sample 0 of val is corrupt"):
        reader.read(0)


@pytest.mark.parametrize("size", [b"-0000000512", b"1_000", b"", b"\x80" + b"\xff" * 10, b"99999999999"])
def test_sizes_that_no_file_has(size: bytes, tmp_path: Path) -> None:
    """Python's ``int`` would take a sign, and with a negative size a reader walks in circles."""
    info = tarfile.TarInfo("a.png")
    header = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = size.ljust(12, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "a.tar").write_bytes(bytes(header) + bytes(1024))
    with pytest.raises(ValueError):
        split_span(bytes(header))
    if size != b"99999999999":
        with pytest.raises(ValueError):
            parse_header(bytes(header))
    if size not in (b"1_000", b""):  # a foreign tar may say nothing for zero
        with pytest.raises(UserError, match=r"a\.tar"):
            list(tar_samples(tmp_path / "a.tar"))
