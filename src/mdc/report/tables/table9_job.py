"""The job ``mdc table9``: Table 9, the licences of all datasets, from the registry.

Writes last ``table9.json``, which names by sha256 every file of the table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mdc.records import read_json, write_made
from mdc.registry.datasets import REGISTRY
from mdc.report.tables.table9 import FILES, build


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config (JSON: job, scale_label), out (folder)."""
    config = read_json(args.config)
    out = Path(args.out)
    build(REGISTRY.values(), out, config["scale_label"])
    write_made(out / "table9.json", config, {}, [out / name for name in FILES])
