"""Downloading from a list of URLs: every row accounted for, every good pair bit-true, killed, on a full disk, gone on with."""

import copy
import errno
import fcntl
import hashlib
import io
import json
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import tar_of
from confined import full_disk
from data_samples import iter_corpus
from PIL import Image
from read_table import read_table
from url_server import IMAGES, Server, image, serving, turned

from mdc.data.formats.foreign_tar import tar_samples
from mdc.data.formats.samples import Skipped
from mdc.data.obtain.accounts import Incomplete, NetworkDown, account_file, shard_files, take_account
from mdc.data.obtain.downloader import Resize
from mdc.data.obtain.orders import Answer
from mdc.data.obtain.plan import part_file, read_part
from mdc.data.obtain.transfers.guard import Limits, Opener, networks
from mdc.data.obtain.urls import download_group, obtain, plan_download
from mdc.plan.processes.lock import locked
from mdc.plan.records import UserError, read_json, sha256_file

Whole = tuple[Path, dict[str, Any]]

GOOD = 180
ROWS_PER_SHARD = 36
DOWNLOAD: dict[str, Any] = {
    **{"image_size": 64, "rows_per_shard": ROWS_PER_SHARD, "max_bytes": 1_000_000, "min_image_size": 8},
    **{"max_pixels": 89_478_485, "max_aspect": 20.0, "quality": 95, "respect_robots": True},
    **{"processes": 1, "threads": 16, "timeout": 600, "deadline": 600, "retries": 1, "use_proxy": False},
    "allow_addresses": ["127.0.0.1/32"],
    "distributor": "local",
}
CAPTIONS = [*read_table(__file__, "captions"), "long " + "x" * 9_995]
# path → the outcome and the reason that must be counted for it
TROUBLES = read_table(__file__, "troubles")
LEFT_OUT = read_table(__file__, "left_out")


LATE = ("flaky", "cut", "status/500")  # asked for again


def rows(address: str) -> list[dict[str, Any]]:
    """The list: good rows and planted troubles in a random order, with the row's expected outcome beside it."""
    found = [{"url": f"{address}/image/{n}.jpg", "text": f"{CAPTIONS[n % len(CAPTIONS)]} {n}"} for n in range(GOOD)]
    found += [{"url": f"{address}/{path}", "text": f"trouble {path}"} for path in TROUBLES]
    again = [dict(found[0]), dict(found[1])]  # exact duplicates; the same URL with another caption is a pair
    found.append({"url": found[0]["url"], "text": "another caption"})
    found += [{"url": url, "text": "x"} for url in ("ftp://a.example/1.jpg", "file:///etc/passwd", "", None)]
    found += [{"url": f"{address}/image/1.jpg", "text": text} for text in ("", " \t\n", None)]
    found.append({"url": f"{address}/image/1.jpg", "text": "broken \ud800 text"})
    random.Random(3).shuffle(found)
    found.sort(key=lambda row: not any(f"/{kind}/" in (row["url"] or "") for kind in LATE))  # all in one shard
    return [{"id": f"k{n}", **row} for n, row in enumerate([*found, *again])]


def config(**changes: Any) -> dict[str, Any]:
    columns = {"format": "jsonl", "header": True, "url_column": "url", "caption_column": "text", "key_column": "id"}
    dataset = {"path": "set", "from": "urls", "list": {"path": None, **columns}, "subset": None}
    return {"dataset": dataset, "download": {**DOWNLOAD, **changes}}


def elsewhere(call: str, **environment: str) -> subprocess.Popen[str]:
    """``call``, as Python, in a process of its own, which prints what it returns."""
    imports = "import json; from pathlib import PosixPath; from mdc.data.obtain.urls import download_group, obtain"
    command = [sys.executable, "-c", f"{imports}; print(json.dumps({call}))"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})


def prepared(folder: Path, address: str) -> Path:
    (folder / "set/list").mkdir(parents=True)
    lines = [json.dumps(row) for row in rows(address)]
    (folder / "set/list/rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(delay=0.05) as started:
        yield started


LISTENER = """
import os, sys

def heard(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        address = args[1] if event == "socket.connect" else args[:2]
        with open(os.environ["MDC_TEST_CONNECTIONS"], "a") as file:
            file.write(f"{address[0]} {address[1]}\\n" if isinstance(address, tuple) else f"{address}\\n")

sys.addaudithook(heard)
"""


@pytest.fixture(scope="module")
def whole(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """An undisturbed download, and what it says. ``connections`` lists every connection and look-up of its process."""
    folder = prepared(tmp_path_factory.mktemp("whole"), server.address)
    (folder / "listener").mkdir()
    (folder / "listener/sitecustomize.py").write_text(LISTENER)
    with pytest.MonkeyPatch.context() as patched:
        (folder / "scratch").mkdir()
        patched.setattr(tempfile, "tempdir", str(folder / "scratch"))
        patched.setenv("MDC_TEST_CONNECTIONS", str(folder / "connections"))
        patched.setenv("PYTHONPATH", f"{folder / 'listener'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        return folder, obtain(config(), None, folder)


def test_every_outcome_is_counted(whole: Whole) -> None:
    folder, told = whole
    outcomes = Counter(outcome for outcome, _ in TROUBLES.values())
    outcomes["obtained"] += GOOD + 1
    assert {name: count for name, count in told["outcomes"].items() if count} == outcomes
    assert told["reasons"] == Counter(reason for _, reason in TROUBLES.values() if reason)
    assert told["left_out"] == LEFT_OUT
    assert sum(told["outcomes"].values()) == told["chosen"] == sum(shard["rows"] for shard in told["shards"])
    assert told["chosen"] + sum(told["left_out"].values()) == told["rows"] == told["list"]["rows"]
    # nor is a time told, though img2dataset's own file has one; and no temporary folder is left
    assert "duration" in read_json(shard_files(folder / "set", 0)[2])
    assert not {"time", "duration", "start_time"} & set(json.dumps(told).replace('"', " ").split())
    assert not list((folder / "scratch").iterdir())


def test_each_good_pair_arrives_bit_true(whole: Whole, server: Server) -> None:
    folder, told = whole
    sent = {row["id"]: row for row in rows(server.address)}
    arrived: dict[str, Any] = {}
    for shard in sorted((folder / "set/shards").glob("*.tar")):
        for sample in tar_samples(shard):
            record = json.loads(sample.read("json") or b"")
            row = sent[record["source_key"]]
            assert record["source_key"] not in arrived and (sample.read("txt") or b"").decode() == row["text"]
            assert record["caption"] == row["text"] and record["row"] == int(record["source_key"][1:])
            assert int(sample.key) % 100 == record["place"] % ROWS_PER_SHARD
            arrived[record["source_key"]] = sample.read("jpg")
            kind, _, rest = row["url"].removeprefix(server.address + "/").partition("/")
            number = int("".join(c for c in rest if c.isdigit()))
            if kind in ("image", "flaky", "redirect"):
                assert sample.read("jpg") == image(number)  # nothing to change: not a bit is
    assert len(arrived) == told["outcomes"]["obtained"] == sum(shard["obtained"] for shard in told["shards"])


def test_nobody_is_called_but_those_on_the_list(whole: Whole, server: Server) -> None:
    called = set((whole[0] / "connections").read_text().splitlines())
    assert called == {f"127.0.0.1 {server.server_address[1]}", "10.0.0.1 80"}  # the latter looked up, then refused


def test_final_failures_are_asked_for_once(whole: Whole, server: Server) -> None:
    # by two downloads at most: the fixture's, and the disturbed one's, which may have lost a shard or two
    assert server.asked["text"] <= 4 and server.asked["flaky"] >= 2


def test_the_corpus_made_of_it_is_the_same_whatever_thread_was_first(whole: Whole) -> None:
    folder, told = whole
    source = {"kind": "pairs", "path": "set", "from": "urls", "pairs": None, "val_fraction": 0.2}
    read = {split: list(iter_corpus(source, split, folder, Skipped())) for split in ("train", "val")}
    keys = {split: [sample.key for sample in found] for split, found in read.items()}
    assert all(found == sorted(found) and found for found in keys.values())
    assert len(keys["train"]) + len(keys["val"]) == told["outcomes"]["obtained"]


def test_what_comes_too_late_is_counted(server: Server, tmp_path: Path) -> None:
    """In a download of its own: the others' limits are no time that a busy machine could need."""
    (tmp_path / "set/list").mkdir(parents=True)
    lines = [
        json.dumps({"id": kind, "url": f"{server.address}/{kind}/1.jpg", "text": "x"}) for kind in ("hang", "trickle")
    ]
    (tmp_path / "set/list/rows.jsonl").write_text("\n".join(lines))
    told = obtain(config(timeout=0.5, deadline=1), None, tmp_path)
    assert told["chosen"] == told["outcomes"]["timed_out"] == 2


@pytest.mark.slow
def test_hashes_of_the_list_are_compared_and_repeats_counted(server: Server, tmp_path: Path) -> None:
    """A changed image is counted and kept; so is one that came before under another address, as a host's error image."""
    numbers = 1, 2, 3, 4, 3, 3
    hashes = [hashlib.sha256(image(number)).hexdigest() for number in numbers]
    said = [hashes[0], hashes[1].upper(), "0" * 64, None, "no hash", hashes[5]]
    rows_of = [
        {
            "id": f"k{n}",
            "url": f"{server.address}/image/{numbers[n]}.jpg?{'abcdef'[n]}",
            "text": f"caption {n}",
            "sha": sha,
        }
        for n, sha in enumerate(said)
    ]
    rows_of.append({"id": "k9", "url": f"{server.address}/status/404", "text": "gone", "sha": "0" * 64})
    (tmp_path / "set/list").mkdir(parents=True)
    (tmp_path / "set/list/rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows_of))
    asked = config(rows_per_shard=4)
    asked["dataset"]["list"]["hash_column"] = "sha"
    told = obtain(asked, None, tmp_path)
    assert told["outcomes"]["obtained"] == 6 and told["outcomes"]["dead"] == 1
    assert told["listed_sha256"] == {"compared": 4, "different": 1}
    assert told["repeats"] == {"pairs": 2, "images": 1, "most": 3, "sha256": hashes[2]}
    assert obtain(asked, None, tmp_path) == told, "from what was checked before"
    for account in (tmp_path / "set/accounts").glob("*.json"):
        account.unlink()
    assert obtain(asked, None, tmp_path) == told, "downloaded again"
    # without the column nothing of it is in the plan, and the repeats are counted nevertheless
    (tmp_path / "plain/list").mkdir(parents=True)
    shutil.copy(tmp_path / "set/list/rows.jsonl", tmp_path / "plain/list")
    plain = config(rows_per_shard=4)
    plain["dataset"]["path"] = "plain"
    without = obtain(plain, None, tmp_path)
    assert "listed_sha256" not in without and without["repeats"] == told["repeats"]
    assert "listed_sha256" not in read_part(tmp_path / "plain", 0).column_names


@pytest.mark.slow
def test_groups_of_jobs_download_the_same(whole: Whole, server: Server, tmp_path: Path) -> None:
    folder = prepared(tmp_path, server.address)
    plan = plan_download(config(), None, folder)
    assert not (folder / "set/shards").exists() and len(plan["parts"]) == 6
    sha256 = sha256_file(folder / "set/plan/plan.json")
    running = [elsewhere(f"download_group({config()}, {folder!r}, {sha256!r}, {group}, 3)") for group in range(3)]
    while not list((folder / "set").glob("accounts/[!.]*.json")):
        assert None in [one.poll() for one in running]
        time.sleep(0.01)
    with pytest.raises(UserError, match=r"set: process unknown is downloading into this folder already"):
        obtain(config(), None, folder)  # nobody takes the whole while groups are at work
    told = [json.loads(one.communicate()[0].splitlines()[-1]) for one in running]
    assert [one.returncode for one in running] == [0, 0, 0]
    shards = {group: [shard["shard"] for shard in one["shards"]] for group, one in enumerate(told)}
    assert shards == {0: ["00000", "00003"], 1: ["00001", "00004"], 2: ["00002", "00005"]}
    before = Counter(server.asked)
    assert obtain(config(), None, folder) == whole[1]
    assert server.asked == before  # all of it was there
    again = download_group(config(), folder, sha256, 1, 3)
    assert again == told[1] and server.asked == before
    with pytest.raises(UserError, match=r"plan\.json: missing or rebuilt since this job was planned"):
        download_group(config(), folder, "0" * 64, 1, 3)


@pytest.mark.slow
def test_full_disk_and_kill(whole: Whole, server: Server, tmp_path: Path) -> None:
    folder = prepared(tmp_path, server.address)
    plan_download(config(), None, folder)
    said = r"set: cannot be written \(File too large; \d+ MiB free\); 0 of 6 shards"
    with pytest.raises(UserError, match=said), full_disk(50_000):  # of the processes that are started too
        obtain(config(), None, folder)
    assert not list((folder / "set/shards").iterdir())  # nothing half-written is left

    process = elsewhere(f"obtain({config()}, None, {folder!r})", TMPDIR=str(tmp_path))
    first = account_file(folder / "set", 0)
    while not first.exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.8))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with (folder / "set/workers").open("a") as workers:
        fcntl.flock(workers, fcntl.LOCK_EX)  # its worker ends with it; asked for from here on is only what is not there
    there = sorted((folder / "set/accounts").glob("[!.]*.json"))  # what it was writing as it ended is hidden
    before = Counter(server.asked)
    assert 0 < len(there) < 6, "a worker outlived the process that started it"
    assert obtain(config(), None, folder) == whole[1]
    assert server.asked["image"] - before["image"] <= GOOD + 2 - 20 * len(there)


def test_a_shard_that_was_tampered_with_is_downloaded_again(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, told = whole
    place = folder / "set"
    (place / "shards/stray.json").write_text("[]")
    (place / "stray.json").write_text("{")
    assert obtain(config(), None, folder) == told
    asked: list[int] = []
    monkeypatch.setattr(
        "mdc.data.obtain.urls.download",
        lambda settings, orders, trust_network_errors: asked.extend(shard for shard, _ in orders) or iter(()),
    )
    saved = {path: path.read_bytes() for path in [*shard_files(place, 1), account_file(place, 1)]}
    tar = shard_files(place, 1)[0]
    first = next(content for one in tar_samples(tar) if len(content := one.read("jpg") or b"") > 600)
    turned_bit = bytearray(saved[tar])  # within an image: no name, size or caption tells
    turned_bit[saved[tar].index(first) + 500] ^= 1
    halves = [(path, saved[path][: len(saved[path]) // 2]) for path in shard_files(place, 1)]
    for damaged, content in [*halves, (tar, bytes(turned_bit))]:
        damaged.write_bytes(content)
        asked.clear()
        with pytest.raises(UserError, match=r"1 of 6 shards are incomplete after 2 tries \(shard 00001: "):
            obtain(config(), None, folder)
        assert asked == [1, 1] and not any(path.exists() for path in saved)
        for path, whole_content in saved.items():
            path.write_bytes(whole_content)
    asked.clear()
    assert obtain(config(), None, folder) == told and not asked  # the same bytes, though of another time


def test_the_shards_of_another_plan_are_not_thrown_away(whole: Whole, tmp_path: Path) -> None:
    shutil.copytree(whole[0] / "set", tmp_path / "set")
    for account in (tmp_path / "set/accounts").glob("*.json"):
        account.write_text(json.dumps({**read_json(account), "part": "of an earlier version"}))
    with pytest.raises(UserError, match=r"set: its shards are of another plan.*put back its plan/, or delete shards/"):
        obtain(config(), None, tmp_path)
    assert len(list((tmp_path / "set/shards").glob("*.tar"))) == 6


def test_no_shard_is_thrown_away_because_its_account_cannot_be_read_or_written(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, account: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def download(settings: Any, orders: Any, trust_network_errors: bool) -> Iterator[Answer]:
        assert not orders, "they are downloaded again"
        return iter(())

    shutil.copytree(whole[0] / "set", tmp_path / "set", copy_function=shutil.copyfile)  # a copy has new times
    monkeypatch.setattr("mdc.data.obtain.urls.download", download)
    with monkeypatch.context() as patched:
        patched.setattr("mdc.data.obtain.accounts.write_json", full)
        assert obtain(config(), None, tmp_path) == whole[1]
    account = account_file(tmp_path / "set", 2)
    account.unlink()
    account.mkdir()  # cannot be read, also by root
    with pytest.raises(UserError, match=r"00002\.json: cannot be read"):
        obtain(config(), None, tmp_path)
    assert len(list((tmp_path / "set/shards").glob("*.tar"))) == 6


def test_a_shard_whose_files_tell_different_things_is_not_whole(whole: Whole, tmp_path: Path) -> None:
    place = whole[0] / "set"
    for path in (*shard_files(place, 1), part_file(place, 1)):
        (tmp_path / path.parent.name).mkdir(exist_ok=True)
        shutil.copy(path, tmp_path / path.parent.name)
    tar, _, stats = shard_files(tmp_path, 1)
    images = {one.key: hashlib.sha256(one.read("jpg") or b"").hexdigest() for one in tar_samples(tar)}
    part, other = read_json(place / "plan/plan.json")["parts"][1], read_part(place, 0)
    planned = read_part(tmp_path, 1, part)
    assert take_account(tmp_path, 1, part, planned, images)["sha256"] == whole[1]["shards"][1]["sha256"]
    with pytest.raises(Incomplete, match="disagree on the number of pairs"):
        take_account(tmp_path, 1, part, planned, dict(list(images.items())[1:]))
    with pytest.raises(Incomplete, match="not those of the plan"):
        take_account(tmp_path, 1, part, other, images)
    stats.write_text(stats.read_text().replace('"count": 36', '"count": 35'))
    with pytest.raises(Incomplete, match="disagree on the number of pairs"):
        take_account(tmp_path, 1, part, planned, images)
    part_file(tmp_path, 1).write_bytes(part_file(place, 0).read_bytes())
    with pytest.raises(UserError, match=r"part-00001\.parquet: corrupt; delete .*plan and rerun"):
        read_part(tmp_path, 1, part)


def test_an_outage_is_not_taken_for_link_rot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan's 40 rows in two shards; what a worker would answer comes from here."""
    (tmp_path / "set/list").mkdir(parents=True)
    lines = [json.dumps({"id": str(n), "url": f"http://a.example/{n}", "text": "x"}) for n in range(40)]
    (tmp_path / "set/list/rows.jsonl").write_text("\n".join(lines))
    outcomes = {0: "no word of the name server", 1: "HTTP 404"}
    tried: list[tuple[int, bool]] = []

    def download(settings: Any, orders: Any, trust_network_errors: bool) -> Iterator[Answer]:
        for shard, part in orders:
            tried.append((shard, trust_network_errors))
            write_shard(tmp_path / "set", shard, outcomes[shard])
            try:
                take_account(
                    tmp_path / "set", shard, part, read_part(tmp_path / "set", shard), {}, trust_network_errors
                )
            except NetworkDown as error:
                yield Answer(shard, str(error), "network")
            else:
                yield Answer(shard, "")

    monkeypatch.setattr("mdc.data.obtain.urls.download", download)
    said = r"20 of 20 rows got no response from any host; check your network\. 0 of 2 shards"
    with pytest.raises(UserError, match=said):
        obtain(config(rows_per_shard=20), None, tmp_path)
    assert tried == [(0, False)]  # and not one more
    # hosts that refuse or are not known are dead, however many; and others answered, so the second try is believed
    outcomes.update({0: "connection refused", 1: "no word of the name server"})
    tried.clear()
    told = obtain(config(rows_per_shard=20), None, tmp_path)
    assert tried == [(0, False), (1, False), (1, True)]
    assert told["reasons"] == {"connection refused": 20, outcomes[1]: 20}


NAMES = """
import os, socket

def looked_up(host, port, *args, _real=socket.getaddrinfo, **more):
    if str(host).endswith(".example") and "flags" not in more:
        if host not in os.environ["MDC_TEST_NAMES"].split():
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        host = "127.0.0.1"
    return _real(host, port, *args, **more)

socket.getaddrinfo = looked_up
"""


def test_a_shard_without_a_response_is_believed_once_another_had_one(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to nine rows in ten are link rot at once, more of them on a second try."""
    (tmp_path / "sitecustomize.py").write_text(NAMES)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    (tmp_path / "set/list").mkdir(parents=True)
    urls = [f"http://{n}.example:{server.server_address[1]}/image/{n}" for n in range(40)]
    lines = [json.dumps({"id": url, "url": url, "text": "x"}) for url in urls]
    (tmp_path / "set/list/rows.jsonl").write_text("\n".join(lines))
    plan_download(config(rows_per_shard=20, retries=0, timeout=60, deadline=60), None, tmp_path)
    first, second = (read_part(tmp_path / "set", shard)["url"].to_pylist() for shard in (0, 1))
    monkeypatch.setenv("MDC_TEST_NAMES", " ".join(url.split("/")[2].split(":")[0] for url in [*first[:2], second[0]]))
    before = server.asked["image"]
    told = obtain(config(rows_per_shard=20, retries=0, timeout=60, deadline=60), None, tmp_path)
    assert told["reasons"] == {"no word of the name server": 37} and told["outcomes"]["obtained"] == 3
    assert server.asked["image"] - before == 4, "the second shard's only image twice"


def write_shard(folder: Path, shard: int, reason: str) -> None:
    """A shard as img2dataset writes it where every row failed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tar, parquet, stats = shard_files(folder, shard)
    tar.write_bytes(tar_of([]))
    rows = read_part(folder, shard)
    for name, value in (("key", "k"), ("status", "failed_to_download"), ("error_message", reason), ("sha256", None)):
        rows = rows.append_column(name, pa.array([value] * rows.num_rows, pa.string()))
    pq.write_table(rows, parquet)
    stats.write_text(json.dumps({"count": rows.num_rows, "successes": 0}))


def test_a_worker_that_is_still_ending_is_waited_for(whole: Whole) -> None:
    folder, told = whole
    left = (folder / "set/workers").open("a")
    fcntl.flock(left, fcntl.LOCK_SH)
    began = time.monotonic()
    threading.Timer(0.4, left.close).start()
    assert obtain(config(), None, folder) == told and time.monotonic() - began >= 0.4


def test_groups_of_another_number_would_have_the_same_parts(whole: Whole) -> None:
    folder, sha256 = whole[0], sha256_file(whole[0] / "set/plan/plan.json")
    with locked(folder / "set/groups/1-of-4"):
        assert download_group(config(), folder, sha256, 0, 4)["shards"] == whole[1]["shards"][::4]
        with pytest.raises(UserError, match=r"1-of-4: process \d+ is downloading this group already"):
            download_group(config(), folder, sha256, 0, 2)
    left = (folder / "set/groups/1-of-4/workers").open("a")
    fcntl.flock(left, fcntl.LOCK_SH)  # a worker of a group that was killed
    began = time.monotonic()
    threading.Timer(0.4, left.close).start()
    download_group(config(), folder, sha256, 0, 2)
    assert time.monotonic() - began >= 0.4


def test_other_settings_for_the_same_folder_are_refused(whole: Whole) -> None:
    folder, _ = whole
    with pytest.raises(UserError, match="made with image_size 64, now it is 96; use a different path"):
        obtain(config(image_size=96), None, folder)
    other = copy.deepcopy(config())
    other["dataset"]["list"]["caption_column"] = "id"
    with pytest.raises(UserError, match="made from a different list or different columns"):
        obtain(other, None, folder)


def test_a_process_that_dies_costs_its_shard_alone(
    whole: Whole, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed once while it downloads: everything arrives. Killed always: that is told, and what is complete stays."""
    over = threading.Event()

    def kill(times: int) -> None:
        while times and not over.wait(0.05):
            if list((tmp_path / "set/shards").glob(".rows-*")):
                for process in multiprocessing.active_children():
                    process.kill()
                    times -= 1
                time.sleep(0.5)

    folder = prepared(tmp_path, server.address)
    killer = threading.Thread(target=kill, args=(1_000_000,))
    killer.start()
    monkeypatch.setattr(server, "delay", 3600.0)  # or a shard is done before it is killed
    try:
        with pytest.raises(UserError, match=r"6 of 6 shards .* a process was killed; out of memory\?"):
            obtain(config(), None, folder)
    finally:
        over.set()
        killer.join()
    monkeypatch.setattr(server, "delay", 0.05)
    over.clear()
    killer = threading.Thread(target=kill, args=(1,))
    killer.start()
    assert obtain(config(), None, folder) == whole[1]
    killer.join()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pyspark", "ray"])
def test_workers_of_spark_and_ray_download_the_same(whole: Whole, server: Server, tmp_path: Path, name: str) -> None:
    pytest.importorskip(name, reason=f"needs {name}: pip install mdc[{name}]")
    folder = prepared(tmp_path, server.address)
    process = elsewhere(f"obtain({config(distributor=name, processes=2)}, None, {folder!r})")
    assert json.loads(process.communicate()[0].splitlines()[-1]) == whole[1] and not process.returncode


def test_a_distributor_that_is_not_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"distributor: ray: .*; pip install 'mdc\[ray\]', or set it to local"):
        obtain(config(distributor="ray"), None, prepared(tmp_path, "http://a.example"))


# --- images ----------------------------------------------------------------------------------------------------------

RESIZE = Resize(image_size=64, quality=95, min_image_size=8, max_pixels=2_000_000, max_aspect=20.0)


def resized(data: bytes) -> Any:
    return RESIZE(io.BytesIO(data))


def grey_of(picture: Image.Image) -> np.ndarray:
    """JPEG halves the resolution of colour, which a dithered palette shows."""
    return np.asarray(picture.convert("L"), dtype=float)


@pytest.mark.parametrize("kind", ["gif", "cmyk", "deep", "turned", "large"])
def test_what_is_no_small_rgb_jpeg_becomes_one(kind: str) -> None:
    from mdc.data.formats.images import decode

    data, width, height, *original, trouble = resized(IMAGES[kind](4))
    assert trouble is None and data is not None
    shown, there = Image.open(io.BytesIO(data)), decode(IMAGES[kind](4))
    assert (shown.format, shown.mode, shown.size) == ("JPEG", "RGB", (width, height)) and tuple(original) == there.size
    assert not shown.getexif() and abs(width / height - there.width / there.height) < 0.02
    assert np.abs(grey_of(shown) - grey_of(there.resize(shown.size, Image.Resampling.BICUBIC))).mean() < 3


def test_a_draft_is_as_good_as_a_full_decoding() -> None:
    noise = np.random.default_rng(0).normal(0, 20, (900, 1200, 1))
    smooth = np.asarray(Image.open(io.BytesIO(image(1, 1200, 900))), dtype=float)
    photo = Image.fromarray(np.clip(smooth + noise, 0, 255).astype(np.uint8))
    buffer = io.BytesIO()
    photo.save(buffer, "JPEG", quality=92)
    data = resized(buffer.getvalue())[0]
    full = Image.open(buffer).resize((85, 64), Image.Resampling.BICUBIC)
    assert np.abs(np.asarray(Image.open(io.BytesIO(data)), dtype=float) - np.asarray(full, dtype=float)).mean() < 2


def test_junk_behind_a_small_image_is_not_kept() -> None:
    assert resized(image(1))[0] == image(1)
    data = resized(image(1) + bytes(300_000))[0]
    assert data is not None and len(data) < 10_000


def test_an_upright_mark_changes_nothing_and_a_turned_image_is_turned() -> None:
    data, width, height, *original, _ = resized(turned(7))
    assert (width, height) == (36, 48) == tuple(original) and data != turned(7)


def test_bad_images_are_told_by_reason() -> None:
    told = {"text": "cannot be decoded", "truncated": "cannot be decoded", "pixel": "too small", "narrow": "too narrow"}
    for kind, reason in {**told, "bomb": "too large"}.items():
        assert resized(IMAGES[kind](1))[-1] == f"image {reason}"


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robots", [True, False])
def test_every_setting_reaches_what_it_is_of(robots: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value reaches what it is of, and none another's place: no two are alike."""
    from mdc.data.obtain.downloader import ShardDownloader, guard

    installed: list[Opener] = []
    monkeypatch.setattr(urllib.request, "install_opener", installed.append)
    resize = {"image_size": 61, "quality": 62, "min_image_size": 13, "max_pixels": 1_000_003, "max_aspect": 7.5}
    limits = {"timeout": 3.5, "deadline": 11.5, "max_bytes": 70_001, "retries": 4, "use_proxy": True}
    told = {**resize, **limits, "threads": 5, "rows_per_shard": 17, "allow_addresses": ["10.1.0.0/16"]}
    settings = {**told, "respect_robots": robots, "folder": str(tmp_path), "lock_folder": str(tmp_path)}
    made = pickle.loads(pickle.dumps(ShardDownloader(settings)))  # as Spark and Ray send it
    guard(settings)
    assert Path(made.output_folder) == tmp_path / "shards"
    assert [opener._limits for opener in installed] == [Limits(**limits, exceptions=networks(["10.1.0.0/16"]))]
    assert made.resizer == Resize(**resize)
    assert (made.thread_count, made.number_sample_per_shard) == (5, 17)
    assert bool(made.disallowed_header_directives) == robots
