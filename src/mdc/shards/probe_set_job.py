"""The job ``mdc probe-set``: a source of labelled images as webdataset shards with a manifest."""

from __future__ import annotations

import argparse

from mdc.shards.set_job import write_set
from mdc.shards.writer import write_probe


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.probe_set_config), obtained (records of what it is made of), out."""
    write_set(args, write_probe)
