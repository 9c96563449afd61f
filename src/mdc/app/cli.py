"""The command line: one verb per job of the pipeline, and a few for a person.

Exit codes: 0 done; 1 an unexpected failure (a bug: the traceback is shown); 2 a mistake in the input, reported in
one line; 3 a link in the chain behind a number does not hold (``verify``, ``why``); 4 another process of the run is gone;
130 interrupted; 128 + n a process of the run was ended by signal n.
"""

import argparse
import importlib
import io
import json
import select
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

from mdc.app.commands import models, project
from mdc.app.commands.parameters import NOTHING, main_of, plan_of
from mdc.app.commands.parameters import params as _params
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.fingerprint import check_sources
from mdc.plan.host import command_line, processor_seconds, write_host
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import HOST, ScaleFolder
from mdc.plan.jobs.read import read_job
from mdc.plan.processes.interrupts import Interrupted, LostPeer
from mdc.plan.progress import EVERY
from mdc.plan.records import UserError, did_you_mean
from mdc.plan.verbs import OPTIONS, VERBS
from mdc.training import launch

#: verbs that write results
_RESULTS = {*VERBS, "stage", "index", "accept-edit"}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, import only the verb's own module, run it."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):  # a file's name need not be text
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    args = build_parser().parse_args(arguments)
    try:
        if args.verb in _RESULTS:
            check_sources(Path("src/mdc"))
        if args.verb in VERBS and getattr(args, "probes", None) is None:
            do(args.verb, _call(args, arguments))
        else:
            args.run_verb(args)
    except UserError as error:
        launch.say(args.verb, str(error))
        return error.exit_code
    except LostPeer as error:
        return launch.lost_peer(args.verb, str(error))
    except BrokenPipeError:
        if not _stdout_is_closed():  # a process of ours is gone
            raise
        return 0
    except MemoryError:
        launch.say(args.verb, "out of memory")
        return 2
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's, which need not be imported here
            raise
        launch.say(
            args.verb,
            f"out of memory on the GPU ({str(error).partition('. ')[0]}); raise accumulation, or set activation_checkpointing",
        )
        return 2
    except OSError as error:  # no permission, no space, a path that cannot be: the user's to mend
        path = error.filename or "a file"
        launch.say(args.verb, f"{path}: {error.strerror or error}")
        return 2
    except Interrupted as error:
        launch.say(args.verb, str(error))
        return 128 + error.number
    except KeyboardInterrupt:
        state = getattr(args, "interrupted", "finished results are kept")
        launch.say(args.verb, f"interrupted; {state() if callable(state) else state}")
        return 130
    return 0


def do(verb: str, call: Call) -> None:
    """Run the job of ``call``, then write its command line and duration beside its record.

    Raises UserError for what a user can put right; see :mod:`mdc.training.launch` for what else can end it.
    """
    began, busy = time.perf_counter(), processor_seconds()
    if launch.enter(verb, call):
        return  # its workers have done it, and written that
    facts = importlib.import_module(VERBS[verb].module).main(call) or {}
    if "taken_over" in facts:
        return  # so has the process that was waited for
    seconds = time.perf_counter() - began
    if seconds >= EVERY:  # on the screen of whoever runs the workflow; a job's log has its stderr
        print(f"{call.job.job}: done in {timedelta(seconds=round(seconds))}", flush=True)
    manifest = call.out / VERBS[verb].manifest.format(job=call.job.job)
    write_host(call.out / HOST, manifest, command_line(call.arguments), seconds, facts, processor_seconds() - busy)


def _stdout_is_closed() -> bool:
    """Whether who read our output is gone, as in ``mdc data list | head``."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # it is no file
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def build_parser() -> argparse.ArgumentParser:
    """All verbs, a person's first. Those of the pipeline take a job's resolved configuration, which the workflow writes."""
    parser = _Parser(
        prog="mdc",
        description="Masked diffusion captioning. Results are made by Snakemake: snakemake results/table1.csv --cores all",
        epilog="exit codes: 0 done, 1 unexpected failure, 2 mistake in the input, 3 a link does not hold (verify, why), "
        "130 interrupted",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", help="`mdc VERB --help` explains each")
    _init_verb(verbs)
    _parameter_verbs(verbs)
    _job_verbs(verbs, list(_FOR_A_PERSON))
    models.add(verbs)
    project.add(verbs)
    _provenance_verbs(verbs)
    project.add_data(verbs)
    jobs = [name for name in VERBS if name != "make"]
    parser.add_argument_group(
        "the pipeline's own verbs", f"one for each kind of job, which Snakemake calls: {', '.join(jobs)}"
    )
    _job_verbs(verbs, [name for name in VERBS if name not in _FOR_A_PERSON])
    return parser


class _Parser(argparse.ArgumentParser):
    """A wrong choice is answered with the nearest one, and without the verbs that only Snakemake calls."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            allowed = [name for name in action.choices if name not in VERBS or name in _FOR_A_PERSON]
            raise argparse.ArgumentError(
                action,
                f"no such choice: {value!r}{did_you_mean(value, allowed)}; allowed: {', '.join(map(str, allowed))}",
            )


class _Version(argparse.Action):
    """Reads the version only when needed."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"mdc {metadata.version('mdc')}")
        parser.exit()


_FOR_A_PERSON = ("make", "probe")  # of the pipeline's verbs


def _job_verbs(verbs: Any, names: list[str]) -> None:
    """Verbs that do a job. Only those for a person, too, have a line of their own in the list of all."""
    for name in names:
        verb = VERBS[name]
        listed = {"help": verb.text} if name == "make" else models.PROBE if name == "probe" else {}
        sub = verbs.add_parser(name, **{"description": verb.text} | listed)
        job = (
            f"one of {', '.join(ARTEFACTS)}, or the scale's own"
            if name == "make"
            else "a job's name, as `mdc config list` has it"
        )
        sub.add_argument(
            "config", metavar="JOB", help=f"{job}; or its configuration (.json), as `mdc config JOB` prints it"
        )
        _params(sub)
        sub.add_argument("--folder", metavar="DIR", help="the scale's folder, with its inputs; default: results/SCALE")
        sub.add_argument("--out", metavar="DIR", help="where its files go; default: FOLDER/JOB")
        for option in verb.options:
            sub.add_argument(f"--{option}", **OPTIONS[option] | ({"required": False} if name == "probe" else {}))
        if name == "probe":
            models.probe_options(sub)


def _parameter_verbs(verbs: Any) -> None:
    sub = verbs.add_parser(
        "check", help="check the parameters", description="Validate every scale, and say what the chosen one needs."
    )
    _params(sub)
    sub.set_defaults(run_verb=_check)
    sub = verbs.add_parser(
        "config",
        help="print a job's resolved configuration",
        description="Print everything that decides a job's result, as the workflow passes it to the job; or, with --expanded, "
        "every parameter of the scale with its file and line.",
    )
    sub.add_argument(
        "job", nargs="?", help="for example runs/alt/ViT-T-12/mdc/s0, data/corpora/alt, table1; `list` names all"
    )
    sub.add_argument("--expanded", action="store_true", help="every parameter of the scale, with its file and line")
    sub.add_argument(
        "--memory",
        nargs="?",
        const=0,
        type=int,
        metavar="N",
        help="memory of a training step of a run, with captions of N tokens; see docs/gpus.md",
    )
    _params(sub)
    sub.set_defaults(run_verb=_config)

    sub = verbs.add_parser(
        "schema",
        help="write JSON schemas of the parameter files for editors",
        description="Write the schemas that params.yaml and the scales name in their first line.",
    )
    sub.add_argument("--out", default="workflow/schemas", metavar="DIR", help="default: workflow/schemas")
    sub.set_defaults(run_verb=main_of("mdc.plan.config.schema"))


def _provenance_verbs(verbs: Any) -> None:
    sub = verbs.add_parser(
        "verify",
        help="check that tables, records, code and data still agree",
        description="Recompute every hash from the tables' cells down to shards, configurations and code. Exit code 3 "
        "and one line if a link does not hold.",
    )
    _params(sub)
    sub.add_argument("--deep", action="store_true", help="hash every file, however large")
    sub.set_defaults(run_verb=main_of("mdc.checks.verify"))
    sub = verbs.add_parser(
        "accept-edit",
        help="say that an edit of the code changes no result, so that nothing reruns",
        description="Accept the edit behind every job whose record differs from what is asked for now by its code alone: "
        "write the old and the new fingerprint to accepted_edits.json, with the reason.",
    )
    _params(sub)
    sub.add_argument("jobs", nargs="*", metavar="JOB", help="patterns, as 'runs/*'; default: all")
    sub.add_argument("--reason", required=True, metavar="TEXT", help="why the edit changes no result")
    sub.set_defaults(run_verb=main_of("mdc.checks.accept_edit"))
    sub = verbs.add_parser(
        "why",
        help="print what stands behind one number of a table",
        description="Print one number's interval, runs and seeds, configuration, exact commands, library versions, run "
        "times and logs, and whether its chain holds (exit code 3 if not).",
    )
    sub.add_argument(
        "table", help="table1, or results/table1.csv, results/SCALE/table1/table1.csv; so too every other table"
    )
    sub.add_argument(
        "--row", required=True, metavar="LABELS", help='enough labels to identify the row: "Alt-text, ViT-T/12, MDC"'
    )
    sub.add_argument("--column", required=True, metavar="LABEL", help="a column's label, as Shape or Average")
    sub.add_argument("--deep", action="store_true", help="hash every file, however large")
    _params(sub)
    sub.set_defaults(run_verb=main_of("mdc.checks.why"))


def _init_verb(verbs: Any) -> None:
    sub = verbs.add_parser(
        "init",
        help="write a scale for your own data",
        description="Write a small scale for your own data, scales/NAME.yaml, say what was found and chosen, and print the "
        "command that runs it (docs/own-data.md). All files lie under the folder that MDC_DATA names (default: data/), and "
        "the scale names them relative to it; here a path may start from there or from the current folder. Files elsewhere are "
        "refused.",
    )
    sub.add_argument("name", metavar="NAME", help="of the new scale; its results lie under results/NAME")
    sub.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="a folder of images with a table of captions (.csv, .tsv, .jsonl, .json, COCO's) or a .txt beside each; the table, "
        "and the folder if it is another one; .tar or .parquet files, or a folder of them; or OWNER/NAME of a dataset on the hub",
    )
    sub.add_argument(
        "--probe",
        metavar="FOLDER",
        help="labelled images, as FOLDER/train/CLASS/x.jpg and FOLDER/test/CLASS/x.jpg; without it there is no Table 1",
    )
    sub.add_argument(
        "--image-size",
        type=int,
        metavar="PIXELS",
        help="side of the images that models see; the defaults of this and the next four follow from the number of images",
    )
    sub.add_argument("--tower", choices=["ViT-T-8", "ViT-S-8", "ViT-S-16", "ViT-B-32"], help="the image encoder")
    sub.add_argument("--batch-size", type=int, metavar="N", help="images per step")
    sub.add_argument("--epochs", type=int, metavar="N", help="passes over the images")
    sub.add_argument("--vocabulary", choices=["words", "full"], help="the tokens of the captions, or all of CLIP's")
    sub.add_argument(
        "--default", action="store_true", help="name the scale in params.yaml, so that every call is for it"
    )
    sub.add_argument("--params", default="params.yaml", metavar="FILE", help="default: params.yaml")
    sub.set_defaults(run_verb=main_of("mdc.app.init"), interrupted=NOTHING)


def _call(args: argparse.Namespace, arguments: list[str]) -> Call:
    """The checked job of the command line, with its folders."""
    if args.verb == "probe" and args.cache is None:
        raise UserError(
            f"{args.config}: --probes is missing, which says by which probes of the scale; a job needs --cache"
        )
    path, name = Path(args.config), args.config
    root: Path | None
    if not path.is_file() and path.suffix != ".json":
        plan = plan_of(args)
        if name in ARTEFACTS and name not in plan.jobs:
            raise UserError(plan.not_named(name))
        if name not in plan.jobs or plan.jobs[name].verb != args.verb:
            hint = did_you_mean(name, [known for known, job in plan.jobs.items() if job.verb == args.verb])
            reason = f"no file, and no job of `mdc {args.verb}` at scale {plan.params.scale}{hint}"
            raise UserError(f"{name}: {reason}; `mdc config list` names all jobs")
        job, root = plan.jobs[name], Path("results") / plan.params.scale
    else:
        job = read_job(path, args.verb)
        by_hand, by_workflow = (str(ScaleFolder(Path()).config(job.job, sha256)) for sha256 in ("", "?" * 64))
        root = path.parents[job.job.count("/") + 1] if path.match(by_hand) or path.match(by_workflow) else None
        if path.match(by_workflow) and path.name != ScaleFolder(Path()).config(job.job, job.sha256).name:
            raise UserError(f"{path}: its content does not match the hash in its name; delete it and rerun Snakemake")
    root = Path(args.folder) if args.folder else root
    if job.inputs and root is None:
        raise UserError(f"{path}: --folder is missing; it says where {job.inputs[0]} and what else it needs lies")
    if not args.out and root is None:
        raise UserError(f"{path}: --out is missing; it says where the job's files go")
    folder = ScaleFolder(root or Path())
    places = {key: Path(value) for key in ("runtime", "state", "cache") if (value := getattr(args, key, None))}
    out = Path(args.out) if args.out else folder.job(job.job)
    return Call(
        job,
        folder,
        out,
        wait=getattr(args, "wait", False),
        profile=getattr(args, "profile", None),
        arguments=tuple(arguments),
        **places,
    )


def _check(args: argparse.Namespace) -> None:
    from mdc.plan.config.layers import scales_of
    from mdc.plan.config.read import load
    from mdc.plan.jobs.accepted import read_accepted
    from mdc.plan.jobs.plan import Plan

    chosen, by_scale, problems = load(args.params, args.scale), {}, list[str]()
    for scale in scales_of(args.params):
        try:
            by_scale[scale] = chosen if scale == chosen.scale else load(args.params, scale)
        except UserError as error:
            problems += [line for line in str(error).splitlines() if line not in problems]
    declared = {name for params in by_scale.values() for name in params.declared}
    if not problems:
        problems = [
            f"{args.params}: artefacts: no scale has a {name}" for name in chosen.artefacts if name not in declared
        ]
    if problems:
        raise UserError(*problems)
    plan = Plan(chosen, read_accepted(Path(args.params).parent))
    trainings = sum(job.verb == "pretrain" for job in plan.jobs.values())
    count = f"{len(plan.jobs)} jobs, {trainings} of them trainings"
    for name in sorted(name for params in by_scale.values() for name in params.tables if name not in params.artefacts):
        print(f"{args.params}: artefacts: {name} is not listed, so DVC has no stage for it")
    print(f"{args.params} and {len(by_scale)} scales: good; scale {chosen.scale}: {count}")


def _config(args: argparse.Namespace) -> None:
    if args.expanded == (args.job is not None):
        raise UserError("name a job (`mdc config list` names all), or give --expanded, which prints all parameters")
    if args.expanded:
        from mdc.plan.config.read import expanded, layered

        values = layered(args.params, {"scale": args.scale} if args.scale else {}, option="--scale")
        return print(expanded(values), end="")
    jobs = (plan := plan_of(args)).jobs
    if args.job == "list":
        print("\n".join(jobs))
        return
    if args.job not in jobs:
        raise UserError(plan.no_job(args.job))
    if args.memory is not None:
        from mdc.training.memory import main as memory

        return memory(jobs[args.job], Path("results") / plan.params.scale, args.memory)
    print(json.dumps(jobs[args.job].config(), indent=1, sort_keys=True))


if __name__ == "__main__":
    launch.leave(main)
