"""The job ``mdc corpus``: a source of captioned images as webdataset shards with a manifest."""

from __future__ import annotations

import argparse
from pathlib import Path

from mdc.data.place import data_folder
from mdc.data.shard_writer import write_corpus
from mdc.data.shards import INDEX
from mdc.records import beside, obtained_inputs, read_json, write_made


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.corpus_config), obtained (records of what it is made of), out (folder)."""
    config = read_json(args.config)
    write_corpus(
        config["name"],
        config["source"],
        args.out,
        data_folder(),
        samples_per_shard=config["samples_per_shard"],
        max_skipped=config["max_skipped"],
        context_length=config["protocol"]["context_length"],
        # training sees "train" alone; a "test" split is there to be scored, so its words are in the vocabulary
        splits=tuple(config["source"].get("splits") or ("train", "val")),
    )
    index = Path(args.out) / INDEX
    write_made(beside(index, "made"), config, obtained_inputs(args.obtained), [index])
