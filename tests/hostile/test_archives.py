"""Archives are unpacked whole or not at all, and none leads outside of its folder."""

import gzip
import io
import os
import shutil
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from bad_input import member
from confined import full_disk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdc.data.obtain.archives import unpack
from mdc.plan.records import UserError

Member = tuple[str, bytes] | tarfile.TarInfo


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    return member(name, kind, target)


def tar(path: Path, *members: Member, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as out:  # type: ignore[call-overload]
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                out.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size, info.mode = len(member[1]), 0o6777
                out.addfile(info, io.BytesIO(member[1]))
    return path


def zipped(path: Path, *members: tuple[str, bytes], attributes: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = attributes << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(info, content)
    return path


def all_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_what_an_archive_holds_is_unpacked(tmp_path: Path, kind: str) -> None:
    members = [("./a/1.jpg", b"one"), ("a/b/2.jpg", b""), ("é ü.txt", b"x" * 100_000), ("__MACOSX/a/._1.jpg", b"mac")]
    path = tar(tmp_path / "t", member("folder/", tarfile.DIRTYPE), *members) if kind == "tar" else None
    path = path or zipped(tmp_path / "t", ("folder/", b""), *members)
    target = tmp_path / "out"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    files = unpack(path, kind, target)  # type: ignore[arg-type]
    assert files == {"a/1.jpg": 3, "a/b/2.jpg": 0, "é ü.txt": 100_000}
    assert all_below(target) == ["a", "a/1.jpg", "a/b", "a/b/2.jpg", "folder", "mine.txt", "é ü.txt"]
    assert (target / "a" / "1.jpg").read_bytes() == b"one" and (target / "mine.txt").read_text() == "mine"
    assert stat.S_IMODE((target / "a" / "1.jpg").stat().st_mode) & 0o7133 == 0  # no setuid, nobody else writes


def test_only_a_folder_of_that_name(tmp_path: Path) -> None:
    path = tar(tmp_path / "t", ("top/text_c10/001.A/1.txt", b"a"), ("top/images/1.h5", b"b"), ("top/text_c10.txt", b""))
    assert unpack(path, "tar", tmp_path / "out", only="text_c10") == {"text_c10/001.A/1.txt": 1}
    both = unpack(path, "tar", tmp_path / "both", only="text_c10 1.h5")
    assert both == {"text_c10/001.A/1.txt": 1, "1.h5": 1}
    with pytest.raises(UserError, match="contains no file below a folder text_c9"):
        unpack(path, "tar", tmp_path / "out", only="text_c9")


def test_links_inside_become_files(tmp_path: Path) -> None:
    path = tar(
        tmp_path / "t", link("a/soft", "../b/file"), ("b/file", b"text"), link("a/hard", "b/file", tarfile.LNKTYPE)
    )
    assert unpack(path, "tar", tmp_path / "out") == {"a/hard": 4, "a/soft": 4, "b/file": 4}
    for name in ("a/soft", "a/hard"):
        assert (tmp_path / "out" / name).read_bytes() == b"text" and not (tmp_path / "out" / name).is_symlink()


OUTSIDE = "leads outside"
BOTH, NO_FILE, DEVICE = "a file and a folder at once", "which is not a file of the archive", "a device"
HOSTILE_TARS: list[tuple[str, list[Member]]] = [
    *((OUTSIDE, [(name, b"x")]) for name in ("../evil", "a/../../evil", "/tmp/evil", "..\\evil")),
    *((OUTSIDE, [link("a", target)]) for target in ("../evil", "/etc/passwd")),
    (OUTSIDE, [member("../evil", tarfile.DIRTYPE)]),
    (OUTSIDE, [link("a", "../evil", tarfile.LNKTYPE)]),
    (OUTSIDE, [("b", b"x"), link("a", "../../out/b")]),  # out of the folder, and back into it
    (
        "points to 'd', which is not a file of the archive",
        [member("d", tarfile.DIRTYPE), link("a", "d"), ("a/file", b"x")],
    ),
    (BOTH, [("f", b"x"), link("a", "f"), ("a/file", b"x")]),
    *((BOTH, [("a/b", b"2"), ("a", b"1")][::step]) for step in (1, -1)),
    (NO_FILE, [link("a", "b"), link("b", "a")]),
    (NO_FILE, [("f", b""), link("a", "nothing")]),
    *((DEVICE, [member("null", kind)]) for kind in (tarfile.CHRTYPE, tarfile.FIFOTYPE)),
    ("duplicate member", [("a", b"1"), ("./a", b"2")]),
    ("contains no file", []),
]


@pytest.mark.parametrize(("told", "members"), HOSTILE_TARS)
@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_hostile_tars_are_refused(tmp_path: Path, told: str, members: list[Member], mode: str) -> None:
    path = tar(tmp_path / "t", ("good", b"good"), *members, mode=mode) if members else tar(tmp_path / "t", mode=mode)
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match=told):
        unpack(path, "tar", tmp_path / "out")
    assert all_below(tmp_path) == ["out", "t"]  # nothing outside, and nothing half-unpacked


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("members", "attributes", "told"),
    [
        ([("../evil", b"x")], 0, OUTSIDE),
        ([("a/../../evil", b"x")], 0, OUTSIDE),
        ([("/tmp/evil", b"x")], 0, OUTSIDE),
        ([("C:\\evil", b"x")], 0, OUTSIDE),
        ([("a", b"/etc/passwd")], stat.S_IFLNK | 0o777, "a link or a device"),
        ([("a", b"")], stat.S_IFCHR | 0o777, "a link or a device"),
        ([("a", b"1"), ("a/b", b"2")], 0, BOTH),
        ([("a", b"1"), ("a", b"2")], 0, "duplicate member"),
        ([], 0, "contains no file"),
    ],
)
def test_hostile_zips_are_refused(tmp_path: Path, members: list[tuple[str, bytes]], attributes: int, told: str) -> None:
    path = zipped(tmp_path / "z", *members, attributes=attributes)
    with pytest.raises(UserError, match=told):
        unpack(path, "zip", tmp_path / "out")
    assert all_below(tmp_path) == ["out", "z"]


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_bombs_do_not_go_off(tmp_path: Path, kind: str) -> None:
    content = ("a", bytes(400 << 20 >> 8))  # 1.6 MB that pack to next to nothing
    path = tar(tmp_path / "t", content) if kind == "tar" else zipped(tmp_path / "t", content)
    with pytest.raises(UserError, match="more than 1000000 bytes"):
        unpack(path, kind, tmp_path / "out", limit=1_000_000)  # type: ignore[arg-type]
    assert all_below(tmp_path) == ["out", "t"]
    assert unpack(path, kind, tmp_path / "out", limit=1 << 21)  # type: ignore[arg-type]


def test_a_huge_declared_size_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Without a declared limit, an archive may unpack to 30 times its size or 256 MiB."""
    info = tarfile.TarInfo("a")
    info.size = 1 << 40
    (tmp_path / "t").write_bytes(gzip.compress(info.tobuf() + bytes(1024)))
    with pytest.raises(UserError, match=f"'a': more than {256 << 20} bytes"):
        unpack(tmp_path / "t", "tar", tmp_path / "out")
    # a member that is not wanted counts too: it has to be read over
    with pytest.raises(UserError, match=f"more than {256 << 20} bytes"):
        unpack(tmp_path / "t", "tar", tmp_path / "out", only="b")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize("before", [(), (("wanted/a", b"x" * 3_000_000), ("other/b", b"y" * 3_000_000))])
def test_a_header_without_end_is_not_taken_into_memory(tmp_path: Path, kind: bytes, before: tuple[Member, ...]) -> None:
    tar(tmp_path / "good.tar", *before, mode="w:")
    bomb = member("long", kind)
    bomb.size = 1 << 33
    start = (tmp_path / "good.tar").read_bytes().rstrip(b"\0") if before else b""
    start += bytes(-len(start) % tarfile.BLOCKSIZE)
    with gzip.open(tmp_path / "bomb.tgz", "wb", 1) as out:
        out.write(start + bomb.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 24))  # as if cut off: it must not get there
    with pytest.raises(UserError, match="a header of more than 1048576 bytes"):
        unpack(tmp_path / "bomb.tgz", "tar", tmp_path / "out", only="wanted" if before else "")
    assert not any((tmp_path / "out").iterdir())


def test_a_damaged_header_is_not_taken_for_the_end(tmp_path: Path) -> None:
    path = tar(tmp_path / "t", *((name, b"x" * 700) for name in "abcde"), mode="w")
    body = bytearray(path.read_bytes())
    body[2 * 1536 + 100] ^= 7  # the third member's mode, which its checksum covers
    path.write_bytes(body)
    with pytest.raises(UserError, match="corrupt archive"):
        unpack(path, "tar", tmp_path / "out")
    assert all_below(tmp_path) == ["out", "t"]


def test_headers_without_number_are_refused(tmp_path: Path) -> None:
    header = member("h", tarfile.XHDTYPE)
    header.size = 11
    one = header.tobuf(tarfile.USTAR_FORMAT) + b"11 path=ab\n".ljust(tarfile.BLOCKSIZE, b"\0")
    (tmp_path / "t").write_bytes(one * 900 + member("f", tarfile.REGTYPE).tobuf() + bytes(1024))
    with pytest.raises(UserError, match="corrupt archive"):
        unpack(tmp_path / "t", "tar", tmp_path / "out")


DEEP = "is nested over 64 folders deep, or its name is not UTF-8"
OURS = "has a name that this project reserves"


@pytest.mark.parametrize(
    ("name", "told"),
    [("a/" * 65 + "b", DEEP), ("a/" * 1500 + "b", DEEP), ("not-utf-8-\udcff", DEEP)]
    + [(name, OURS) for name in ("archives/other.zip.unpacked.json", "./lock")],
)
def test_names_that_no_folder_could_hold_or_that_are_ours_are_refused(tmp_path: Path, name: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        unpack(tar(tmp_path / "a.tar", (name, b"x")), "tar", tmp_path / "out")


def test_a_zip_that_lies_about_a_size_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "z", ("a", b"x" * 50_000))
    body = path.read_bytes()
    assert body.count(struct.pack("<I", 50_000)) == 2  # in the member's own head and in the list at the end
    path.write_bytes(body.replace(struct.pack("<I", 50_000), struct.pack("<I", 10)))
    with pytest.raises(UserError, match="corrupt archive"):
        unpack(path, "zip", tmp_path / "out")
    assert all_below(tmp_path) == ["out", "z"]


def test_encrypted_zips_are_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "z", ("a", b"x"))
    body = bytearray(path.read_bytes())
    for start in (body.index(b"PK\x03\x04") + 6, body.index(b"PK\x01\x02") + 8):
        body[start] |= 1
    path.write_bytes(body)
    with pytest.raises(UserError, match="'a' is encrypted"):
        unpack(path, "zip", tmp_path / "out")


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_damaged_archive_leaves_what_was_there(tmp_path: Path, kind: str) -> None:
    members = [(f"{number}", os.urandom(3000)) for number in range(5)]
    path = tar(tmp_path / "t", *members) if kind == "tar" else zipped(tmp_path / "t", *members)
    whole = path.read_bytes()
    for body in (whole[:7000], whole[:20], b"", whole[:4000] + b"\0" * 500 + whole[4500:]):
        path.write_bytes(body)
        with pytest.raises(UserError, match=str(path)):
            unpack(path, kind, tmp_path / "out")  # type: ignore[arg-type]
        assert all_below(tmp_path) == ["out", "t"]
    path.write_bytes(whole)
    assert len(unpack(path, kind, tmp_path / "out")) == 5  # type: ignore[arg-type]


def test_a_full_disk_leaves_nothing_half_unpacked(tmp_path: Path) -> None:
    path = tar(tmp_path / "t", ("small", b"x"), ("large", os.urandom(300_000)))
    with pytest.raises(UserError, match=r"cannot be unpacked \(File too large\)"), full_disk(200_000):
        unpack(path, "tar", tmp_path / "out")
    assert all_below(tmp_path) == ["out", "t"]
    # what a killed process left goes before the next try
    (tmp_path / "out" / ".t.unpacking" / "x").mkdir(parents=True)
    unpack(path, "tar", tmp_path / "out")
    assert all_below(tmp_path) == ["out", "out/large", "out/small", "t"]


NAMES = st.lists(st.sampled_from(["..", ".", "", "a", "b", "/", "\\", "é"]), min_size=1, max_size=4).map("/".join)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.tuples(NAMES, st.one_of(st.none(), NAMES)), min_size=1, max_size=5))
def test_no_archive_leaves_anything_outside(tmp_path: Path, names: list[tuple[str, str | None]]) -> None:
    """Whatever names and links: unpacked below the folder, plain files alone, or refused in one line."""
    inner = tmp_path / "x" / "y"
    shutil.rmtree(tmp_path / "x", ignore_errors=True)
    inner.mkdir(parents=True)
    path = inner / "t"
    tar(path, *[(name, b"x") if target is None else link(name, target) for name, target in names], mode="w")
    try:
        files = unpack(path, "tar", inner / "out")
    except UserError:
        files = {}
    assert all_below(tmp_path / "x")[:2] == ["y", "y/out"] and not any(p.is_symlink() for p in tmp_path.rglob("*"))
    outside = [name for name in all_below(tmp_path / "x") if not name.startswith("y/out") and name not in ("y", "y/t")]
    assert not outside and set(files) <= set(all_below(inner / "out"))
