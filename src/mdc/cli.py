"""The command line: one verb per job of the pipeline, and a few for a person.

Exit codes: 0 done; 1 an unexpected failure (a bug: the traceback is shown); 2 a mistake in the input, told in one
line; 3 a link in the chain behind a number does not hold (``verify``, ``why``); 4 another process of the run is gone;
130 interrupted; 128 + n a process of the run was ended by signal n.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mdc.job_configs import check_job_config
from mdc.jobs import RECORDS, VERBS
from mdc.processes import launch
from mdc.processes.lost import LostPeer
from mdc.records import UserError, read_json


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, import only the verb's own module, run it."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    args = build_parser().parse_args(arguments)
    try:
        if args.verb in VERBS:
            _job(args, arguments)
        else:
            args.run(args)
    except UserError as error:
        launch.say(args.verb, str(error))
        return error.exit_code
    except launch.Failed as error:
        launch.say(args.verb, str(error))
        return error.code
    except LostPeer as error:
        return launch.lost_peer(args.verb, str(error))
    except BrokenPipeError:
        return 0
    except OSError as error:  # no permission, no space, a path that cannot be: the user's to mend
        where = error.filename or "a file"
        launch.say(args.verb, f"{where}: {error.strerror or error}; nothing was half-written")
        return 2
    except KeyboardInterrupt:
        launch.say(args.verb, "interrupted; what was finished is kept")
        return 130
    return 0


def build_parser() -> argparse.ArgumentParser:
    """All verbs. Those of the pipeline take a job's resolved configuration, which the workflow writes."""
    parser = argparse.ArgumentParser(
        prog="mdc",
        description="Masked diffusion captioning: the pipeline's jobs. Usually Snakemake calls them: "
        "snakemake results/table1.csv --cores all",
        epilog="exit codes: 0 done, 1 unexpected failure, 2 mistake in the input, 3 a link does not hold (verify, why), "
        "130 interrupted",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def job(verb: str, text: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(verb, help=text, description=text)
        sub.add_argument("config", help="the job's resolved configuration (JSON); `mdc config JOB` prints one")
        return sub

    sub = job("obtain", "bring a dataset to its place under MDC_DATA, and check what is there")
    sub.add_argument("--runtime", metavar="FILE", help="processes, time-outs, … of a download (JSON); decide no result")
    sub.add_argument("--out", required=True, metavar="DIR", help="folder for obtained.json")
    for verb, what in (
        ("corpus", "write a corpus as webdataset shards with a manifest"),
        ("probe-set", "write a labelled image set as webdataset shards with a manifest"),
        ("choice-set", "write images with one right caption among several as webdataset shards with a manifest"),
        ("texts", "count the lengths of captions without their images"),
    ):
        sub = job(verb, what)
        sub.add_argument(
            "--obtained", nargs="*", default=[], metavar="FILE", help="obtained.json of what it is made of"
        )
        sub.add_argument(
            "--out", required=True, metavar="DIR", help="folder for index.json, and shards if there are any"
        )
    sub = job("vocabulary", "collect the word pieces that a scale's corpora use")
    sub.add_argument("--corpora", nargs="*", default=[], metavar="INDEX", help="the corpora's index.json files")
    sub.add_argument("--out", required=True, metavar="FILE", help="vocabulary.json to write")
    sub = job("pretrain", "train one run: an encoder with its decoder or text tower; resumes where it was killed")
    sub.add_argument("--shards", required=True, metavar="INDEX", help="the corpus's index.json")
    sub.add_argument("--vocabulary", required=True, metavar="FILE", help="vocabulary.json")
    sub.add_argument("--runtime", required=True, metavar="FILE", help="workers and intervals (JSON); decide no result")
    sub.add_argument("--out", required=True, metavar="DIR", help="folder for the checkpoint, the log and run.json")
    sub.add_argument("--state", required=True, metavar="DIR", help="folder for the resumable state while it runs")
    sub.add_argument("--wait", action="store_true", help="if another process trains this run, wait for it and go on")
    sub = job("probe", "train and test linear probes on one encoder's features")
    sub.add_argument("--sets", nargs="+", required=True, metavar="INDEX", help="the probe sets' index.json files")
    sub.add_argument("--run", metavar="FILE", help="run.json of the encoder; leave out for the untrained control")
    sub.add_argument("--cache", required=True, metavar="DIR", help="folder for features, cached by content")
    sub.add_argument("--out", required=True, metavar="DIR", help="folder for probe.json and items.parquet")
    sub = job("table1", "make Table 1 (csv, tidy csv, html, md, tex) from probe records")
    sub.add_argument("--records", nargs="+", required=True, metavar="FILE", help="probe.json files")
    sub.add_argument("--out", required=True, metavar="DIR", help="folder for table1.*")
    sub = job("method-table", "make a table of methods by corpora, as Tables 4 and 5, from probe records")
    sub.add_argument("--records", nargs="+", required=True, metavar="FILE", help="probe.json files")
    sub.add_argument("--out", required=True, metavar="DIR", help="folder for table4.* or table5.*")
    for verb, what, files in (
        ("mask-ratios", "draw accuracy over fixed mask ratios against drawn ones (Figure 4)", "figure4.*"),
        ("pair-counts", "draw accuracy over the number of pairs (Figure 5)", "figure5.*"),
    ):
        sub = job(verb, f"{what} from probe records")
        sub.add_argument("--records", nargs="+", required=True, metavar="FILE", help="probe.json files")
        sub.add_argument("--out", required=True, metavar="DIR", help=f"folder for {files}")
    sub = job("schedules", "measure and draw how steadily the runs of Table 5 train")
    sub.add_argument("--runs", nargs="+", required=True, metavar="FILE", help="run.json files")
    sub.add_argument("--out", required=True, metavar="DIR", help="folder for figure_schedules.*")
    sub = job("loss-curves", "draw the training and validation losses of all runs")
    sub.add_argument("--runs", nargs="+", required=True, metavar="FILE", help="run.json files")
    sub.add_argument("--out", required=True, metavar="DIR", help="folder for figure_loss.*")
    sub = job("caption-lengths", "draw the distribution of caption lengths in tokens (Figure 3)")
    sub.add_argument(
        "--indexes", nargs="+", required=True, metavar="FILE", help="index.json of corpora and of captions"
    )
    sub.add_argument("--out", required=True, metavar="DIR", help="folder for figure3.*")
    sub = job("table9", "make Table 9, the licences (csv, html, md, tex), from the registry of datasets")
    sub.add_argument("--out", required=True, metavar="DIR", help="folder for table9.*")

    sub = job("recipes", "make Tables 6 to 8, the hyper-parameters of the runs (csv, html, md, tex)")
    sub.add_argument("--out", required=True, metavar="DIR", help="folder for table6.*, … and recipes.json")

    _data_verbs(verbs)
    sub = verbs.add_parser("check", help="check params.yaml", description="Check params.yaml and say what it asks for.")
    _params(sub)
    sub.set_defaults(run=_check)
    sub = verbs.add_parser(
        "config",
        help="print a job's resolved configuration",
        description="Print everything that decides a job's result, as the workflow hands it to the job.",
    )
    sub.add_argument("job", help="for example runs/alt/ViT-T-12/mdc/s0, data/corpora/alt, table1; `list` names all")
    _params(sub)
    sub.set_defaults(run=_config)
    sub = verbs.add_parser(
        "verify",
        help="walk the chain behind the tables and name the first link that does not hold",
        description="Recompute every hash from the tables' cells down to shards, configurations and code. Exit code 3 "
        "and one line if a link does not hold.",
    )
    _params(sub)
    sub.add_argument("--rebuild", action="store_true", help="also make the tables anew and compare every byte")
    sub.set_defaults(run=_verify)
    sub = verbs.add_parser(
        "why",
        help="print what stands behind one number of a table",
        description="Print one number's interval, runs and seeds, configuration, exact commands, library versions, run "
        "times and logs, and whether its chain holds (exit code 3 if not).",
    )
    sub.add_argument("table", help="results/table1.csv, or results/SCALE/table1.csv")
    sub.add_argument("--row", required=True, metavar="LABELS", help='as much as tells it: "Alt-text, ViT-T/12, MDC"')
    sub.add_argument("--column", required=True, metavar="LABEL", help="a benchmark, or Average")
    sub.add_argument("--params", default="params.yaml", metavar="FILE", help="default: params.yaml")
    sub.set_defaults(run=_why)
    return parser


def _data_verbs(verbs: Any) -> None:
    parser = verbs.add_parser(
        "data",
        help="the datasets: what each is, where it lies, whether its files are good",
        description="What the registry and params.yaml say of the datasets, and what their files show.",
    )
    asked = parser.add_subparsers(dest="asked", required=True, metavar="list|check", help="all of them, or one")
    sub = asked.add_parser(
        "list", help="every dataset", description="Name, use, items, size, licence and place of each."
    )
    _params(sub)
    sub.add_argument("--json", action="store_true", help="everything that is known of them, as JSON")
    sub.set_defaults(run=_data)
    sub = asked.add_parser(
        "check",
        help="look at one dataset's files",
        description="What the registry says of a dataset, and every check that its files must pass. Exit code 2 if one "
        "does not.",
    )
    sub.add_argument("name", help="as `mdc data list` has it")
    _params(sub)
    sub.add_argument("--json", action="store_true", help="as JSON")
    sub.set_defaults(run=_data)


def _data(args: argparse.Namespace) -> None:
    from mdc.config import load
    from mdc.jobs import obtain_config
    from mdc.obtain.show import main_check, main_list

    params = load(args.params, args.scale)
    args.datasets = {name: obtain_config(params, name)["dataset"] for name in params.current().data.datasets}
    (main_list if args.asked == "list" else main_check)(args)


def _job(args: argparse.Namespace, arguments: list[str]) -> None:
    """Do a job of the pipeline, then write down how it was called and how long it took."""
    from mdc.host import command_line, write_host

    began = time.perf_counter()
    config = _job_config(args)
    if launch.enter(args, config, arguments):
        return  # its workers have done it, and written that
    facts = importlib.import_module(VERBS[args.verb]).main(args) or {}
    if "taken_over" in facts:
        return  # so has the process that was waited for
    record = (
        Path(args.out) if args.verb == "vocabulary" else Path(args.out) / RECORDS[args.verb].format(job=config["job"])
    )
    write_host(record, command_line(arguments), time.perf_counter() - began, facts)


def _job_config(args: argparse.Namespace) -> dict[str, Any]:
    """The job's resolved configuration, if it is the verb's own, made by this version of the code."""
    config = read_json(args.config)
    check_job_config(config, args.verb, args.config)
    return config


def _params(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--params", default="params.yaml", metavar="FILE", help="default: params.yaml")
    parser.add_argument("--scale", metavar="NAME", help="instead of the file's own scale")


def _check(args: argparse.Namespace) -> None:
    from mdc.config import load
    from mdc.jobs import configs, runs

    params = load(args.params, args.scale)
    print(
        f"{args.params}: good; scale {params.scale}: {len(configs(params))} jobs, {len(runs(params))} of them trainings"
    )


def _config(args: argparse.Namespace) -> None:
    import json

    from mdc.config import load
    from mdc.jobs import configs

    all_jobs = configs(load(args.params, args.scale))
    if args.job == "list":
        print("\n".join(all_jobs))
        return
    if args.job not in all_jobs:
        raise UserError(f"no job '{args.job}'; `mdc config list` names all {len(all_jobs)}")
    print(json.dumps(all_jobs[args.job], indent=1, sort_keys=True))


def _verify(args: argparse.Namespace) -> None:
    from mdc.provenance.verify import main as verify

    verify(args)


def _why(args: argparse.Namespace) -> None:
    from mdc.provenance.why import main as why

    why(args)


if __name__ == "__main__":
    sys.exit(main())
