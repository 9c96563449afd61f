"""A data set published as a list of URLs: downloaded shard by shard, with an outcome for every row.

Under the data set's folder: ``list/`` (the list), ``plan/`` (the rows to request, in order), ``shards/`` (img2dataset's tars,
with a parquet file and stats beside each), ``accounts/`` (the outcomes of each shard). An interrupted run is resumed: every
complete shard is kept.
"""

import fcntl
import fnmatch
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from mdc.data.obtain.accounts import account_file, read_account, remove_shard, repeated_images, summary
from mdc.data.obtain.orders import DISK, NETWORK, worker_lock
from mdc.data.obtain.plan import PLAN, make_plan
from mdc.data.obtain.reasons import NOT_CHOSEN, OBTAINED
from mdc.data.obtain.url_list import Columns, columns_of, list_files
from mdc.data.obtain.workers import download
from mdc.plan.processes.lock import locked
from mdc.plan.progress import progress
from mdc.plan.records import UserError, clear_leftovers, read_json, sha256_file
from mdc.plan.registry.entry import RegistryEntry

_DOING, _DOING_GROUP = "is downloading into this folder", "is downloading this group"
_ROUNDS = 2  # a failed shard is retried once, after all others


def obtain(config: Mapping[str, Any], entry: RegistryEntry | None, data_dir: Path) -> dict[str, Any]:
    """Download what is missing, and return the summary of the whole: a part of ``obtained.json``.

    ``config`` has ``dataset`` {path, list, subset} and ``download``; ``entry`` is the registry's, or None for a list of the
    user's own. ``rows`` of the list = ``chosen`` + all of ``left_out``; ``outcomes`` add up to ``chosen``. ``repeats`` and
    ``listed_sha256`` (see :mod:`mdc.data.obtain.accounts`) leave nothing out. UserError for a list or a folder that does not fit,
    a full disk, and shards that could not be completed.
    """
    folder = data_dir / config["dataset"]["path"]
    with locked(folder, doing=_DOING):
        plan = _planned(config, entry, data_dir)
        result = summary(_shards(folder, plan, config["download"], range(len(plan["parts"])), folder))
        result["repeats"] = repeated_images(folder, len(plan["parts"]))
    _report(folder, plan, result)
    return {
        "list": {"files": plan["asked"]["list"], "columns": plan["asked"]["columns"], "rows": plan["rows"]},
        "subset": plan["asked"]["subset"],
        "rows": plan["rows"],
        "left_out": plan["left_out"],
        "chosen": plan["chosen"],
        **result,
        "versions": package_versions(),
    }


def package_versions() -> dict[str, str]:
    """The versions of the packages that download."""
    return {name: metadata.version(name) for name in ("img2dataset", "webdataset")}


def plan_download(config: Mapping[str, Any], entry: RegistryEntry | None, data_dir: Path) -> dict[str, Any]:
    """Plan the download without starting it; the plan's record. Errors as ``obtain``."""
    with locked(data_dir / config["dataset"]["path"], doing=_DOING):
        return _planned(config, entry, data_dir)


def download_group(
    config: Mapping[str, Any], data_dir: Path, plan_sha256: str, group: int, groups: int
) -> dict[str, Any]:
    """Download the parts ``group``, ``group`` + ``groups``, … of the plan with this hash; their summary.

    Groups of one number may run at the same time, also on other machines, but not beside ``obtain``. UserError if groups of
    another number are running, or if the plan was rebuilt, otherwise as ``obtain``.
    """
    folder = data_dir / config["dataset"]["path"]
    own = folder / "groups" / f"{group}-of-{groups}"
    with locked(folder, doing=_DOING, shared=True), locked(own, doing=_DOING_GROUP):
        for other in own.parent.glob("*-of-*"):
            if not other.name.endswith(f"-of-{groups}"):  # it has some of the same parts
                with locked(other, doing=_DOING_GROUP, shared=True), worker_lock(other, fcntl.LOCK_EX):
                    pass
        place = folder / "plan" / PLAN
        if not place.is_file() or sha256_file(place) != plan_sha256:
            raise UserError(f"{place}: missing or rebuilt since this job was planned; plan the dataset again")
        plan = read_json(place)
        return summary(_shards(folder, plan, config["download"], range(group, len(plan["parts"]), groups), own))


def _planned(config: Mapping[str, Any], entry: RegistryEntry | None, data_dir: Path) -> dict[str, Any]:
    dataset = config["dataset"]
    folder = data_dir / dataset["path"]
    columns, place = _list_of(dataset, entry, folder, data_dir)
    files = [file for file in list_files(place, columns) if not _is_own(file, folder)]
    if entry is not None and not (dataset.get("list") or {}).get("path"):
        files = _published(files, place, entry)
    if not files:
        raise UserError(f"{place}: contains no list besides what was downloaded; put the list there, or set list.path")
    try:
        return make_plan(folder, files, columns, dataset.get("subset"), config["download"])
    except OSError as error:
        raise UserError(_cannot_write(folder, str(error.strerror or error), "complete shards will be kept")) from None


def _list_of(
    dataset: Mapping[str, Any], entry: RegistryEntry | None, folder: Path, data_dir: Path
) -> tuple[Columns, Path]:
    """The list's columns and path: the scale's, otherwise the registry's."""
    described = dataset.get("list")
    if described is None:
        assert entry is not None and entry.list_columns is not None, (
            "a dataset without list columns needs a list in the scale"
        )
        described = asdict(entry.list_columns)
    path = described.get("path")
    return columns_of(described), folder / "list" if path is None else data_dir / path


def _is_own(file: Path, folder: Path) -> bool:
    """Whether a download wrote ``file``: a list may be anywhere, also in the data set's own folder."""
    return any(file.is_relative_to(folder / name) for name in ("plan", "shards", "accounts", "groups"))


def _published(files: list[Path], place: Path, entry: RegistryEntry) -> list[Path]:
    """The files in ``place`` that are the registry's list: a validation split may be beside it."""
    names = [*entry.needs, *(f"{file.into}/{file.name}" for file in entry.list_files)]
    patterns = [name.removeprefix("list/") for name in names]
    patterns += entry.list_mirror.patterns if entry.list_mirror is not None else ()
    wanted = [
        file for file in files if any(fnmatch.fnmatch(str(file.relative_to(place)), pattern) for pattern in patterns)
    ]
    if not wanted:
        raise UserError(
            f"{place}: contains none of the registry's files ({', '.join(patterns)}); put them there, or set list.path"
        )
    return wanted


def _shards(
    folder: Path, plan: Mapping[str, Any], settings: Mapping[str, Any], numbers: range, lock_folder: Path
) -> list[dict[str, Any]]:
    """The accounts of these shards; missing ones are downloaded. ``lock_folder``: the folder whose lock the workers hold."""
    settings = {**settings, "folder": str(folder.resolve()), "lock_folder": str(lock_folder.resolve())}
    parts: dict[int, dict[str, Any]] = {number: plan["parts"][number] for number in numbers}
    accounts: dict[int, dict[str, Any]] = {}
    try:
        with worker_lock(lock_folder, fcntl.LOCK_EX):
            pass  # the workers of a run that was killed are gone
        (folder / "shards").mkdir(parents=True, exist_ok=True)
        for shard, part in parts.items():
            clear_leftovers(folder / "accounts", f"{shard:05d}.json")
            (folder / "shards" / f".rows-{shard:05d}.arrow").unlink(missing_ok=True)
            if account := read_account(folder, shard, part):
                accounts[shard] = account
        pending = [shard for shard in parts if shard not in accounts]
        if not accounts and sum(account_file(folder, shard).exists() for shard in pending) > 1:
            raise UserError(
                f"{folder}: its shards are of another plan, perhaps an earlier version's: put back its plan/, or delete "
                "shards/ and accounts/ to download everything again"
            )
        for shard in pending:
            remove_shard(folder, shard)
        _download(folder, parts, settings, accounts)
    except OSError as error:
        raise UserError(_cannot_write(folder, str(error.strerror or error), "complete shards will be kept")) from None
    return [accounts[shard] for shard in parts]


def _download(
    folder: Path,
    parts: Mapping[int, Mapping[str, Any]],
    settings: Mapping[str, Any],
    accounts: dict[int, dict[str, Any]],
) -> None:
    """Add the missing accounts. UserError if a shard stays incomplete."""
    troubles: dict[int, str] = {}
    with progress(total=sum(part["rows"] for part in parts.values()), desc=folder.name, unit="row") as bar:
        bar.update(sum(account["rows"] for account in accounts.values()))
        # a pair of an earlier run shows that the network works
        connected, silent = any(account["reasons"].get("") for account in accounts.values()), 0
        for _ in range(_ROUNDS):
            orders = [(shard, part) for shard, part in parts.items() if shard not in accounts]
            for answer in download(settings, orders, trust_network_errors=connected):
                done = f"{len(accounts)} of {len(parts)} shards are complete and will be kept"
                if answer.kind == DISK:
                    raise UserError(_cannot_write(folder, answer.trouble, done))
                connected, silent = connected or not answer.trouble, silent + 1 if answer.kind == NETWORK else 0
                # a whole shard may be of one dead host: a few without a response are accepted where others answered
                if silent > (2 * settings["processes"] if connected else 0):
                    raise UserError(f"{folder}: shard {answer.shard:05d}: {answer.trouble}. {done}; rerun to resume")
                account = None if answer.trouble else read_account(folder, answer.shard, parts[answer.shard])
                if account is None:
                    troubles[answer.shard] = answer.trouble or "its account is missing"
                else:
                    accounts[answer.shard] = account
                    bar.update(account["rows"])
    if missing := [shard for shard in parts if shard not in accounts]:
        raise UserError(
            f"{folder}: {len(missing)} of {len(parts)} shards are incomplete after {_ROUNDS} tries (shard {missing[0]:05d}: "
            f"{troubles.get(missing[0], 'no worker process was left')}); complete shards will be kept; rerun to resume"
        )


def _cannot_write(folder: Path, why: str, done: str) -> str:
    free = shutil.disk_usage(folder).free // 2**20
    return f"{folder}: cannot be written ({why}; {free} MiB free); {done}: free some space, then rerun"


def _report(folder: Path, plan: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Print the summary on standard error."""
    chosen, obtained = plan["chosen"], result["outcomes"][OBTAINED]
    left_out = {reason: count for reason, count in plan["left_out"].items() if reason != NOT_CHOSEN}
    lines = [
        f"{folder}: {obtained} of {chosen} pairs obtained ({obtained / chosen:.1%}), {plan['rows']} rows in the list",
        *(f"  {count:>10}  {outcome}" for outcome, count in result["outcomes"].items() if count),
        *(f"  {count:>10}  left out before: {reason}" for reason, count in left_out.items()),
        *_hash_lines(result),
        "  reasons:" if result["reasons"] else "",
        *(f"  {count:>10}  {reason}" for reason, count in sorted(result["reasons"].items(), key=lambda item: -item[1])),
    ]
    print("\n".join(line for line in lines if line), file=sys.stderr, flush=True)


def _hash_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """The results of the images' hashes, by which nothing is left out."""
    listed, repeats = result.get("listed_sha256"), result["repeats"]
    if listed:
        yield f"  {listed['different']:>10}  obtained with another sha256 than the list has, of {listed['compared']} compared"
    if repeats["pairs"]:
        often = f"the most frequent {repeats['most']} times, sha256 {repeats['sha256'][:12]}…"
        yield f"  {repeats['pairs']:>10}  obtained again: the same image bytes as an earlier pair ({often})"
