"""The job ``mdc probe-set``: a source of labelled images as webdataset shards with a manifest."""

from __future__ import annotations

import argparse
from pathlib import Path

from mdc.data.place import data_folder
from mdc.data.shard_writer import write_probe
from mdc.data.shards import INDEX
from mdc.records import beside, obtained_inputs, read_json, write_made


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.probe_set_config), obtained (records of what it is made of), out (folder)."""
    config = read_json(args.config)
    write_probe(
        config["name"],
        config["source"],
        args.out,
        data_folder(),
        samples_per_shard=config["samples_per_shard"],
        max_skipped=config["max_skipped"],
    )
    index = Path(args.out) / INDEX
    write_made(beside(index, "made"), config, obtained_inputs(args.obtained), [index])
