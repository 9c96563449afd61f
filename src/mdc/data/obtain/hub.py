"""Dataset repositories of the Hugging Face hub, at one commit, every file verified against the hub's own listing.

A branch or tag may name other files tomorrow: its commit is looked up once, and kept in the data set's folder (``revision/``).

``huggingface_hub`` fetches (going on where it broke off); if the hub cannot be reached it may hand back what lies there
already, and it compares no checksum: so we list first, and look at every file when it is there. What was verified is sealed
(:mod:`mdc.data.obtain.seals`), and neither asked for nor hashed again as long as its size and time are the same.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mdc.data.obtain.seals import known_seal, sealed
from mdc.plan.processes.lock import locked
from mdc.plan.progress import progress
from mdc.plan.records import UserError, read_json, write_json
from mdc.plan.registry.entry import Mirror

HUB = "https://huggingface.co"
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubFile:
    """A file of a repository: its path, size, and sha256 if it is stored apart (LFS), else git's own sha1 of it."""

    path: str
    bytes: int
    sha256: str | None
    git_sha1: str


def resolved(mirror: Mirror, folder: Path) -> Mirror:
    """``mirror`` at a commit. That of a branch or tag is what ``folder`` has recorded; the hub is asked where nothing is.

    Several jobs may ask at once: the first looks it up. UserError if the hub has no such revision or cannot be reached.
    """
    if _COMMIT.fullmatch(mirror.revision):
        return mirror
    place = folder / "revision"
    with locked(place, wait=True, doing="is looking up a revision"):
        path, asked = place / "commit.json", {"repo": mirror.repo, "revision": mirror.revision}
        known = read_json(path) if path.exists() else {}
        if {key: known.get(key) for key in asked} != asked:
            with _Told(mirror):
                from huggingface_hub import HfApi

                api = HfApi(endpoint=_endpoint())
                known = asked | {"commit": api.dataset_info(mirror.repo, revision=mirror.revision, expand=["sha"]).sha}
            if not _COMMIT.fullmatch(known["commit"] or ""):
                raise UserError(f"{mirror.repo}: the hub names no commit of revision {mirror.revision!r}")
            write_json(path, known)
    return replace(mirror, revision=known["commit"])


def described(mirror: Mirror, asked: str) -> dict[str, Any]:
    """What a record says of ``mirror`` at a commit; ``asked``: the revision that the scale or the registry names."""
    found = {"repo": mirror.repo, "revision": mirror.revision, "patterns": list(mirror.patterns)}
    return found if asked == mirror.revision else {**found, "asked": asked}


def fetch_mirror(
    mirror: Mirror, folder: Path, seals: Path, *, group: int = 0, groups: int = 1, workers: int = 8
) -> list[dict[str, Any]]:
    """Have the files of ``mirror`` that match its patterns in ``folder``; ``{"file", "bytes", "sha256"}`` of each.

    Of several ``groups`` number ``group`` has every ``groups``-th file, so that several jobs share a mirror. ``seals``: the
    folder that remembers what was verified. UserError if the hub cannot be reached or refuses, if a file is another one than
    listed, or the disk is full.
    """
    assert _COMMIT.fullmatch(mirror.revision), "a branch or tag is resolved first"
    files = _list(mirror)[group::groups]
    folder.mkdir(parents=True, exist_ok=True)
    _room(mirror, files, folder)
    with (
        ThreadPoolExecutor(workers) as pool,
        progress(total=sum(file.bytes for file in files), desc=mirror.repo, unit="B", unit_scale=True) as bar,
    ):
        coming = [pool.submit(_have, mirror, folder, seals, file) for file in files]
        try:
            for one in as_completed(coming):
                bar.update(one.result()["bytes"])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what is under way ends; nothing else begins
            raise
    return [one.result() for one in coming]


def _have(mirror: Mirror, folder: Path, seals: Path, file: HubFile) -> dict[str, Any]:
    """One file, fetched unless it is there; what a record says of it."""
    if not (folder / file.path).is_file():
        with _Told(mirror):
            from huggingface_hub import hf_hub_download

            hf_hub_download(
                mirror.repo,
                file.path,
                repo_type="dataset",
                revision=mirror.revision,
                local_dir=folder,
                endpoint=_endpoint(),
                tqdm_class=_Quiet,
            )
    return _verify(mirror, folder, seals, file)


class _Quiet(tqdm):
    """The library's bar for each file would write over ours, which counts them all."""

    def __init__(self, *args: Any, **more: Any) -> None:
        more.pop("name", None)  # the library's own argument
        super().__init__(*args, **{**more, "disable": True})


def _list(mirror: Mirror) -> list[HubFile]:
    with _Told(mirror):
        from huggingface_hub import HfApi
        from huggingface_hub.hf_api import RepoFile

        tree = HfApi(endpoint=_endpoint()).list_repo_tree(
            mirror.repo, repo_type="dataset", revision=mirror.revision, recursive=True
        )
        found = [
            HubFile(
                entry.path,
                entry.lfs.size if entry.lfs else entry.size,
                entry.lfs.sha256 if entry.lfs else None,
                entry.blob_id,
            )
            for entry in tree
            if isinstance(entry, RepoFile)
        ]
    for file in found:
        if file.path.startswith("/") or ".." in file.path.split("/") or "\\" in file.path:
            raise UserError(
                f"{mirror.repo}: file {file.path!r} is an absolute path or leads outside the folder; not downloaded"
            )
    # the library's own rule: the shell's patterns, where * also matches /
    wanted = [file for file in found if any(fnmatch.fnmatch(file.path, pattern) for pattern in mirror.patterns)]
    if not wanted:
        raise UserError(
            f"{mirror.repo}: none of its {len(found)} files at {mirror.revision[:12]} matches {', '.join(mirror.patterns)}"
        )
    return sorted(wanted, key=lambda file: file.path)


def _verify(mirror: Mirror, folder: Path, seals: Path, file: HubFile) -> dict[str, Any]:
    path = folder / file.path
    if not path.is_file():
        raise UserError(f"{path}: not downloaded from {mirror.repo}; rerun")
    before = known_seal(seals, path)
    seal = before or sealed(seals, path)
    good = seal["sha256"] == file.sha256 if file.sha256 else _git_sha1(path, seal["bytes"]) == file.git_sha1
    if seal["bytes"] != file.bytes or not good:
        if before is not None:
            raise UserError(
                f"{path}: complete, but {mirror.repo} has another file at {mirror.revision[:12]}; use a different path "
                "for another revision, or delete this file and rerun"
            )
        path.unlink()
        raise UserError(f"{path}: checksum mismatch with {mirror.repo}; deleted, rerun to download it again")
    return {"file": file.path, "bytes": seal["bytes"], "sha256": seal["sha256"]}


def _git_sha1(path: Path, size: int) -> str:
    """As git hashes a small file: behind a head that says how long it is."""
    sha1 = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            sha1.update(block)
    return sha1.hexdigest()


def _room(mirror: Mirror, files: list[HubFile], folder: Path) -> None:
    missing = sum(file.bytes for file in files if not (folder / file.path).exists())
    state = os.statvfs(folder)
    free = state.f_bavail * state.f_frsize
    if missing > free:
        raise UserError(f"{folder}: {mirror.repo} needs {missing} bytes, {free} are free; free some space and rerun")


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


class _Told:
    """One line instead of the library's errors, which hold addresses, request ids and advice over many lines."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror

    def __enter__(self) -> None:
        # before the library is imported, which reads them once; a user's own setting stays
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        os.environ.setdefault("HF_HUB_DISABLE_UPDATE_CHECK", "1")

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, UserError | KeyboardInterrupt | SystemExit):
            return
        from huggingface_hub import errors

        where = f"{self.mirror.repo} at {self.mirror.revision[:12]}"
        if isinstance(error, errors.GatedRepoError):
            raise UserError(f"{where}: gated dataset: accept the terms, then run `hf auth login`") from None
        if isinstance(error, errors.RepositoryNotFoundError):
            raise UserError(
                f"{where}: no such dataset repository on the hub, or it is private (run `hf auth login`)"
            ) from None
        if isinstance(error, errors.RevisionNotFoundError):
            raise UserError(f"{where}: no such commit, branch or tag in the repository") from None
        if isinstance(error, errors.HfHubHTTPError) and getattr(error, "response", None) is not None:
            raise UserError(f"{where}: HTTP {error.response.status_code} from the hub; rerun to resume") from None
        if isinstance(error, OSError) and error.errno is not None and error.strerror:
            raise UserError(f"{where}: {error.strerror}; partial download kept; rerun to resume") from None
        module = type(error).__module__.partition(".")[0]
        if module in ("httpx", "httpx2", "requests", "huggingface_hub") or isinstance(error, OSError | TimeoutError):
            raise UserError(
                f"{where}: cannot reach the hub ({type(error).__name__}); partial download kept; rerun to resume"
            ) from None
