"""The job ``mdc obtain``: fetch one dataset into the data folder, from where ``datasets.<name>.from`` says.

Writes ``obtained.json`` (what was obtained, and the results of its checks) and ``made.json`` (the job's configuration and the
versions). Equal files give equal bytes.
"""

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
    record = obtain(config, data_folder())
    packages = record.pop("versions", {})  # of packages that only some origins use
    written = call.out / RECORD
    write_json(written, {"kind": "obtained", **head(call), "from": way(config), **record})
    write_made(call, [written], packages)


def head(call: Call) -> dict[str, Any]:
    """The first keys of the records of all jobs that obtain."""
    config = call.job.complete()
    return {"id": config["job"], "name": config["name"], "path": config["dataset"]["path"]}


def with_runtime(config: dict[str, Any], runtime: Path | None) -> dict[str, Any]:
    """The configuration of a job that downloads from URLs, with its runtime settings. UserError if they are missing."""
    if runtime is None:
        raise UserError(f"{config['job']}: --runtime is missing; a list of URLs cannot be downloaded without")
    settings = checked(DownloadRuntime, read_json(runtime), runtime)
    return {**config, "download": config["download"] | settings.model_dump(mode="json")}


def way(config: Mapping[str, Any]) -> str:
    """Where the dataset comes from: urls, mirror or files. UserError if it cannot be obtained from there."""
    dataset = Dataset.model_validate(config["dataset"])
    try:
        check_obtainable(config["name"], dataset)
    except ValueError as error:
        raise UserError(f"data.{error}") from None
    return origin_of(config["name"], dataset)


def obtain(config: dict[str, Any], data_dir: Path) -> dict[str, Any]:
    """Fetch the dataset to ``data_dir``/path; the content of ``obtained.json`` after its head."""
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
    """Fetch the registry's list. The configuration with the list's columns; and the record of the list: its files and checks, and
    its commit if it is on the hub."""
    if (config["dataset"].get("list") or {}).get("path"):
        return _with_columns(config, entry), {}
    assert entry is not None  # way() requires the path of a list that is not the registry's
    from mdc.data.obtain.files import fetch_list

    own_copy(entry, folder)
    record: dict[str, Any] = {}
    with locked(folder, doing=_DOING):
        if entry.list_mirror is not None:
            from mdc.data.obtain.hub import described, resolved

            revision = (config["dataset"].get("list") or {}).get("revision") or entry.list_mirror.revision
            mirror = resolved(replace(entry.list_mirror, revision=revision), folder)
            entry, record["list_mirror"] = replace(entry, list_mirror=mirror), described(mirror, revision)
        record["files"] = fetch_list(entry, folder)
    record["checks"] = require(entry.name, folder, run_checks(entry, folder, "urls"))
    return {**config, "dataset": {**config["dataset"], "list": None}}, record


def _with_columns(config: dict[str, Any], entry: RegistryEntry | None) -> dict[str, Any]:
    """The registry's columns for a user's own copy of its list, unless the scale names others. Its hashes are read only if the
    scale names their column: a copy need not have it."""
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
    if wanted:  # a user's own copy without additions may be read-only
        with locked(folder, doing=_DOING):
            files = [obtain_file(file, folder) for file in wanted]
    return {"files": files, "checks": require(entry.name, folder, run_checks(entry, folder, "files", parts))}


def chosen_parts(entry: RegistryEntry, dataset: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts that ``datasets.<name>.parts`` names, all by default."""
    requested = dataset.get("parts")
    return entry.parts if requested is None else tuple(part for part in entry.parts if part in requested)


def own_copy(entry: RegistryEntry, folder: Path) -> None:
    """UserError if files that the user has to get are missing: what to get, and where to put it."""
    for needed in entry.needs:
        if not (folder / needed).exists():
            advice = entry.own_copy.format(path=folder, name=entry.name)
            raise UserError(f"{folder / needed}: missing; {entry.label} cannot be fetched: {advice}")
