"""The job ``mdc vocabulary``: the word pieces that a scale's models read and predict."""

from __future__ import annotations

import argparse
from pathlib import Path

from mdc.records import beside, read_json, sha256_file, write_json, write_made
from mdc.shards.index import read_index
from mdc.text import Vocabulary


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.vocabulary_config), corpora (their index.json files), out (file)."""
    config = read_json(args.config)
    if config["kind"] == "full":
        vocabulary = Vocabulary.full()
    else:
        vocabulary = Vocabulary.corpus(*(read_index(path, kind="corpus")["pieces"] for path in args.corpora))
    write_json(args.out, vocabulary.to_json())
    inputs = {Path(path).parent.name: sha256_file(path) for path in args.corpora}
    write_made(beside(args.out, "made"), config, inputs, [args.out])
