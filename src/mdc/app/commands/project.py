"""Verbs for a project's results."""

import argparse
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
        raise UserError(f"no table or figure '{unknown[0]}'; allowed: {', '.join(sorted(ARTEFACTS | declared))}")
    named = {name: (declared | ARTEFACTS)[name] for name in args.names or declared}
    expected = {name: sha256_json(plan.jobs[name].config()) for name in named if name in plan.jobs}
    missing = write_index(root, scale, plan.scale.label, named, place, expected, others=not (args.names or args.out))
    note = f"; not made yet: {', '.join(missing)}" if missing else ""
    print(f"{place}: {len(named) - len(missing)} of {len(named)} tables and figures{note}")
