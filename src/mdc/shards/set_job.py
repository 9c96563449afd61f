"""What the jobs that write a set of shards have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdc.formats.data_folder import data_folder
from mdc.records import beside, obtained_inputs, read_json, write_made
from mdc.shards.index import INDEX


def write_set(
    args: argparse.Namespace, writer: Callable[..., Any], more: Callable[[dict[str, Any]], dict[str, Any]] | None = None
) -> None:
    """Call ``writer`` with what the job's configuration says, then note beside its index what it was made from.

    ``args``: config, obtained (records of the datasets it is made of), out (folder). ``more``: keywords for the writer
    from the configuration.
    """
    config = read_json(args.config)
    writer(
        config["name"],
        config["source"],
        args.out,
        data_folder(),
        samples_per_shard=config["samples_per_shard"],
        max_skipped=config["max_skipped"],
        **(more(config) if more else {}),
    )
    index = Path(args.out) / INDEX
    write_made(beside(index, "made"), config, obtained_inputs(args.obtained), [index])
