"""The job ``mdc table1``: Table 1, its figure and its headline numbers from the probe records of all encoders.

Writes last ``table1.json``, which names by sha256 every file of the table and every record that it was made from.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mdc.records import read_json, write_json, write_made
from mdc.report.figures.drawing import table1_bars
from mdc.report.given_records import GivenRecords
from mdc.report.tables.headline import headline
from mdc.report.tables.table1 import FILES, build
from mdc.statistics.metrics import mean_average_precision


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.table1_config), records (probe.json files), out (folder)."""
    spec = read_json(args.config)
    out = Path(args.out)
    given = GivenRecords(args.records)
    made = build(given.records, given.items, spec, out, mean_average_precision)
    figures = [out / "figure_table1.png", out / "figure_table1.svg"]
    table1_bars(
        made.numbers,
        figures,
        title=f"Linear probing, scale {spec['scale_label']}: what training adds to the initial weights",
    )
    metrics = out / "table1_metrics.json"
    write_json(metrics, headline(made.numbers))
    write_made(out / "table1.json", spec, given.hashes, [*(out / name for name in FILES), *figures, metrics])
