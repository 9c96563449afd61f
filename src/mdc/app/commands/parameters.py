"""Options and helpers that verbs share."""

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: message of an interrupted verb that writes only at its end; others set ``args.interrupted``
NOTHING = "nothing was written"


def params(parser: argparse.ArgumentParser) -> None:
    """The parameter file, and a scale in place of its own."""
    parser.add_argument("--params", default="params.yaml", metavar="FILE", help="default: params.yaml")
    parser.add_argument("--scale", metavar="NAME", help="instead of the file's own scale")


def main_of(module: str) -> Callable[[argparse.Namespace], None]:
    """``main`` of a module that is imported when it is called: most of them import torch."""

    def call(args: argparse.Namespace) -> None:
        importlib.import_module(module).main(args)

    return call


def plan_of(args: argparse.Namespace) -> Any:
    """The jobs of the scale that the command line and the parameter file name."""
    from mdc.plan.config.read import load
    from mdc.plan.jobs.accepted import read_accepted
    from mdc.plan.jobs.plan import Plan

    return Plan(load(args.params, args.scale), read_accepted(Path(args.params).parent))
