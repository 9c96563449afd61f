"""``mdc init``: a small scale for somebody's own images, captions and classes, appended to params.yaml."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from mdc.app.init.append import append_scale, scale_name
from mdc.app.init.block import scale_text
from mdc.app.init.classes import look_at_classes
from mdc.app.init.places import places_under
from mdc.app.init.table import look_at_table
from mdc.app.init.values import choose
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.read import read_yaml
from mdc.plan.data_folder import data_folder
from mdc.plan.records import UserError


def main(args: argparse.Namespace) -> None:
    """Look at the files that ``args`` name, append scale ``args.name`` to ``args.params``, and print what to run.

    UserError in one line for a name or a file that cannot be used; the parameter file is then as it was.
    """
    scale_name(args.params, args.name)
    other = _other_file(args.params, args.name)
    root = data_folder()
    options = {"--images": args.images, "--captions": args.captions, "--probe": args.probe}
    places = places_under(root, {option: given for option, given in options.items() if given is not None})
    images, captions, probe = places["--images"], places["--captions"], places.get("--probe")

    table = look_at_table(root / captions, root / images)
    classes = look_at_classes(root / probe) if probe is not None else None
    values = choose(table, classes)
    text = scale_text(args.name, captions, images, probe, table, classes, values)
    append_scale(args.params, args.name, text)

    lines = [
        f"{args.params}: scale {args.name} stands at its end",
        f"  corpus: {values.train:,} images to train on, {values.val:,} held out, {table.captions:,} captions",
    ]
    if classes is not None:
        lines.append(
            f"  probe: {len(classes.names)} classes, {classes.train:,} images to train on, {classes.test:,} to test"
        )
    place = os.environ.get("MDC_DATA")
    start = f"MDC_DATA={shlex.quote(place)} " if place else ""
    target = ARTEFACTS["table1" if classes is not None else "figure_loss"].target
    lines.append(f"To run it:\n  {start}snakemake results/{target} --cores all {other}--config scale={args.name}")
    print("\n".join(lines))


def _other_file(params: str, name: str) -> str:
    """What the command says of a file that is not the workflow's own, whose values the workflow lays over those of its own."""
    own = Path("params.yaml")
    if Path(params).resolve() == own.resolve():
        return ""
    if own.is_file() and name in (read_yaml(own).get("scales") or {}):
        raise UserError(f"{own}: has a scale {name}, too, and the workflow would mix the two; choose another name")
    return f"--configfile {shlex.quote(params)} "
