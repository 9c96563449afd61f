"""The job ``mdc pair-counts``: Figure 5, accuracy over the number of pairs, from the probe records of its encoders.

Writes last ``figure5.json``, which names by sha256 every file of the figure and every record that it was made from.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mdc.records import read_json, write_made
from mdc.report.figures.figure5 import FILES, build
from mdc.report.given_records import GivenRecords
from mdc.statistics.metrics import mean_average_precision


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.table_config), records (probe.json files), out (folder)."""
    spec = read_json(args.config)
    out = Path(args.out)
    given = GivenRecords(args.records)
    build(given.records, given.items, spec, out, mean_average_precision)
    write_made(out / "figure5.json", spec, given.hashes, [out / name for name in FILES])
