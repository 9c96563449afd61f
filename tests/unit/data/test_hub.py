"""Mirrors on the Hugging Face hub."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_hub import COMMIT, Hub, hub_of
from scale_files import common_values

from mdc.data.obtain import download_job, seals
from mdc.data.obtain import job as job_module
from mdc.data.obtain.files import fetch_list
from mdc.data.obtain.hub import fetch_group, fetch_mirror, from_mirror, resolved
from mdc.plan.config.read import validate
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError
from mdc.plan.registry.datasets import REGISTRY
from mdc.plan.registry.entry import Mirror

LARGE = {f"set-train-{number:04}.tar": bytes([number]) * 5000 for number in range(3)}
SMALL = {"README.md": b"a card\n", "set-validation-0000.tar": b"validation", "_info.json": b"{}"}
DOWNLOAD: dict[str, Any] = {
    **{"image_size": 32, "rows_per_shard": 20, "max_bytes": 1000, "min_image_size": 8, "quality": 90},
    **{"max_pixels": 1000, "max_aspect": 20.0, "respect_robots": True},
    "runtime": {
        **{
            "jobs": 2,
            "processes": 1,
            "threads": 8,
            "timeout": 600.0,
            "deadline": 600.0,
            "retries": 0,
            "use_proxy": False,
        },
        "allow_addresses": [],
    },
}
MIRROR = Mirror("someone/set-wds", COMMIT, ("set-train-*.tar",))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with hub_of(MIRROR.repo, {**LARGE, **SMALL}, monkeypatch) as hub:
        yield hub


def fetch(mirror: Mirror, folder: Path, **more: Any) -> list[dict[str, Any]]:
    return fetch_mirror(mirror, folder, folder.parent / "seals", **more)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def asked_for(hub: Hub) -> list[str]:
    """The files that were asked for, whether with their bytes or without; the list is begun anew."""
    found = [path.rpartition("/")[2] for _, path in hub.asked if "/resolve/" in path]
    hub.asked.clear()
    return sorted(set(found))


def test_what_matches_is_fetched_once_and_verified(hub: Hub, tmp_path: Path) -> None:
    told = fetch(MIRROR, tmp_path)
    assert names(tmp_path) == sorted(LARGE)
    assert told == [
        {"file": name, "bytes": 5000, "sha256": hashlib.sha256(LARGE[name]).hexdigest()} for name in sorted(LARGE)
    ]
    assert asked_for(hub) == sorted(LARGE)
    # a file that went is fetched again, and no other
    (tmp_path / "set-train-0001.tar").unlink()
    assert fetch(MIRROR, tmp_path) == told and asked_for(hub) == ["set-train-0001.tar"]


@pytest.mark.parametrize(("name", "patterns"), [("set-train-0001.tar", ("*-train-*",)), ("README.md", ("*.md",))])
def test_other_bytes_are_thrown_away(hub: Hub, tmp_path: Path, name: str, patterns: tuple[str, ...]) -> None:
    """The library compares the size alone. Large files have a sha256 in the listing, small ones git's own sha1."""
    hub.damaged = {name}
    with pytest.raises(UserError, match=f"{name}: checksum mismatch with someone/set-wds; deleted"):
        fetch(Mirror(MIRROR.repo, COMMIT, patterns), tmp_path)
    assert name not in names(tmp_path)
    hub.damaged = set()
    assert name in {file["file"] for file in fetch(Mirror(MIRROR.repo, COMMIT, patterns), tmp_path)}


def test_a_changed_file_of_the_users_is_told(hub: Hub, tmp_path: Path) -> None:
    fetch(MIRROR, tmp_path)
    (tmp_path / "set-train-0002.tar").write_bytes(b"cut")
    with pytest.raises(UserError, match=r"set-train-0002\.tar: checksum mismatch"):
        fetch(MIRROR, tmp_path)
    assert len(fetch(MIRROR, tmp_path)) == 3


@pytest.mark.parametrize(
    ("mirror", "told"),
    [
        (Mirror("someone/nothing", COMMIT, ("*",)), "no such dataset repository on the hub, or it is private"),
        (Mirror(MIRROR.repo, "f" * 40, ("*",)), "no such commit, branch or tag in the repository"),
        (Mirror(MIRROR.repo, COMMIT, ("*.zip",)), "none of its 6 files at 0123456789ab matches"),
    ],
)
def test_what_is_not_there_is_told(hub: Hub, tmp_path: Path, mirror: Mirror, told: str) -> None:
    with pytest.raises(UserError, match=told) as error:
        fetch(mirror, tmp_path)
    assert "hf_secret" not in str(error.value) and not list(tmp_path.iterdir())


def test_a_hub_that_is_away_is_told(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch(MIRROR, tmp_path)
    hub.status = 403
    with pytest.raises(UserError, match="HTTP 403 from the hub"):
        fetch(MIRROR, tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the library waits longer and longer
    with pytest.raises(UserError, match=r"cannot reach the hub \(ConnectError\)|Connection refused"):
        fetch(MIRROR, tmp_path)


@pytest.mark.parametrize("name", ["../evil.tar", "a/../../evil.tar", "/tmp/evil.tar"])
def test_a_listing_that_leads_outside_is_refused(hub: Hub, tmp_path: Path, name: str) -> None:
    hub.files[COMMIT][name] = b"x"
    with pytest.raises(UserError, match="is an absolute path or leads outside the folder; not downloaded"):
        fetch(Mirror(MIRROR.repo, COMMIT, ("*",)), tmp_path / "mirror")
    assert not list(tmp_path.iterdir())


def test_several_jobs_share_a_mirror(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def hashing(path: Path) -> str:
        hashed.append(path.name)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(seals, "sha256_file", hashing)
    folder = tmp_path / "mirror"
    second = fetch(MIRROR, folder, group=1, groups=2)
    assert [file["file"] for file in second] == ["set-train-0001.tar"] == asked_for(hub)
    first = fetch(MIRROR, folder, group=0, groups=2)
    assert [file["file"] for file in first] == ["set-train-0000.tar", "set-train-0002.tar"] == asked_for(hub)
    assert sorted(hashed) == sorted(LARGE)
    # the whole is there: its listing is asked for, and no file is, nor is one hashed again
    hashed.clear()
    assert fetch(MIRROR, folder) == sorted(first + second, key=lambda file: file["file"])
    assert not asked_for(hub) and not hashed
    # a file with another time may be another one
    (folder / "set-train-0001.tar").touch()
    fetch(MIRROR, folder)
    assert hashed == ["set-train-0001.tar"] and not asked_for(hub)


def test_what_was_verified_before_a_failure_stays(hub: Hub, tmp_path: Path) -> None:
    hub.damaged = {"set-train-0002.tar"}
    with pytest.raises(UserError, match=r"set-train-0002\.tar: checksum mismatch"):
        fetch(MIRROR, tmp_path / "mirror", workers=1)
    hub.damaged = set()
    asked_for(hub)
    assert len(fetch(MIRROR, tmp_path / "mirror")) == 3
    assert asked_for(hub) == ["set-train-0002.tar"]


def test_a_mirror_larger_than_the_disk_is_not_begun(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = [{**entry, "size": 1 << 60} for entry in hub.tree() if "lfs" not in entry]
    monkeypatch.setattr(hub, "tree", lambda commit: tree)
    with pytest.raises(UserError, match=rf"needs {1 << 60} bytes, \d+ are free"):
        fetch(Mirror(MIRROR.repo, COMMIT, ("README.md",)), tmp_path)


def test_the_groups_of_a_mirror_are_jobs(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path / "data"))
    mirror = {"repo": MIRROR.repo, "revision": COMMIT, "patterns": list(MIRROR.patterns)}
    data = {
        **{"samples_per_shard": 1000, "max_skipped": 0.1, "download": DOWNLOAD},
        "datasets": {"mine": {"path": "mine", "from": "mirror", "mirror": mirror}},
        "corpora": {"mine": {"label": "Mine", "source": {"kind": "pairs", "dataset": "mine", "val_fraction": 0.1}}},
    }
    plan = Plan(validate({**common_values(), "scale": "hub", "label": "Hub", "data": data}))
    groups = [f"data/downloads/mine/{group}-of-2" for group in range(2)]
    assert plan.jobs["data/obtained/mine"].inputs == groups and "data/plans/mine" not in plan.jobs
    for name in [*groups, "data/obtained/mine"]:
        job = plan.jobs[name]
        module = download_job if job.verb == "download" else job_module
        module.main(Call(job, ScaleFolder(tmp_path), tmp_path / name))
    told = [json.loads((tmp_path / name / "downloaded.json").read_text()) for name in groups]
    assert [[file["file"] for file in one["files"]] for one in told] == [
        ["mirror/set-train-0000.tar", "mirror/set-train-0002.tar"],
        ["mirror/set-train-0001.tar"],
    ]
    text = (tmp_path / "data/obtained/mine/obtained.json").read_text()
    whole = json.loads(text)
    assert whole["from"] == "mirror" and whole["mirror"]["revision"] == COMMIT and "hf_secret" not in text
    assert [file["file"] for file in whole["files"]] == [f"mirror/{name}" for name in sorted(LARGE)]
    assert len([path for command, path in hub.asked if command == "GET" and "/resolve/" in path]) == 3


def test_a_branch_is_resolved_once_and_recorded(hub: Hub, tmp_path: Path) -> None:
    """A later job, or one that runs beside it, has the files of the same commit, whatever the branch names by then."""
    mirror = {"repo": MIRROR.repo, "revision": "main", "patterns": list(MIRROR.patterns)}
    config = {"name": "mine", "dataset": {"path": "mine", "mirror": mirror}}
    first = fetch_group(config, None, tmp_path, 0, 2)
    assert first["mirror"] == {**mirror, "revision": COMMIT, "asked": "main"}
    hub.revisions["main"] = "f" * 40  # moved on; the fake hub knows no file of it
    assert fetch_group(config, None, tmp_path, 1, 2)["mirror"] == first["mirror"]
    assert from_mirror(config, None, tmp_path)["mirror"] == first["mirror"]
    with pytest.raises(UserError, match="no such commit, branch or tag in the repository"):
        resolved(dataclasses.replace(MIRROR, revision="gone"), tmp_path / "other")


def test_a_file_of_another_revision_is_not_deleted(hub: Hub, tmp_path: Path) -> None:
    fetch(MIRROR, tmp_path / "mirror")
    hub.files[COMMIT]["set-train-0001.tar"] = b"z" * 5000
    with pytest.raises(UserError, match=r"set-train-0001.tar: complete, but .* use a different path"):
        fetch(MIRROR, tmp_path / "mirror")
    assert names(tmp_path / "mirror") == sorted(LARGE)


def test_the_registrys_list_at_another_revision(hub: Hub, tmp_path: Path) -> None:
    """``list: {revision: main}``: the commit is in what the job that plans and the one that downloads leave."""
    hub.files[COMMIT] = {"data/train_data/train-0.parquet": b"rows"}
    entry = REGISTRY["recap_datacomp_1b"]
    listed = Mirror(MIRROR.repo, "0" * 40, ("data/train_data/train-*.parquet",))
    entry = dataclasses.replace(entry, list_mirror=listed)
    config = {"name": entry.name, "dataset": {"path": "mine", "list": {"path": None, "revision": "main"}}}
    told, found = job_module.with_list(config, entry, tmp_path)
    assert told["dataset"]["list"] is None and found["files"][0]["file"] == "list/data/train_data/train-0.parquet"
    assert (found["list_mirror"]["revision"], found["list_mirror"]["asked"]) == (COMMIT, "main")


def test_a_list_can_come_from_the_hub(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the plan that follows does not hash it a second time."""
    hub.files[COMMIT] = {"data/train_data/train-0.parquet": b"rows"}
    listed = Mirror(MIRROR.repo, COMMIT, ("data/train_data/train-*.parquet",))
    told = fetch_list(dataclasses.replace(REGISTRY["recap_datacomp_1b"], list_mirror=listed), tmp_path)
    assert [file["file"] for file in told] == ["list/data/train_data/train-0.parquet"]
    assert (tmp_path / "list" / "data" / "train_data" / "train-0.parquet").read_bytes() == b"rows"
    monkeypatch.setattr(seals, "sha256_file", lambda path: pytest.fail(f"{path} is hashed again"))
    (seal,) = seals.seal_files(tmp_path / "plan/list", [tmp_path / "list/data/train_data/train-0.parquet"])
    assert seal["sha256"] == told[0]["sha256"]
    assert fetch_list(dataclasses.replace(REGISTRY["recap_datacomp_1b"], list_mirror=listed), tmp_path) == told
