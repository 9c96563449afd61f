"""Verbs for a project's results, and `mdc data`: its datasets, checks of their files, and shortcuts of rendered sets."""

import argparse
import sys
from pathlib import Path
from typing import Any

from mdc.app.commands.parameters import NOTHING, main_of, params, plan_of
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.verbs import LAYERS


def add(verbs: Any) -> None:
    """Add them to the command line's ``verbs``."""
    sub = verbs.add_parser(
        "index",
        help="make the page that shows every table and figure",
        description="Write one page with all tables and figures of the scale: thumbnails, captions, run times; it says what is "
        "missing. Open it in a browser; it needs no server.",
    )
    sub.add_argument("names", metavar="NAME", nargs="*", help="tables and figures; default: all that the scale names")
    sub.add_argument("--out", metavar="FILE", help="default: results/index.html")
    params(sub)
    sub.set_defaults(run_verb=_index, interrupted=NOTHING)
    sub = verbs.add_parser(
        "stage",
        help="bring a stage of DVC up to date",
        description="Called by dvc.yaml: make the stage's files by Snakemake, unless their records are up to date.",
    )
    sub.add_argument("name", metavar="STAGE", help=f"{', '.join(LAYERS)}, index, or a table or figure")
    sub.add_argument("--scale", metavar="NAME", help="instead of that of params.yaml")
    sub.set_defaults(run_verb=main_of("mdc.plan.stage"), params="params.yaml")  # which is the one that Snakemake reads


def _index(args: argparse.Namespace) -> None:
    from mdc.plan.records import UserError, sha256_json
    from mdc.report.index_page import write_index

    plan = plan_of(args)
    scale = plan.params.scale
    place, root = Path(args.out or "results/index.html"), Path("results") / scale
    declared = plan.scale.tables.artefacts
    if unknown := [name for name in args.names if name not in ARTEFACTS | declared]:
        raise UserError(plan.not_named(unknown[0]))
    named = {name: (declared | ARTEFACTS)[name] for name in args.names or declared}
    expected = {name: sha256_json(plan.jobs[name].config()) for name in named if name in plan.jobs}
    missing = write_index(root, scale, plan.scale.label, named, place, expected, others=not (args.names or args.out))
    note = f"; not made yet: {', '.join(missing)}" if missing else ""
    print(f"{place}: {len(named) - len(missing)} of {len(named)} tables and figures{note}")


def add_data(verbs: Any) -> None:
    """Add the verb `data` and its actions."""
    parser = verbs.add_parser(
        "data",
        help="the datasets: what each is, where it lies, whether its files pass their checks",
        description="What is known of the datasets, and whether their files are there and pass their checks.",
    )
    actions = parser.add_subparsers(
        dest="asked", required=True, metavar="list|check|shortcuts", help="all of them, or one"
    )
    sub = actions.add_parser(
        "list", help="every dataset", description="Name, use, items, size, licence and place of each."
    )
    params(sub)
    sub.add_argument("--json", action="store_true", help="everything that is known of them, as JSON")
    sub.set_defaults(run_verb=_data)
    sub = actions.add_parser(
        "check",
        help="check one dataset's files",
        description="What the registry says of a dataset, and every check that its files must pass. Exit code 2 if one "
        "does not.",
    )
    sub.add_argument("name", help="as `mdc data list` has it")
    params(sub)
    sub.add_argument("--json", action="store_true", help="as JSON")
    sub.set_defaults(run_verb=_data)
    sub = actions.add_parser(
        "shortcuts",
        help="how far shortcuts answer the rendered sets",
        description="As csv: of each probe and choice set of rendered scenes, the share of right answers from the captions or "
        "the labels alone, from one object, from places alone and so on.",
    )
    params(sub)
    sub.set_defaults(run_verb=_shortcuts)


def _shortcuts(args: argparse.Namespace) -> None:
    import csv

    from mdc.data.sources.source import open_choices, open_probe

    plan = plan_of(args)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["of", "set", "score", "kind", "what", "value"])
    for use, sets, opened in (
        ("probe", plan.scale.data.probes, open_probe),
        ("choices", plan.scale.data.choices, open_choices),
    ):
        for name, config in sets.items():
            if config.source.kind.startswith("scenes"):  # photos have no ground truth
                for shortcut in opened(config.source.model_dump(mode="json"), Path()).shortcuts():
                    row = [use, name, shortcut.score, shortcut.kind, shortcut.what, round(100 * shortcut.value, 1)]
                    writer.writerow(row)


def _data(args: argparse.Namespace) -> None:
    from mdc.data.obtain.show import main_check, main_list

    plan = plan_of(args)
    args.datasets = {name: plan.obtain(name).config()["dataset"] for name in plan.scale.data.datasets}
    (main_list if args.asked == "list" else main_check)(args)
