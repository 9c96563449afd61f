"""Dataset repositories of the Hugging Face hub, at one commit, every file verified against the hub's own listing.

A mirror has a dataset's shards, fetched by one job or several, or its list of URLs.

A branch or tag may move: its commit is looked up once, and kept in the data set's folder (``revision/``).

``huggingface_hub`` fetches and resumes. It compares no checksum, and may return an old local file if the hub cannot be reached:
so we list first, and verify every file. A verified file is sealed (:mod:`mdc.data.obtain.seals`), and neither fetched nor hashed
again while its size and time are the same. The library's ``verify_repo_checksums`` would hash the whole folder at every call,
also what another job is fetching.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdc.data.obtain.checks import Finding, require, run_checks
from mdc.data.obtain.seals import known_seal, sealed
from mdc.data.obtain.transfers.http import need_room
from mdc.plan.processes.lock import locked
from mdc.plan.progress import progress
from mdc.plan.records import UserError, read_json, write_json
from mdc.plan.registry.entry import Mirror, RegistryEntry

if TYPE_CHECKING:
    from huggingface_hub import HfApi, RepoFile

_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUBS_OWN = (
    "huggingface_hub",
    "httpx",
    "httpx2",
    "requests",
)  # packages whose errors mean that the hub cannot be reached


def from_mirror(config: Mapping[str, Any], entry: RegistryEntry | None, folder: Path) -> dict[str, Any]:
    """Fetch all files of the mirror into ``folder``; their part of ``obtained.json``. The caller holds the folder's lock."""
    requested, own = mirror_of(config, entry), bool(config["dataset"].get("mirror"))
    mirror = resolved(requested, folder)
    files = _fetched(mirror, folder)
    # counts hold for the registry's own repository and commit
    checks: list[Finding] = [] if entry is None or own else run_checks(entry, folder, "mirror")
    return {
        "files": files,
        "checks": require(config["name"], folder, checks),
        "mirror": described(mirror, requested.revision),
    }


def fetch_group(
    config: Mapping[str, Any], entry: RegistryEntry | None, folder: Path, group: int, groups: int
) -> dict[str, Any]:
    """Fetch the files ``group``, ``group`` + ``groups``, … of the mirror's listing. Groups may run at the same time."""
    requested = mirror_of(config, entry)
    mirror = resolved(requested, folder)
    own = folder / "groups" / f"{group}-of-{groups}"
    with (
        locked(folder, doing="is filling this folder", shared=True),
        locked(own, doing="is fetching this group"),
    ):
        return {"files": _fetched(mirror, folder, group, groups), "mirror": described(mirror, requested.revision)}


def _fetched(mirror: Mirror, folder: Path, group: int = 0, groups: int = 1) -> list[dict[str, Any]]:
    files = fetch_mirror(mirror, folder / "mirror", folder / "seals", group=group, groups=groups)
    return [{**file, "file": f"mirror/{file['file']}"} for file in files]


def mirror_of(config: Mapping[str, Any], entry: RegistryEntry | None) -> Mirror:
    """The registry's mirror, overridden by the scale's settings. UserError if something is missing."""
    settings = {key: value for key, value in (config["dataset"].get("mirror") or {}).items() if value is not None}
    if "patterns" in settings:
        settings["patterns"] = tuple(settings["patterns"])
    if entry is not None and entry.mirror is not None:
        return replace(entry.mirror, **settings)
    missing = [key for key in ("repo", "revision", "patterns") if not settings.get(key)]
    if missing:
        raise UserError(f"data.datasets.{config['name']}.mirror: lacks {', '.join(missing)}")
    return Mirror(**settings)


def resolved(mirror: Mirror, folder: Path) -> Mirror:
    """``mirror`` at a commit. That of a branch or tag is looked up on the hub once, and recorded in ``folder``.

    Several jobs may call this at once: the first looks it up. UserError if the hub has no such revision or cannot be reached.
    """
    if _COMMIT.fullmatch(mirror.revision):
        return mirror
    place = folder / "revision"
    with locked(place, wait=True, doing="is looking up a revision"):
        path, wanted = place / "commit.json", {"repo": mirror.repo, "revision": mirror.revision}
        known = read_json(path) if path.exists() else {}
        if {key: known.get(key) for key in wanted} != wanted:
            with _hub(mirror) as api:
                known = wanted | {"commit": api.dataset_info(mirror.repo, revision=mirror.revision, expand=["sha"]).sha}
            if not _COMMIT.fullmatch(known["commit"] or ""):
                raise UserError(f"{mirror.repo}: the hub names no commit of revision {mirror.revision!r}")
            write_json(path, known)
    return replace(mirror, revision=known["commit"])


def described(mirror: Mirror, requested: str) -> dict[str, Any]:
    """The record of ``mirror`` at a commit; ``requested``: the revision that the scale or the registry names."""
    record = {"repo": mirror.repo, "revision": mirror.revision, "patterns": list(mirror.patterns)}
    return record if requested == mirror.revision else {**record, "asked": requested}


def fetch_mirror(
    mirror: Mirror, folder: Path, seals: Path, *, group: int = 0, groups: int = 1, workers: int = 8
) -> list[dict[str, Any]]:
    """Fetch the files of ``mirror`` that match its patterns into ``folder``; ``{"file", "bytes", "sha256"}`` of each.

    ``group`` of ``groups`` has every ``groups``-th file, so that several jobs share a mirror. ``seals``: the folder of the
    verified files' seals. UserError if the hub cannot be reached or refuses, if a file differs from the listing, or if the disk
    is full.
    """
    assert _COMMIT.fullmatch(mirror.revision), "a branch or tag is resolved first"
    files = _list(mirror)[group::groups]
    folder.mkdir(parents=True, exist_ok=True)
    need_room(folder, mirror.repo, sum(file.size for file in files if not (folder / file.path).is_file()))
    fetch = partial(_fetch_one, mirror, folder, seals)
    with ThreadPoolExecutor(workers) as pool:
        return list(progress(pool.map(fetch, files), mirror.repo, len(files), unit="file"))


def _fetch_one(mirror: Mirror, folder: Path, seals: Path, file: RepoFile) -> dict[str, Any]:
    """Fetch one file unless it is there, and verify it; its record."""
    path = folder / file.path
    if not path.is_file():
        with _hub(mirror) as api:
            api.hf_hub_download(mirror.repo, file.path, repo_type="dataset", revision=mirror.revision, local_dir=folder)
    before = known_seal(seals, path)
    seal = before or sealed(seals, path)
    # the listing has a sha256 of large files (LFS), and git's hash of the small ones
    if not (seal["sha256"] == file.lfs.sha256 if file.lfs else _git_hash(path) == file.blob_id):
        if before is not None:
            raise UserError(
                f"{path}: complete, but {mirror.repo} has another file at {mirror.revision[:12]}; use a different path "
                "for another revision, or delete this file and rerun"
            )
        path.unlink()
        raise UserError(f"{path}: checksum mismatch with {mirror.repo}; deleted, rerun to download it again")
    return {"file": file.path, "bytes": seal["bytes"], "sha256": seal["sha256"]}


def _git_hash(path: Path) -> str:
    from huggingface_hub.utils.sha import git_hash

    return git_hash(path.read_bytes())


def _list(mirror: Mirror) -> list[RepoFile]:
    with _hub(mirror) as api:
        tree = api.list_repo_tree(mirror.repo, repo_type="dataset", revision=mirror.revision, recursive=True)
        listed: list[Any] = [entry for entry in tree if hasattr(entry, "size")]  # the others are folders
    for file in listed:
        if file.path.startswith("/") or ".." in file.path.split("/") or "\\" in file.path:
            raise UserError(
                f"{mirror.repo}: file {file.path!r} is an absolute path or leads outside the folder; not downloaded"
            )
    # as the library: shell patterns in which * also matches /
    wanted = [file for file in listed if any(fnmatch.fnmatch(file.path, pattern) for pattern in mirror.patterns)]
    if not wanted:
        raise UserError(
            f"{mirror.repo}: none of its {len(listed)} files at {mirror.revision[:12]} matches {', '.join(mirror.patterns)}"
        )
    return sorted(wanted, key=lambda file: file.path)


def _hub(mirror: Mirror) -> AbstractContextManager[HfApi]:
    return hub_api(f"{mirror.repo} at {mirror.revision[:12]}", "; partial download kept; rerun to resume")


@contextmanager
def hub_api(what: str, remedy: str = "") -> Iterator[HfApi]:
    """The hub's API, whose errors of many lines become a UserError of one, which begins with ``what``. ``remedy``: what to do
    where the hub does not answer."""
    # the library reads them once, when it is imported; a user's own setting is kept
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_UPDATE_CHECK", "1")
    from huggingface_hub import HfApi, errors
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()  # its bars of each file would write over ours, which counts them all
    try:
        yield HfApi(endpoint=hub_endpoint())
    except Exception as error:
        message = f"cannot reach the hub ({type(error).__name__}){remedy}"
        if isinstance(error, errors.GatedRepoError):
            message = "gated dataset: accept the terms, then run `hf auth login`"
        elif isinstance(error, errors.RepositoryNotFoundError):
            message = "no such dataset repository on the hub, or it is private (run `hf auth login`)"
        elif isinstance(error, errors.RevisionNotFoundError):
            message = "no such commit, branch or tag in the repository"
        elif status := getattr(getattr(error, "response", None), "status_code", None):
            message = f"HTTP {status} from the hub{remedy}"
        elif isinstance(error, OSError) and error.strerror:
            message = f"{error.strerror}{remedy}"
        elif not isinstance(error, OSError) and type(error).__module__.partition(".")[0] not in _HUBS_OWN:
            raise
        raise UserError(f"{what}: {message}") from None


def hub_endpoint() -> str | None:
    """The hub's address by the environment; None: the usual one."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
