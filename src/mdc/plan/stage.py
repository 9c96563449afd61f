"""``mdc stage NAME``: bring a stage of DVC up to date; Snakemake is only started if a record is missing or stale."""

import argparse
import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from mdc.plan.config.read import load
from mdc.plan.data_folder import data_folder
from mdc.plan.fingerprint import remembered
from mdc.plan.jobs.accepted import read_accepted
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.needs import files_of_user
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.outputs import RESULTS, check_outputs, published
from mdc.plan.records import UserError, did_you_mean, read_json, sha256_file, write_text
from mdc.plan.verbs import LAYERS, VERBS

#: the page that shows every table and figure
INDEX = "index"
#: DVC's file for a table that the scale does not name
NOT_NAMED = "not_named.txt"


def target(name: str) -> str:
    """A stage's Snakemake target."""
    return f"{name}_all" if name in LAYERS and name != "data" else "results/index.html" if name == INDEX else name


def main(args: argparse.Namespace) -> None:
    """``args``: name, params, scale. Replaces this process by Snakemake if there is something to do. UserError for no stage."""
    notes = Path(".snakemake/mdc_sources.json")
    notes.parent.mkdir(exist_ok=True)
    with remembered(notes):
        plan = Plan(load(args.params, args.scale), read_accepted())
        jobs = plan.jobs
    root = RESULTS / plan.params.scale
    if args.name not in {*LAYERS, INDEX, *plan.params.artefacts, *plan.params.declared}:
        stages = [*LAYERS, *plan.params.artefacts, INDEX]
        raise UserError(f"no stage '{args.name}'{did_you_mean(args.name, stages)}; allowed: {', '.join(stages)}")
    if not root.resolve().is_relative_to(Path.cwd()):  # DVC would say so only when everything is made
        raise UserError(
            f"{root}: leads to {root.resolve()}, and DVC keeps no results outside of the project; allowed: the whole project on "
            f"that disk, or Snakemake without DVC (snakemake all --cores all)"
        )
    if args.name in LAYERS:
        # DVC needs the folders of a stage, also of those that the scale has no jobs of
        for layer in (verb.layer for verb in VERBS.values() if verb.stage in LAYERS[args.name]):
            (root / layer.partition("/")[0]).mkdir(parents=True, exist_ok=True)
        wanted = [name for name, job in jobs.items() if VERBS[job.verb].stage in LAYERS[args.name]]
    else:
        wanted = list(plan.scale.tables) if args.name == INDEX else [args.name]
    note = root / args.name / NOT_NAMED
    if any(name not in jobs for name in wanted):
        # DVC has a stage for every table, also at a scale that does not name it
        write_text(note, f"{plan.not_named(args.name)}\n")
        return
    note.unlink(missing_ok=True)
    folder = ScaleFolder(root)
    forced = [rule for name in wanted for rule in _incomplete(jobs[name], folder)]
    if _current(plan, folder, wanted):
        for name in wanted:
            check_outputs(folder.record(name, jobs[name].verb), every=isinstance(jobs[name], ArtefactJob))
        if not forced and (args.name != INDEX or _newest(RESULTS / "index.html")):
            print(f"{args.name}: as asked; nothing to do")
            return
    snakemake = str(Path(sys.executable).with_name("snakemake"))
    words = [target(args.name), "--cores", "all", "--config", f"scale={plan.params.scale}"]
    sys.stdout.flush()
    os.execv(snakemake, [snakemake, *words, *(["--forcerun", *forced] if forced else [])])


def _current(plan: Plan, folder: ScaleFolder, wanted: Iterable[str]) -> bool:
    """Whether the records of these jobs and their ancestors have the current configurations and inputs, and the ancestors' files
    exist."""
    data, sha256 = data_folder(), cache(sha256_file)
    every = dict.fromkeys(name for job_name in wanted for name in (job_name, *plan.ancestors(job_name)))
    try:
        for name in every:
            job = plan.jobs[name]
            path = folder.record(name, job.verb)
            record, made = read_json(path), path.stat().st_mtime
            inputs = {job_name: sha256(folder.manifest(job_name, plan.jobs[job_name].verb)) for job_name in job.inputs}
            if record["config_sha256"] != job.sha256 or record["inputs"] != inputs:
                return False
            if name not in wanted and not all(path.with_name(file).is_file() for file in record["outputs"]):
                return False
            if any(file.stat().st_mtime > made for file in files_of_user(job, data)):
                return False
    except (UserError, OSError, KeyError, TypeError):  # missing, or of another version
        return False
    return True


def _incomplete(job: Job, folder: ScaleFolder) -> list[str]:
    """What Snakemake must be told to rerun, since it looks at times alone: a job that lacks a file, a copy that differs."""
    record = folder.record(job.job, job.verb)
    try:
        lacking = not all(record.with_name(name).is_file() for name in read_json(record)["outputs"])
        if not isinstance(job, ArtefactJob):
            return [str(folder.manifest(job.job, job.verb))] if lacking else []
        return [f"make_{job.job}"] if lacking else [] if published(record) else [job.job]
    except (UserError, KeyError, TypeError, AttributeError):  # missing, or of another version: Snakemake sees it
        return []


def _newest(page: Path) -> bool:
    """Whether the page exists and is no older than the records that it shows."""
    return page.is_file() and all(file.stat().st_mtime <= page.stat().st_mtime for file in page.parent.glob("*.json"))
