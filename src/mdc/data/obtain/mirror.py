"""A dataset as ready shards from the Hugging Face hub: which repository, and its files as one job or several fetch them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mdc.data.obtain.checks import Finding, demand, run_checks
from mdc.data.obtain.hub import described, fetch_mirror, resolved
from mdc.plan.processes.lock import locked
from mdc.plan.records import UserError
from mdc.plan.registry.entry import Mirror, RegistryEntry


def from_mirror(config: Mapping[str, Any], entry: RegistryEntry | None, folder: Path) -> dict[str, Any]:
    """All files of the mirror in ``folder``; what ``obtained.json`` says of them. The caller holds the folder's lock."""
    asked, own = mirror_of(config, entry), bool(config["dataset"].get("mirror"))
    mirror = resolved(asked, folder)
    files = _fetched(mirror, folder)
    # counts hold for the registry's own repository and commit
    checks: list[Finding] = [] if entry is None or own else run_checks(entry, folder, "mirror")
    return {
        "files": files,
        "checks": demand(config["name"], folder, checks),
        "mirror": described(mirror, asked.revision),
    }


def fetch_group(
    config: Mapping[str, Any], entry: RegistryEntry | None, folder: Path, group: int, groups: int
) -> dict[str, Any]:
    """The files ``group``, ``group`` + ``groups``, … of the mirror's listing. Other groups may do the same beside it."""
    asked = mirror_of(config, entry)
    mirror = resolved(asked, folder)
    own = folder / "groups" / f"{group}-of-{groups}"
    with (
        locked(folder, doing="is filling this folder", shared=True),
        locked(own, doing="is fetching this group"),
    ):
        return {"files": _fetched(mirror, folder, group, groups), "mirror": described(mirror, asked.revision)}


def _fetched(mirror: Mirror, folder: Path, group: int = 0, groups: int = 1) -> list[dict[str, Any]]:
    files = fetch_mirror(mirror, folder / "mirror", folder / "seals", group=group, groups=groups)
    return [{**file, "file": f"mirror/{file['file']}"} for file in files]


def mirror_of(config: Mapping[str, Any], entry: RegistryEntry | None) -> Mirror:
    """The registry's mirror, with what the scale puts in its place. UserError if something is missing."""
    given = {key: value for key, value in (config["dataset"].get("mirror") or {}).items() if value is not None}
    if "patterns" in given:
        given["patterns"] = tuple(given["patterns"])
    if entry is not None and entry.mirror is not None:
        return replace(entry.mirror, **given)
    missing = [key for key in ("repo", "revision", "patterns") if not given.get(key)]
    if missing:
        raise UserError(f"data.datasets.{config['name']}.mirror: lacks {', '.join(missing)}")
    return Mirror(**given)
