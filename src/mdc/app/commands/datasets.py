"""The verb `mdc data`: the registry of datasets, checks of their files, and shortcuts of rendered sets."""

import argparse
import sys
from pathlib import Path
from typing import Any

from mdc.app.commands.parameters import params, plan_of


def add(verbs: Any) -> None:
    """Add the verb and its actions."""
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
