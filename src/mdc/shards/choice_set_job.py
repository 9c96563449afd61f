"""The job ``mdc choice-set``: a source of images with right and wrong captions as webdataset shards with a manifest."""

from __future__ import annotations

import argparse

from mdc.shards.choices import write_choices
from mdc.shards.set_job import write_set


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.choice_set_config), obtained (records of what it is made of), out."""
    write_set(args, write_choices)
