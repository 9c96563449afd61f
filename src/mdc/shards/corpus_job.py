"""The job ``mdc corpus``: a source of captioned images as webdataset shards with a manifest."""

from __future__ import annotations

import argparse
from typing import Any

from mdc.shards.set_job import write_set
from mdc.shards.writer import write_corpus


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.corpus_config), obtained (records of what it is made of), out."""
    write_set(args, write_corpus, _texts_and_splits)


def _texts_and_splits(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "context_length": config["protocol"]["context_length"],
        # training sees "train" alone; a "test" split is there to be scored, so its words are in the vocabulary
        "splits": tuple(config["source"].get("splits") or ("train", "val")),
    }
