"""The job ``mdc recipes``: Tables 6 to 8, the hyper-parameters of the scale's runs.

Writes last ``recipes.json``, which names by sha256 every file of the tables.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mdc.records import clear_leftovers, read_json, write_made
from mdc.report.tables.recipes import build


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.recipes_config), out (folder)."""
    config = read_json(args.config)
    out = Path(args.out)
    clear_leftovers(out)
    files = [path for spec in config["tables"] for path in build(spec, out, config["scale_label"])]
    for old in out.glob("table*"):
        if old not in files:
            old.unlink()
    write_made(out / "recipes.json", config, {}, files)
