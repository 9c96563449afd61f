"""The job ``mdc method-table``: a table of methods by corpora (Table 4) from the probe records of its encoders.

Writes last ``tableN.json``, which names by sha256 every file of the table and every record that it was made from.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mdc.records import read_json, write_made
from mdc.report.given_records import GivenRecords
from mdc.report.tables.method_table import build, files
from mdc.statistics.metrics import mean_average_precision


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.table_config), records (probe.json files), out (folder)."""
    spec = read_json(args.config)
    out = Path(args.out)
    given = GivenRecords(args.records)
    build(given.records, given.items, spec, out, mean_average_precision)
    write_made(out / f"{spec['table']}.json", spec, given.hashes, [out / name for name in files(spec["table"])])
