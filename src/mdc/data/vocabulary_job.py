"""The job ``mdc vocabulary``: the word pieces that a scale's models read and predict."""

from __future__ import annotations

import argparse

from mdc.data.shards import read_index
from mdc.records import read_json, write_json
from mdc.text import Vocabulary


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (see mdc.jobs.vocabulary_config), corpora (their index.json files), out (file)."""
    config = read_json(args.config)
    if config["kind"] == "full":
        vocabulary = Vocabulary.full()
    else:
        vocabulary = Vocabulary.corpus(*(read_index(path, kind="corpus")["pieces"] for path in args.corpora))
    write_json(args.out, vocabulary.to_json())
