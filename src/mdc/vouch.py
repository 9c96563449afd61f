"""The verb ``mdc vouch``: say that an edit of the code changes no result, with evidence where that is cheap.

Of every job whose record differs from what is asked now by the code alone, the old and the new fingerprint are linked in
``vouched.json`` (see :mod:`mdc.jobs.vouched`), with the reason, the date and what the golden case showed.
"""

from __future__ import annotations

import argparse
import datetime
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from mdc import golden
from mdc.config import Params, load, read_yaml
from mdc.config.yaml_core import dump_yaml
from mdc.jobs.folder import ScaleFolder
from mdc.jobs.model import PretrainJob
from mdc.jobs.plan import Plan
from mdc.jobs.vouched import FILE, Link, Vouched, read_vouched, write_vouched
from mdc.records import UserError, read_json

#: verb, old fingerprint, new one
Key = tuple[str, str, str]
Stale = dict[Key, list[str]]
#: where the package lies, in its git repository's folder src
_SOURCE = Path(golden.__file__).resolve().parents[1]
#: verbs whose golden case shows nothing of a user's own data, or that the golden scale has no job of
_NO_CASE = ("obtain", "plan-download", "download", "corpus-parts", "texts", "import-words")


def main(args: argparse.Namespace) -> None:
    """``args``: params, scale, jobs (patterns), reason, against (a git revision), anyway.

    UserError, and nothing is written, if there is nothing to vouch for, no reason, no such revision, or if the golden case
    shows that results change; ``anyway`` writes it in spite of the last two.
    """
    params = load(args.params, args.scale)
    folder = Path(args.params).parent
    before = read_vouched(folder)
    if not args.reason.strip():
        raise UserError("--reason is empty; it says in a sentence why the edit changes no result")
    place = ScaleFolder(folder / "results" / params.scale)
    stale, left = stale_by_code(params, before, place, folder / ".state" / params.scale, args.jobs or ["*"])
    if not stale:
        raise UserError(
            "no job's record differs from what is asked now by its code alone; nothing to vouch for (`mdc verify` says "
            "what is stale)"
        )
    evidence = gather(args.params, stale, args.against, before, args.anyway)
    against = list(dict.fromkeys(told for agrees, told in evidence.values() if agrees is False))
    if against and not args.anyway:
        hint = "--against names the revision before the edit, by default HEAD; --anyway writes the links"
        raise UserError(f"{'; '.join(against)}; nothing was written ({hint})")
    links = _links(stale, before, args.reason, {key: told for key, (_, told) in evidence.items()})
    write_vouched([*before.links, *links], folder)
    for link, jobs in zip(links, stale.values(), strict=True):
        change = f"{link.old[:12]}… → {link.new[:12]}…"
        print(f"{link.verb}: {change}, {_few(jobs)}; {link.evidence}")
    if left:
        print(f"made by other code than that: {_few(left)}; asked for anew")
    print(f"{FILE}: links added: {len(links)}; commit it, so that others know too")


def _few(jobs: Sequence[str]) -> str:
    more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
    return f"{', '.join(jobs[:3])}{more}"


def stale_by_code(
    params: Params, vouched: Vouched, place: ScaleFolder, states: Path, patterns: Sequence[str]
) -> tuple[Stale, list[str]]:
    """(verb, old fingerprint, new one) of the jobs that differ from their records in it alone → the jobs that it makes good.

    Of a training that was killed, its state (below ``states``) says what it was begun with. Sought at the jobs that match one
    of ``patterns``; a link holds for all jobs with this code. It makes what rests on them be asked for as before, so links are
    sought until no more are found. A code can be said to give what one other gave:
    where records were made by several, by that of most; the jobs of the rest are listed beside.
    """
    from mdc.training.state import decisive  # brings PyTorch

    found: Stale = {}
    while True:
        plan = Plan(params, Vouched((*vouched.links, *_links(found, vouched))))
        fresh: Stale = {}
        left: list[str] = []
        same: dict[str, list[str]] = {}
        for name, job in plan.jobs.items():
            done, now = _config(place.record(name, job.verb)), job.config()
            if not done and isinstance(job, PretrainJob):
                done, now = _begun(states / name), decisive(now)
            if done == now:
                same.setdefault(plan.code[name], []).append(name)
                continue
            if {**done, "fingerprint": ""} != {**now, "fingerprint": ""}:
                continue
            old, new = str(done["fingerprint"]), plan.code[name]
            if old == new or plan.vouched.oldest(new) != new:
                left.append(name)
            elif any(fnmatchcase(name, pattern) for pattern in patterns):
                fresh.setdefault((job.verb, old, new), []).append(name)
        if not fresh:
            return {key: same.get(key[2], []) for key in found}, left
        for key in sorted(fresh, key=lambda key: -len(fresh[key])):
            if key[2] not in {known for _, _, known in found}:
                found[key] = fresh[key]


def _links(stale: Stale, vouched: Vouched, reason: str = "-", told: Mapping[Key, str] | None = None) -> list[Link]:
    """A link for each of ``stale``: from the last code that is said to give what its records' gave, so that all are told."""
    today = datetime.date.today().isoformat()
    return [
        Link(
            verb=key[0],
            old=vouched.newest(key[1]),
            new=key[2],
            reason=reason,
            date=today,
            evidence=(told or {}).get(key, "-"),
        )
        for key in stale
    ]


def _config(record: Path) -> dict[str, Any]:
    """What a record was made with; nothing where there is none."""
    try:
        return dict(read_json(record)["config"])
    except (UserError, KeyError, TypeError, ValueError):
        return {}


def _begun(state: Path) -> dict[str, Any]:
    """What decides the run whose resumable state lies in a folder; nothing where there is none."""
    from safetensors import SafetensorError, safe_open

    for path in (state / "state.safetensors", state / "state.previous.safetensors"):
        try:
            with safe_open(str(path), framework="numpy") as file:
                return dict(json.loads(file.metadata()["mdc"])["owner"]["config"])
        except (OSError, SafetensorError, KeyError, TypeError, ValueError):
            continue
    return {}


def gather(
    params_file: str, stale: Stale, revision: str, vouched: Vouched, anyway: bool = False
) -> dict[Key, tuple[bool | None, str]]:
    """Of each of ``stale``, whether the golden jobs that run this code give the same with the code of ``revision`` and with
    today's, and in words.

    False also where the records were made by other code than that of ``revision``, so that it shows nothing of them. None
    where there is nothing to compare: no golden job runs this code, or the code of ``revision`` cannot do it. UserError if
    there is no such revision (``anyway``: then there is nothing to compare) or if today's code cannot do it.
    """
    cases = sorted({verb for verb, _, _ in stale if verb not in _NO_CASE})
    found: dict[Key, tuple[bool | None, str]] = dict.fromkeys(stale, (None, "no golden case"))
    if not cases:
        return found
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        values = golden.params(read_yaml(params_file))
        (folder / "params.yaml").write_text(dump_yaml(values), encoding="utf-8")
        try:
            name = _checkout(revision, folder / "old")
        except UserError as error:
            if not anyway:
                raise UserError(
                    f"{error}; --against names the revision before the edit, --anyway asks for none"
                ) from None
            return dict.fromkeys(stale, (None, f"no golden case: {error}"))
        try:
            old = _run(folder / "old/src", folder, "before", cases)
        except UserError as error:
            return dict.fromkeys(stale, (None, f"no golden case: {error}"))
        new = _run(_SOURCE, folder, "after", cases)
    for key in stale:
        if key[0] in cases:
            found[key] = _compare(key, old, new, name, vouched)
    return found


def _compare(
    key: Key, old: Mapping[str, Any], new: Mapping[str, Any], revision: str, vouched: Vouched
) -> tuple[bool | None, str]:
    """The evidence for one link: of the golden jobs that run its code, and of no others."""
    verb, records, today = key
    running = [job for job in new if (new[job]["verb"], new[job]["fingerprint"]) == (verb, today)]
    jobs = [job for job in running if job in old and vouched.oldest(old[job]["fingerprint"]) == records]
    case = f"golden case of {verb}"
    if not running:
        return None, f"no golden case: no job of {verb} in it runs this code"
    if not jobs:
        return False, f"{case}: the records were made by other code than that of {revision}"
    files = [(job, name) for job in jobs for name in {**old[job]["outputs"], **new[job]["outputs"]}]
    hashes = [tuple(side[job]["outputs"].get(name) for side in (old, new)) for job, name in files]
    differing = ["/".join(file) for file, (before, after) in zip(files, hashes, strict=True) if before != after]
    if differing:
        return False, f"{case}: results change: {len(differing)} of {len(files)} files differ, as {differing[0]}"
    # the code of a revision before this was told says nothing of it
    retold = [job for job in jobs if "told" in old[job] and old[job]["told"] != new[job]["told"]]
    if retold:
        return False, f"{case}: results change: the record of {retold[0]} tells something else"
    return True, f"{case}: {len(files)} files of {len(jobs)} jobs equal to those of {revision}"


def _checkout(revision: str, folder: Path) -> str:
    """The package's source at a git revision, in ``folder``/src; the revision's short name. UserError if it is none."""
    try:
        short = _git("rev-parse", "--short", "--verify", f"{revision}^{{commit}}").decode().strip()
        archive = _git("archive", "--format=tar", short, "src/mdc")
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        raise UserError(f"{revision}: git cannot give its code ({said.decode(errors='replace').strip()})") from None
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            # by hand, as the filter of extractall is missing in Python before 3.11.4, and paths in archives are not trusted
            path, file = PurePosixPath(member.name), tar.extractfile(member) if member.isfile() else None
            if file is not None and not path.is_absolute() and ".." not in path.parts:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(file.read())
    return short


def _git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(_SOURCE.parent), *words], capture_output=True, check=True).stdout


def _run(source: Path, folder: Path, name: str, verbs: list[str]) -> dict[str, Any]:
    """What the golden case gives with the package at ``source``. UserError if it fails."""
    command = [sys.executable, "-m", "mdc.golden", str(folder / "params.yaml"), str(folder / name), *verbs]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UserError(f"it failed with the code {name} the edit ({last})")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
