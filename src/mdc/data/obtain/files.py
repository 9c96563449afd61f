"""The published files of a dataset: fetched, verified, unpacked; nothing twice."""

import hashlib
import time
from pathlib import Path
from typing import Any

from mdc.data.obtain.archives import load_unpack_record, unpack_beside
from mdc.data.obtain.transfers.http import BrokenOff, Part, fetch_part
from mdc.plan.records import UserError, sha256_file
from mdc.plan.registry.entry import RegistryEntry, RemoteFile

TIMEOUT = 60.0  # seconds without a byte
ATTEMPTS = 4  # each resumes the one before
PAUSE = 2.0  # seconds before the second attempt, twice as long before each later one
ARCHIVES = "archives"


def fetch_list(entry: RegistryEntry, folder: Path) -> list[dict[str, Any]]:
    """Fetch the list of URLs of ``entry`` into ``folder``/list; the record of its files.

    A list that only the user can get has to be there already; it is hashed.
    """
    if entry.list_mirror is not None:
        from mdc.data.obtain.hub import fetch_mirror

        # sealed where the plan looks for them, so that a list of hundreds of gigabytes is hashed once
        files = fetch_mirror(entry.list_mirror, folder / "list", folder / "plan" / "list")
        return [{**file, "file": f"list/{file['file']}"} for file in files]
    if entry.list_files:
        return [obtain_file(file, folder) for file in entry.list_files]
    present = [needed for needed in entry.needs if (folder / needed).is_file()]
    return [{"file": needed, **_verified(RemoteFile(needed, ""), folder / needed)[0]} for needed in present]


def obtain_file(file: RemoteFile, folder: Path) -> dict[str, Any]:
    """Fetch ``file`` into ``folder``, and unpack it if it is an archive; its record.

    An archive whose unpacked files are all there is neither fetched nor unpacked again.
    """
    if file.unpack is None:
        place = f"{file.into}/{file.name}" if file.into else file.name
        return {"file": place, **fetch(file, folder / place)}
    place = f"{ARCHIVES}/{file.name}"
    record = load_unpack_record(file, folder)
    if record is None:
        record = unpack_beside(file, folder / place, folder, fetch(file, folder / place))
    return {"file": place, **record}


def fetch(file: RemoteFile, target: Path) -> dict[str, Any]:
    """``{"bytes", "sha256"}`` of ``file`` at ``target``, fetched unless it is there.

    The target is written only after its size and checksums are verified. UserError if they differ from the published ones, if
    another file is at ``target``, and for every failure of the transfer.
    """
    if target.exists():
        digests, wrong = _verified(file, target)
        if wrong:
            raise UserError(f"{target}: {wrong}; not the published file: move it away and rerun")
        return digests
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Part(target.with_name(f".{target.name}.part"))
    for attempt in range(1, ATTEMPTS + 1):
        try:
            fetch_part(file.url, part, file.bytes, TIMEOUT)
            break
        except BrokenOff as error:
            if attempt == ATTEMPTS:
                kept = f"{part.size} bytes kept; rerun to resume" if part.size else "nothing was received"
                raise UserError(f"{file.name}: download from {file.url} failed: {error}; {kept}") from None
            time.sleep(PAUSE * 2 ** (attempt - 1))
    digests, wrong = _verified(file, part.path)
    if wrong:
        part.remove()
        raise UserError(f"{file.name}: downloaded from {file.url}: {wrong}; deleted")
    if file.sha256 is None and file.md5 is None and _is_page(part.path):
        part.remove()
        raise UserError(
            f"{file.name}: {file.url} returned a web page instead of the file; download it in a browser and save it as {target}"
        )
    part.path.replace(target)
    part.remove()
    return digests


def _verified(file: RemoteFile, path: Path) -> tuple[dict[str, Any], str]:
    """Size and sha256 of the file at ``path``, and the difference from the published ones in words, or ""."""
    size = path.stat().st_size
    if file.bytes is not None and size != file.bytes:
        return {}, f"{size} bytes, expected {file.bytes}"
    digests = {"bytes": size, "sha256": sha256_file(path)}
    if file.sha256 not in (None, digests["sha256"]):
        return digests, f"sha256 {digests['sha256']}, expected {file.sha256}"
    if file.md5 is not None:
        with path.open("rb") as handle:
            md5 = hashlib.file_digest(handle, "md5").hexdigest()
        if md5 != file.md5:
            return digests, f"md5 {md5}, expected {file.md5}"
    return digests, ""


def _is_page(path: Path) -> bool:
    """Whether it is a web page: hosts answer with one, and status 200, for confirmation or over a download quota."""
    with path.open("rb") as handle:
        start = handle.read(512).lstrip().lower()
    return start.startswith((b"<!doctype html", b"<html"))
