"""The job ``mdc obtain``: one dataset brought into the data folder, from where ``datasets.<name>.from`` says.

Writes ``obtained.json``, which says what was obtained and what its files showed, and beside it ``made.json``, which says
what the job was asked and by which versions it was done. Equal files give equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mdc.data.obtain.checks import require, run_checks
from mdc.plan.config.data import Dataset, DownloadRuntime, check_obtainable, origin_of
from mdc.plan.config.problems import checked
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call, write_made
from mdc.plan.processes.lock import locked
from mdc.plan.records import UserError, read_json, write_json
from mdc.plan.registry.datasets import REGISTRY, find
from mdc.plan.registry.entry import RegistryEntry

RECORD = "obtained.json"
_DOING = "is filling this folder"


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.ObtainJob`; ``call.runtime`` is needed for a list of URLs."""
    config = call.job.complete()
    if config["download"] is not None:
        config = with_runtime(config, call.runtime)
    found = obtain(config, data_folder())
    packages = found.pop("versions", {})  # that a way uses besides
    written = call.out / RECORD
    write_json(written, {"kind": "obtained", **head(call), "from": way(config), **found})
    write_made(call, [written], packages)


def head(call: Call) -> dict[str, Any]:
    """What the manifests of all jobs that obtain begin with."""
    config = call.job.complete()
    return {"id": config["job"], "name": config["name"], "path": config["dataset"]["path"]}


def with_runtime(config: dict[str, Any], runtime: Path | None) -> dict[str, Any]:
    """The configuration of a job that downloads from URLs, with how it is to proceed. UserError if nobody says so."""
    if runtime is None:
        raise UserError(f"{config['job']}: --runtime is missing; a list of URLs cannot be downloaded without")
    told = checked(DownloadRuntime, read_json(runtime), runtime)
    return {**config, "download": config["download"] | told.model_dump(mode="json")}


def way(config: Mapping[str, Any]) -> str:
    """Where the dataset comes from: urls, mirror or files. UserError if it cannot be obtained so."""
    dataset = Dataset.model_validate(config["dataset"])
    try:
        check_obtainable(config["name"], dataset)
    except ValueError as error:
        raise UserError(f"data.{error}") from None
    return origin_of(config["name"], dataset)


def obtain(config: dict[str, Any], data_dir: Path) -> dict[str, Any]:
    """Bring the dataset to ``data_dir``/path; what ``obtained.json`` says about it besides its head."""
    chosen, entry = way(config), REGISTRY.get(config["name"])
    folder = data_dir / config["dataset"]["path"]
    if chosen == "files":
        return _from_files(config, folder)
    if chosen == "mirror":
        from mdc.data.obtain.hub import from_mirror

        with locked(folder, doing=_DOING):
            return from_mirror(config, entry, folder)
    from mdc.data.obtain.urls import obtain as obtain_urls

    config, listed = with_list(config, entry, folder)
    return {**obtain_urls(config, entry, data_dir), **listed}


def with_list(
    config: dict[str, Any], entry: RegistryEntry | None, folder: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The configuration with the list's columns, the list itself being there now; the files and checks of the registry's, and
    the commit that it is of if it is on the hub."""
    if (config["dataset"].get("list") or {}).get("path"):
        return _with_columns(config, entry), {}
    assert entry is not None  # way() asks for the path of a list that is not the registry's
    from mdc.data.obtain.files import fetch_list

    own_copy(entry, folder)
    found: dict[str, Any] = {}
    with locked(folder, doing=_DOING):
        if entry.list_mirror is not None:
            from mdc.data.obtain.hub import described, resolved

            asked = (config["dataset"].get("list") or {}).get("revision") or entry.list_mirror.revision
            mirror = resolved(replace(entry.list_mirror, revision=asked), folder)
            entry, found["list_mirror"] = replace(entry, list_mirror=mirror), described(mirror, asked)
        found["files"] = fetch_list(entry, folder)
    found["checks"] = require(entry.name, folder, run_checks(entry, folder, "urls"))
    return {**config, "dataset": {**config["dataset"], "list": None}}, found


def _with_columns(config: dict[str, Any], entry: RegistryEntry | None) -> dict[str, Any]:
    """A user's own copy of a list that the registry knows has its columns, unless the scale names others. Its hashes are read
    only if the scale names their column: a copy need not have it."""
    own = {key: value for key, value in config["dataset"]["list"].items() if value is not None}
    known = asdict(entry.list_columns) if entry is not None and entry.list_columns is not None else {}
    known.pop("hash_column", None)
    return {**config, "dataset": {**config["dataset"], "list": known | own}}


def _from_files(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    from mdc.data.obtain.files import obtain_file

    entry, dataset = find(config["name"]), config["dataset"]
    parts = chosen_parts(entry, dataset)
    own_copy(entry, folder)
    wanted = [file for file in entry.files if not file.part or file.part in parts]
    files = []
    if wanted:  # nothing is written into a user's own copy to which nothing is added: it may be read-only
        with locked(folder, doing=_DOING):
            files = [obtain_file(file, folder) for file in wanted]
    return {"files": files, "checks": require(entry.name, folder, run_checks(entry, folder, "files", parts))}


def chosen_parts(entry: RegistryEntry, dataset: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts that ``datasets.<name>.parts`` asks for, all by default."""
    asked = dataset.get("parts")
    return entry.parts if asked is None else tuple(part for part in entry.parts if part in asked)


def own_copy(entry: RegistryEntry, folder: Path) -> None:
    """UserError that says what the user has to get, and where to put it, if it is not there."""
    for needed in entry.needs:
        if not (folder / needed).exists():
            told = entry.own_copy.format(path=folder, name=entry.name)
            raise UserError(f"{folder / needed}: missing; {entry.label} cannot be fetched: {told}")
