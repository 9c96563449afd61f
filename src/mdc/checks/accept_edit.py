"""The verb ``mdc accept-edit``: say that an edit of the code changes no result, so that nothing reruns.

For every job whose record differs from its current configuration by the code fingerprint alone, the old and the new fingerprint
are written to ``accepted_edits.json`` (see :mod:`mdc.plan.jobs.accepted`), with the reason and the date.
"""

import argparse
import datetime
import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mdc.checks.chain import read
from mdc.plan.config.params import Params
from mdc.plan.config.read import load
from mdc.plan.jobs.accepted import FILE, Accepted, Edit, read_accepted, write_accepted
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError

#: (verb, old fingerprint, new fingerprint) → the jobs that this edit makes current again
Stale = dict[tuple[str, str, str], list[str]]


def main(args: argparse.Namespace) -> None:
    """``args``: params, scale, jobs (patterns), reason. UserError, and nothing is written, without a reason or a stale job."""
    params = load(args.params, args.scale)
    folder = Path(args.params).parent
    before = read_accepted(folder)
    if not args.reason.strip():
        raise UserError("--reason is empty; it says in a sentence why the edit changes no result")
    results = ScaleFolder(folder / "results" / params.scale)
    stale, left = stale_by_code(params, before, results, folder / ".state" / params.scale, args.jobs or ["*"])
    if not stale:
        raise UserError(
            "no job's record differs from what is asked for now by its code alone; no edit to accept (`mdc verify` says "
            "what is stale)"
        )
    edits = _edits(stale, before, args.reason)
    write_accepted([*before.edits, *edits], folder)
    for edit, jobs in zip(edits, stale.values(), strict=True):
        print(f"{edit.verb}: {edit.old[:12]}… → {edit.new[:12]}…, {_few(jobs)}")
    if left:
        print(f"made by other code than most, so they will rerun: {_few(left)}")
    print(f"{FILE}: edits added: {len(edits)}; commit the file")


def _few(jobs: Sequence[str]) -> str:
    more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
    return f"{', '.join(jobs[:3])}{more}"


def stale_by_code(
    params: Params, accepted: Accepted, folder: ScaleFolder, states: Path, patterns: Sequence[str]
) -> tuple[Stale, list[str]]:
    """The edits for jobs that differ from their records by the code alone, and the jobs that no edit covers.

    An interrupted training has no record yet; its state (below ``states``) holds the configuration it started with. Only jobs
    that match one of ``patterns`` are considered; an edit applies to all jobs with this code. Accepting an edit changes the
    hashes of later jobs, so the search repeats until it finds none. If records were made by several old codes, the most frequent
    one is accepted.
    """
    from mdc.training.state import decisive  # imports PyTorch

    accepted_now: Stale = {}
    while True:
        plan = Plan(params, Accepted((*accepted.edits, *_edits(accepted_now, accepted))))
        fresh: Stale = {}
        left: list[str] = []
        unchanged: dict[str, list[str]] = {}
        for name, job in plan.jobs.items():
            done, now = read(folder.record(name, job.verb)).get("config"), job.config()
            if not done and isinstance(job, PretrainJob):
                done, now = _begun(states / name), decisive(now)
            if not isinstance(done, dict):
                continue
            if done == now:
                unchanged.setdefault(plan.code[name], []).append(name)
                continue
            if {**done, "fingerprint": ""} != {**now, "fingerprint": ""}:
                continue
            old, new = str(done["fingerprint"]), plan.code[name]
            if old == new or plan.accepted.oldest(new) != new:
                left.append(name)
            elif any(fnmatchcase(name, pattern) for pattern in patterns):
                fresh.setdefault((job.verb, old, new), []).append(name)
        if not fresh:
            return {key: unchanged.get(key[2], []) for key in accepted_now}, left
        for key in sorted(fresh, key=lambda key: -len(fresh[key])):
            if key[2] not in {known for _, _, known in accepted_now}:
                accepted_now[key] = fresh[key]


def _edits(stale: Stale, accepted: Accepted, reason: str = "-") -> list[Edit]:
    """Each starts from the latest code accepted as equal to the records' code, so that earlier reasons are shown too."""
    today = datetime.date.today().isoformat()
    return [Edit(verb=verb, old=accepted.newest(old), new=new, reason=reason, date=today) for verb, old, new in stale]


def _begun(state: Path) -> dict[str, Any]:
    """The configuration in the latest resumable state below a folder; empty if there is none."""
    from safetensors import SafetensorError, safe_open

    for path in sorted(state.glob("*/state*.safetensors"), key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            with safe_open(str(path), framework="numpy") as file:
                return dict(json.loads(file.metadata()["mdc"])["owner"]["config"])
        except (OSError, SafetensorError, KeyError, TypeError, ValueError):
            continue
    return {}
