"""A whole project as small as it goes, done by the real jobs in one process within seconds: the golden case of every verb.

`mdc vouch` runs it with the code before an edit and with the code after it, and compares what came out by hash. The tests
build on it too. Called as ``python -m mdc.golden PARAMS FOLDER VERB…`` it does every job up to those verbs and prints
{job: {"verb": …, "fingerprint": …, "outputs": {file: sha256}, "told": sha256}} of the jobs of these verbs as JSON, where
``told`` is of what a record tells besides. There every job is done as if its code were ``CODE``: weights name their
configuration, which names the code, so other code never gave equal bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mdc.config import load
from mdc.golden_scale import RUNTIME
from mdc.golden_scale import SCALE as SCALE
from mdc.golden_scale import scale as scale
from mdc.jobs.call import Call
from mdc.jobs.folder import ScaleFolder
from mdc.jobs.plan import Plan
from mdc.jobs.read import read_job
from mdc.jobs.vouched import Vouched
from mdc.records import json_text, read_json, sha256_json, write_text, write_text_if_changed
from mdc.verbs import VERBS
from mdc.work import do

CODE = "0" * 64
#: of a record, what says how it was asked for, not what came out
_NAMED = ("config", "config_sha256", "inputs", "outputs", "versions")


def params(values: dict[str, Any], seeds: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """``values``, a whole parameter file's, with the golden scale as the only one, and few resamples."""
    statistics = {**values["protocol"]["statistics"], "bootstrap": 250}
    protocol = {**values["protocol"], "statistics": statistics}
    return {**values, "scale": SCALE, "protocol": protocol, "scales": {SCALE: scale(seeds)}}


def make(plan: Plan, root: Path, verbs: tuple[str, ...] = tuple(VERBS)) -> None:
    """Do every job of ``plan`` that a job of ``verbs`` is or rests on, in ``root``/results, as the workflow would."""
    wanted = [name for name, job in plan.jobs.items() if job.verb in verbs]
    needed = set(wanted).union(*(plan.behind(name) for name in wanted)) if wanted else set()
    do_jobs(plan, root, [name for name in plan.jobs if name in needed])


def do_jobs(plan: Plan, root: Path, names: Sequence[str]) -> None:
    """Do the jobs of these names alone, in this order."""
    folder = ScaleFolder(root / "results" / plan.params.scale)
    runtime = root / "runtime.json"
    write_text(runtime, json_text(RUNTIME))
    for name in names:
        verb, path = plan.jobs[name].verb, folder.config(name)
        write_text_if_changed(path, json_text(plan.jobs[name].config()))
        places = {"state": root / ".state" / name, "cache": root / ".state/features"}
        places |= {"runtime": runtime} if verb == "pretrain" else {}
        given: dict[str, Any] = {option: places[option] for option in VERBS[verb].options if option in places}
        words = [word for option, place in given.items() for word in (f"--{option}", str(place))]
        job = read_job(path, verb)
        do(verb, Call(job, folder, folder.job(name), arguments=(verb, str(path), *words), **given))


class _AnyCode(Vouched):
    """All code is said to give what ``CODE`` gave."""

    def chain(self, fingerprint: str) -> list[str]:
        return [CODE]


def told(plan: Plan, root: Path, verbs: tuple[str, ...]) -> dict[str, Any]:
    """Of each job of ``verbs`` its code's fingerprint and the hashes of what it left and told."""
    folder = ScaleFolder(root / "results" / plan.params.scale)
    found = {}
    for name, job in plan.jobs.items():
        if job.verb in verbs:
            record = read_json(folder.record(name, job.verb))
            rest = {key: value for key, value in record.items() if key not in _NAMED}
            found[name] = {
                "verb": job.verb,
                "fingerprint": plan.code[name],
                "outputs": record["outputs"],
                "told": sha256_json(rest),
            }
    return found


def main_module(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m mdc.golden", description=__doc__)
    parser.add_argument("params")
    parser.add_argument("folder")
    parser.add_argument("verbs", nargs="+", choices=list(VERBS))
    args = parser.parse_args(argv)
    plan, root, verbs = Plan(load(args.params), _AnyCode()), Path(args.folder).resolve(), tuple(args.verbs)
    root.mkdir(parents=True, exist_ok=True)
    os.chdir(root)
    make(plan, root, verbs)
    print(json.dumps(told(plan, root, verbs)))
    return 0


if __name__ == "__main__":
    sys.exit(main_module(sys.argv[1:]))
