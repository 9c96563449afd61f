"""Options that verbs share."""

from __future__ import annotations

import argparse


def params(parser: argparse.ArgumentParser) -> None:
    """The parameter file, and a scale in place of its own."""
    parser.add_argument("--params", default="params.yaml", metavar="FILE", help="default: params.yaml")
    parser.add_argument("--scale", metavar="NAME", help="instead of the file's own scale")
