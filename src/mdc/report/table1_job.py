"""The job ``mdc table1``: Table 1 and its figure from the probe records of all encoders."""

from __future__ import annotations

import argparse
from pathlib import Path

from mdc.metrics import mean_average_precision
from mdc.records import read_json
from mdc.report.figures import table1_bars
from mdc.report.items import read_items
from mdc.report.probe_records import read_record
from mdc.report.table1 import build


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.table1_config), records (probe.json files), out (folder)."""
    spec = read_json(args.config)
    out = Path(args.out)
    records = {}
    for path in map(Path, args.records):
        record = read_record(path)
        records[record["encoder"]["id"]] = (record, path.parent / record["items"]["file"])
    made = build(
        [record for record, _ in records.values()],
        lambda record: read_items(records[record["encoder"]["id"]][1], record["items"]["sha256"]),
        spec,
        out,
        mean_average_precision,
    )
    table1_bars(
        made.numbers,
        [out / "figure_table1.png", out / "figure_table1.svg"],
        title=f"Linear probing, scale {spec['scale_label']}: what training adds to the initial weights",
    )
