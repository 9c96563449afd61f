"""The job ``mdc method-table``: a table of methods by corpora (Table 4) from the probe records of its encoders.

Writes last ``tableN.json``, which names by sha256 every file of the table and every record that it was made from.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mdc.metrics import mean_average_precision
from mdc.records import read_json, sha256_file, write_made
from mdc.report.items import read_items
from mdc.report.method_table import build, files
from mdc.report.probe_records import read_record


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.table_config), records (probe.json files), out (folder)."""
    spec = read_json(args.config)
    out = Path(args.out)
    records, hashes = {}, {}
    for path in map(Path, args.records):
        record = read_record(path)
        records[record["encoder"]["id"]] = (record, path.parent / record["items"]["file"])
        hashes[f"{record['id']}/{path.name}"] = sha256_file(path)
    build(
        [record for record, _ in records.values()],
        lambda record: read_items(records[record["encoder"]["id"]][1], record["items"]["sha256"]),
        spec,
        out,
        mean_average_precision,
    )
    write_made(out / f"{spec['table']}.json", spec, hashes, [out / name for name in files(spec["table"])])
