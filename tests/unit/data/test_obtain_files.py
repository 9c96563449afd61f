"""Files over http: verified, gone on with, refused; archives unpacked once; the job and its record."""

import argparse
import gzip
import hashlib
import json
import random
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bad_input import tar_of
from confined import full_disk
from file_server import Page, Server, serving
from read_table import read_table

from mdc.data.obtain import files as files_module
from mdc.data.obtain import job as job_module
from mdc.data.obtain.files import fetch, fetch_list, obtain_file
from mdc.data.obtain.hub import mirror_of
from mdc.data.obtain.show import main_check, main_list
from mdc.data.obtain.transfers import http as http_module
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.processes.lock import locked
from mdc.plan.records import UserError, sha256_file
from mdc.plan.registry.datasets import REGISTRY
from mdc.plan.registry.entry import Check, Mirror, RegistryEntry, RemoteFile

BODY = random.Random(7).randbytes(300_000)
SHA256 = hashlib.sha256(BODY).hexdigest()
MD5 = hashlib.md5(BODY).hexdigest()


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def server(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(files_module, "PAUSE", 0)
    running.pages.clear()
    running.asked.clear()
    return running


def remote(server: Server, page: Page, **facts: Any) -> RemoteFile:
    server.pages["/a.bin"] = page
    return RemoteFile("a.bin", server.url("/a.bin"), **facts)


def get(file: RemoteFile, folder: Path) -> dict[str, Any]:
    return fetch(file, folder / file.name)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_fetched_once(server: Server, tmp_path: Path) -> None:
    file = remote(server, Page(BODY), bytes=len(BODY), sha256=SHA256, md5=MD5)
    told = get(file, tmp_path)
    assert told == {"bytes": len(BODY), "sha256": SHA256}
    assert (tmp_path / "a.bin").read_bytes() == BODY and left(tmp_path) == ["a.bin"]
    assert get(file, tmp_path) == told and len(server.asked) == 1


def test_a_broken_off_transfer_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    file = remote(server, Page(BODY, cuts=[100_000, 50_000]), sha256=SHA256)
    assert get(file, tmp_path)["sha256"] == SHA256
    assert [asked for _, asked in server.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert left(tmp_path) == ["a.bin"]


def test_the_next_call_goes_on_too(server: Server, tmp_path: Path) -> None:
    file = remote(server, Page(BODY, cuts=[10_000] * 4), sha256=SHA256)
    with pytest.raises(UserError, match=r"connection lost at 40000 of 300000 bytes; 40000 bytes kept; rerun to resume"):
        get(file, tmp_path)
    assert not (tmp_path / "a.bin").exists()
    assert get(file, tmp_path)["sha256"] == SHA256
    assert server.asked[-1][1] == "bytes=40000-"


def test_a_server_without_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    file = remote(server, Page(BODY, ranges=False, cuts=[100_000]), sha256=SHA256)
    assert get(file, tmp_path)["sha256"] == SHA256
    assert [asked for _, asked in server.asked] == [None, "bytes=100000-"]


def test_a_part_of_another_version_is_not_gone_on_with(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="connection lost"):
        get(remote(server, Page(bytes(300_000), cuts=[20_000] * 4, etag='"old"')), tmp_path)
    assert get(remote(server, Page(BODY, etag='"new"')), tmp_path)["sha256"] == SHA256
    # nor one of which the server never said which version it was
    with pytest.raises(UserError, match="connection lost"):
        fetch(remote(server, Page(bytes(300_000), cuts=[20_000] * 4, etag=None)), tmp_path / "b")
    assert all(asked is None for _, asked in server.asked[-4:])


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"sha256": "0" * 64}, f"sha256 {SHA256}, expected {'0' * 64}"),
        ({"md5": "1" * 32}, f"md5 {MD5}, expected {'1' * 32}"),
        ({"bytes": 5}, "offers 300000 bytes, expected 5"),
    ],
)
def test_a_wrong_file_is_thrown_away(server: Server, tmp_path: Path, facts: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        get(remote(server, Page(BODY), **facts), tmp_path)
    assert left(tmp_path) == []


def test_another_file_in_its_place_is_left_alone(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"mine")
    with pytest.raises(UserError, match="4 bytes, expected 300000; not the published file: move it"):
        get(remote(server, Page(BODY), bytes=300_000), tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == b"mine" and not server.asked


def test_a_body_without_end_is_cut(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="sends more than the expected 1000 bytes"):
        get(remote(server, Page(endless=True), bytes=1000), tmp_path)
    monkeypatch.setattr(http_module, "MAX_UNKNOWN", 2 << 20)
    with pytest.raises(UserError, match=f"sends more than the expected {2 << 20} bytes"):
        get(remote(server, Page(endless=True)), tmp_path)
    assert left(tmp_path) == []


def part_of(file: RemoteFile, folder: Path) -> http_module.Part:
    """What a transfer leaves that is killed between the last byte and the end of the checksums."""
    part = http_module.Part(folder / ".a.bin.part")
    http_module.fetch_part(file.url, part, None, 5)
    return part


@pytest.mark.parametrize("tells_size", [True, False])
@pytest.mark.parametrize("published", [True, False])
def test_a_part_that_is_whole_is_kept(server: Server, tmp_path: Path, published: bool, tells_size: bool) -> None:
    """The server has no byte after the last."""
    facts = {"bytes": len(BODY)} if published else {}
    file = remote(server, Page(BODY, tells_size=tells_size), sha256=SHA256, **facts)
    assert part_of(file, tmp_path).size == len(BODY)
    assert get(file, tmp_path)["sha256"] == SHA256 and left(tmp_path) == ["a.bin"]
    # who knows the file's size from nobody fetches it again
    again = [] if published or tells_size else [None]
    assert [asked for _, asked in server.asked] == [None, f"bytes={len(BODY)}-", *again]


def test_a_part_of_other_bytes_is_thrown_away(server: Server, tmp_path: Path) -> None:
    part_of(remote(server, Page(BODY + b"more")), tmp_path)
    assert get(remote(server, Page(BODY)), tmp_path)["sha256"] == SHA256
    (tmp_path / "a.bin").unlink()
    file = remote(server, Page(BODY), sha256=SHA256)
    part_of(file, tmp_path).path.write_bytes(bytes(len(BODY)))
    with pytest.raises(UserError, match=f"expected {SHA256}; deleted"):
        get(file, tmp_path)
    assert left(tmp_path) == []


@pytest.mark.parametrize("target", ["12:30.bin", "sub/b:c.bin", "./b:c.bin", "/sub/b:c.bin"])
def test_a_colon_makes_no_scheme(server: Server, tmp_path: Path, target: str) -> None:
    server.pages["/" + target.lstrip("./")] = Page(BODY)
    assert get(remote(server, Page(status=302, headers={"Location": target})), tmp_path)["sha256"] == SHA256


@pytest.mark.parametrize(
    ("target", "told"),
    [
        *((url, f"Redirection to url '{url}' is not allowed") for url in ("file:///etc/passwd", "data:text/plain,a")),
        ("ftp://127.0.0.1/a", "redirects to ftp://, which is not followed"),
        ("http://[x", "redirects to what is not a valid URL"),
    ],
)
def test_a_redirect_to_another_scheme_is_not_followed(server: Server, tmp_path: Path, target: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        get(remote(server, Page(status=302, headers={"Location": target})), tmp_path)
    assert left(tmp_path) == []


def test_other_schemes_are_not_fetched(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(UserError, match="only http and https"):
        get(RemoteFile("a.bin", f"file://{tmp_path}/secret"), tmp_path)


def test_redirects_and_errors(server: Server, tmp_path: Path) -> None:
    server.pages["/moved"] = Page(status=301, headers={"Location": "/a.bin?key=secret"})
    remote(server, Page(BODY))
    assert get(RemoteFile("a.bin", server.url("/moved")), tmp_path)["sha256"] == SHA256
    with pytest.raises(UserError, match=r"/gone: HTTP 404"):
        get(RemoteFile("b", server.url("/gone?key=secret")), tmp_path)
    server.pages["/busy"] = Page(status=503)
    server.asked.clear()
    with pytest.raises(UserError, match="HTTP 503; nothing was received"):
        get(RemoteFile("b", server.url("/busy")), tmp_path)
    assert len(server.asked) == files_module.ATTEMPTS
    with pytest.raises(UserError, match="refused"):
        get(RemoteFile("b", "http://127.0.0.1:9/b"), tmp_path)


def test_a_page_instead_of_a_file_is_told(server: Server, tmp_path: Path) -> None:
    page = Page(b"\n<!DOCTYPE html><html>Too many users have viewed or downloaded this file recently</html>")
    with pytest.raises(
        UserError, match="returned a web page instead of the file; download it in a browser and save it as"
    ):
        get(remote(server, page), tmp_path)
    assert left(tmp_path) == []


def test_a_full_disk_is_told_and_gone_on_from(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = remote(server, Page(BODY), sha256=SHA256)
    monkeypatch.setattr(http_module, "_BLOCK", 1 << 16)
    with pytest.raises(UserError, match="File too large; partial download kept; rerun to resume"), full_disk(200_000):
        get(file, tmp_path)
    assert not (tmp_path / "a.bin").exists()
    assert get(file, tmp_path)["sha256"] == SHA256
    assert server.asked[-1][1] is not None
    server.pages["/huge"] = Page(headers={"Content-Length": str(1 << 60)}, length=False)
    with pytest.raises(UserError, match=rf"needs {1 << 60} bytes, \d+ are free"):
        get(RemoteFile("huge", server.url("/huge")), tmp_path)


def packed(members: dict[str, bytes]) -> bytes:
    return gzip.compress(tar_of(list(members.items())))


def test_an_archive_is_unpacked_once(server: Server, tmp_path: Path) -> None:
    body = packed({"set/images/1.jpg": b"one", "set/images/2.jpg": b"three"})
    server.pages["/set.tgz"] = Page(body)
    file = RemoteFile("set.tgz", server.url("/set.tgz"), bytes=len(body), unpack="tar", into="here")
    told = obtain_file(file, tmp_path)
    assert told["file"] == "archives/set.tgz" and told["sha256"] == hashlib.sha256(body).hexdigest()
    assert (told["unpacked_files"], told["unpacked_bytes"]) == (2, 8)
    image = tmp_path / "here" / "set" / "images" / "1.jpg"
    assert image.read_bytes() == b"one"
    # the archive may go: nothing is fetched while all that it held is there
    (tmp_path / "archives" / "set.tgz").unlink()
    assert obtain_file(file, tmp_path) == told and len(server.asked) == 1
    image.unlink()
    assert obtain_file(file, tmp_path) == told and len(server.asked) == 2
    assert image.read_bytes() == b"one"
    # another version of the archive is another archive
    other = packed({"set/images/1.jpg": b"other"})
    server.pages["/set.tgz"] = Page(other)
    (tmp_path / "archives" / "set.tgz").unlink()
    newer = RemoteFile("set.tgz", file.url, sha256=hashlib.sha256(other).hexdigest(), unpack="tar", into="here")
    assert obtain_file(newer, tmp_path)["unpacked_files"] == 1 and image.read_bytes() == b"other"


# --- the job ----------------------------------------------------------------------------------------------------------


def small_entry(server: Server, **more: Any) -> RegistryEntry:
    """A registry entry with an archive in parts and a plain file, and checks of every kind."""
    archive = packed({"set/1.txt": b"a\nb\nc", "set/x/2.txt": b""})
    plain = json.dumps({"images": [1, 2, 3]}).encode()
    server.pages["/set.tgz"], server.pages["/list.json"] = Page(archive), Page(plain)
    told = dict.fromkeys(("url", "citation", "reference", "licence", "licence_note"), "")
    facts: dict[str, Any] = {"name": "small", "label": "Small", "used_for": ("probe",), "origin": "files", "items": {}}
    facts["files"] = (
        RemoteFile("set.tgz", server.url("/set.tgz"), unpack="tar"),
        RemoteFile("list.json", server.url("/list.json"), into="meta", part="list"),
    )
    facts["checks"] = (
        Check("files", "set/**/*.txt", 2),
        Check("folders", "set/*", 1),
        Check("lines", "set/1.txt", 3),
        Check("md5", "set/x/2.txt", hashlib.md5(b"").hexdigest()),
        Check("sha256", "set/x/2.txt", hashlib.sha256(b"").hexdigest()),
        Check("json", "meta/list.json", 3, key="images", part="list"),
        Check("files", "set/*", 1, at_least=True),
    )
    return RegistryEntry(**{**told, **facts, **more})


def run_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str = "small", **dataset: Any) -> dict[str, Any]:
    monkeypatch.setenv("MDC_DATA", str(tmp_path / "data"))
    config = {"job": f"data/obtained/{name}", "verb": "obtain", "scale": "paper", "fingerprint": "f", "name": name}
    config |= {"dataset": {"path": name, "from": None, "list": None, "subset": None, **dataset}, "download": None}
    # a configuration that no schema has seen, as a registry in a test needs it
    job: Any = types.SimpleNamespace(
        job=config["job"], verb="obtain", inputs=[], config=lambda: config, complete=lambda: config
    )
    job_module.main(Call(job, ScaleFolder(tmp_path), tmp_path / "out"))
    record = json.loads((tmp_path / "out" / "obtained.json").read_text())
    made = json.loads((tmp_path / "out" / "made.json").read_text())
    assert made["id"] == record["id"] and made["config"] == config
    assert made["outputs"] == {"obtained.json": sha256_file(tmp_path / "out" / "obtained.json")}
    return {**record, "versions": made["versions"]}


def test_the_job_obtains_files_and_writes_its_record(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(REGISTRY, "small", small_entry(server))
    record = run_job(tmp_path, monkeypatch)
    bytes_before = (tmp_path / "out" / "obtained.json").read_bytes()
    head = {"kind": "obtained", "id": "data/obtained/small", "from": "files", "path": "small"}
    assert head.items() <= record.items()
    assert [file["file"] for file in record["files"]] == ["archives/set.tgz", "meta/list.json"]
    assert record["checks"][0] == {"check": "files set/**/*.txt", "found": 2, "expected": 2}
    assert len(record["checks"]) == 7
    # again, and with other words for readers: the same bytes
    told = dict.fromkeys(("label", "url", "citation", "reference", "licence", "licence_note", "note"), "other")
    more: dict[str, Any] = {"used_for": ("pretraining",), "items": {"all": 99}, "size_bytes": 98, **told}
    monkeypatch.setitem(REGISTRY, "small", replace(REGISTRY["small"], **more))
    run_job(tmp_path, monkeypatch)
    assert (tmp_path / "out" / "obtained.json").read_bytes() == bytes_before
    # a damaged file of the same size is told by its check
    damaged = tmp_path / "data" / "small" / "set" / "1.txt"
    damaged.write_bytes(b"a\nbbc")
    with pytest.raises(UserError, match=r"small: lines of set/1.txt in .*small: found 2, expected 3"):
        run_job(tmp_path, monkeypatch)
    datasets = {"small": {"path": "small"}}
    capsys.readouterr()
    with pytest.raises(UserError, match="found 2, expected 3"):
        main_check(argparse.Namespace(name="small", datasets=datasets, json=False))
    shown = capsys.readouterr().out
    assert "BAD   lines of set/1.txt" in shown and "found 2, expected 3" in shown and shown.count("good") == 6
    main_list(argparse.Namespace(datasets=datasets, json=True))
    row = next(row for row in json.loads(capsys.readouterr().out) if row["name"] == "small")
    assert (row["there"], row["from"]) == ("yes", "files")


def test_the_job_takes_parts(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, more = small_entry(server), RemoteFile("more.json", server.url("/list.json"), part="more")
    monkeypatch.setitem(REGISTRY, "small", replace(entry, files=(*entry.files, more)))
    record = run_job(tmp_path, monkeypatch, parts=["more"])
    assert [file["file"] for file in record["files"]] == ["archives/set.tgz", "more.json"]
    assert len(record["checks"]) == 6
    with pytest.raises(UserError, match=r"datasets\.small\.parts: no part is named 'b'; allowed: list, more"):
        run_job(tmp_path, monkeypatch, parts=["b"])


def test_an_own_copy_that_is_missing_is_told(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError) as told:
        run_job(tmp_path, monkeypatch, "imagenet1k")
    text = str(told.value)
    assert f"{tmp_path}/data/imagenet1k/train: missing" in text and "https://image-net.org/download.php" in text
    assert "datasets.imagenet1k.path" in text and not (tmp_path / "out").exists() and not (tmp_path / "data").exists()
    with pytest.raises(UserError, match=r"Train_GCC-training.tsv: missing; CC3M cannot be fetched: download .*list"):
        # its module is asked for only once the list is there
        monkeypatch.setitem(sys.modules, "mdc.data.obtain.urls", types.SimpleNamespace(obtain=None))
        run_job(tmp_path, monkeypatch, "cc3m")


def test_an_own_copy_is_left_as_it_is(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read-only, at an absolute path, with nothing to add to it."""
    copy = tmp_path / "elsewhere"
    (copy / "train").mkdir(parents=True)
    (copy / "train" / "1.txt").touch()
    checks = (Check("files", "train/*", 1),)
    entry = small_entry(server, origin="own copy", files=(), own_copy="get it", needs=("train",), checks=checks)
    monkeypatch.setitem(REGISTRY, "small", entry)
    record = run_job(tmp_path, monkeypatch, path=str(copy))
    assert record["checks"] == [{"check": "files train/*", "found": 1, "expected": 1}] and record["files"] == []
    assert [path.name for path in copy.iterdir()] == ["train"]


@pytest.mark.parametrize(("name", "dataset", "told"), read_table(__file__, "refused"))
def test_what_cannot_be_obtained_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, dataset: dict[str, Any], told: str
) -> None:
    with pytest.raises(UserError, match=told):
        run_job(tmp_path, monkeypatch, name, **dataset)


def test_lists_of_urls_are_fetched_first(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.pages["/l.tsv"] = Page(b"http://a/1\tone\nhttp://a/2\ttwo\n")
    listed = small_entry(
        server,
        origin="urls",
        list_files=(RemoteFile("l.tsv", server.url("/l.tsv"), into="list"),),
        checks=(Check("lines", "list/l.tsv", 2, of="urls"),),
    )
    monkeypatch.setitem(REGISTRY, "small", listed)
    calls, lists = [], []

    def obtain(config: dict[str, Any], entry: RegistryEntry | None, data_dir: Path) -> dict[str, Any]:
        calls.append((entry, (data_dir / "small" / "list" / "l.tsv").is_file()))
        lists.append(config["dataset"]["list"])
        return {"rows": 2, "outcomes": {"obtained": 1, "dead": 1}, "versions": {"img2dataset": "1"}}

    monkeypatch.setitem(sys.modules, "mdc.data.obtain.urls", types.SimpleNamespace(obtain=obtain))
    record = run_job(tmp_path, monkeypatch)
    assert calls == [(listed, True)] and record["rows"] == 2 and record["from"] == "urls" and lists == [None]
    assert record["versions"]["img2dataset"] == "1" and "python" in record["versions"]
    assert [file["file"] for file in record["files"]] == ["list/l.tsv"] and record["checks"][0]["found"] == 2
    # a user's own list: nothing is fetched for it
    server.asked.clear()
    record = run_job(tmp_path, monkeypatch, "mine", **{"from": "urls", "list": {"path": "mine.tsv"}})
    assert calls[1] == (None, True) and not server.asked
    # … but the registry knows the columns of its own list wherever that lies
    run_job(tmp_path, monkeypatch, "cc3m", **{"list": {"path": "gcc.tsv", "header": None, "url_column": None}})
    wanted = {"format": "tsv", "header": False, "url_column": 1, "caption_column": 0, "key_column": None}
    assert lists[-1] == {"path": "gcc.tsv", **wanted} and not server.asked


def test_a_users_own_list_is_recorded(server: Server, tmp_path: Path) -> None:
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "Train_GCC-training.tsv").write_bytes(BODY)
    assert fetch_list(REGISTRY["cc3m"], tmp_path) == [
        {"file": "list/Train_GCC-training.tsv", "bytes": len(BODY), "sha256": SHA256}
    ]


def test_one_process_at_a_time(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        locked(tmp_path / "data" / "cc3m", doing="is filling this folder"),
        pytest.raises(UserError, match=r"cc3m: process \d+ is filling this folder already"),
    ):
        run_job(tmp_path, monkeypatch, "cc3m", **{"from": "mirror"})


def test_of_a_mirror_only_what_is_given_replaces_the_registrys() -> None:
    config = {"name": "cc3m", "dataset": {"mirror": {"repo": "a/b", "revision": None, "patterns": None}}}
    known = REGISTRY["cc3m"].mirror
    assert known is not None
    assert mirror_of(config, REGISTRY["cc3m"]) == Mirror("a/b", known.revision, known.patterns)


def test_the_list_is_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    mine = {"path": "m", "from": "urls", "list": {"path": "a"}}
    datasets = {"cc12m": {"path": "cc12m", "from": "mirror"}, "mine": mine}
    (tmp_path / "cc12m" / "mirror").mkdir(parents=True)
    (tmp_path / "cc12m" / "mirror" / "cc12m-train-0000.tar").touch()
    main_list(argparse.Namespace(datasets=datasets, json=False))
    rows = {line.split()[0]: line.split() for line in reversed(capsys.readouterr().out.splitlines()) if line}
    assert {"12,423,374", "mirror", "yes"} <= set(rows["cc12m"])
    assert rows["mine"][1:] == ["your", "own", "–", "urls", "no"]
    for name, told in (
        ("nothing", "no dataset 'nothing' in the registry; allowed: cc3m, "),
        ("mine", "it is your own"),
    ):
        with pytest.raises(UserError, match=told):
            main_check(argparse.Namespace(name=name, datasets=datasets))
    with pytest.raises(UserError, match=r"found 1, expected 2176"):
        main_check(argparse.Namespace(name="cc12m", datasets=datasets))
