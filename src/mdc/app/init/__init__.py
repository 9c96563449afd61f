"""``mdc init``: a small scale for somebody's own images, captions and classes, as a file of its own."""

from __future__ import annotations

import argparse
import os
import shlex

from mdc.app.init.block import scale_text
from mdc.app.init.classes import look_at_classes
from mdc.app.init.places import places_under
from mdc.app.init.table import look_at_table
from mdc.app.init.values import choose
from mdc.app.init.write import choose_scale, new_scale, write_scale
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.data_folder import data_folder


def main(args: argparse.Namespace) -> None:
    """Look at the files that ``args`` name, write scales/NAME.yaml beside ``args.params``, and print what to run. With
    ``args.default`` the parameter file names the scale then.

    UserError in one line for a name or a file that cannot be used; nothing is written then.
    """
    file = new_scale(args.params, args.name)
    root = data_folder()
    options = {"--images": args.images, "--captions": args.captions, "--probe": args.probe}
    places = places_under(root, {option: given for option, given in options.items() if given is not None})
    images, captions, probe = places["--images"], places["--captions"], places.get("--probe")

    table = look_at_table(root / captions, root / images)
    classes = look_at_classes(root / probe) if probe is not None else None
    values = choose(table, classes)
    write_scale(args.params, file, scale_text(args.name, captions, images, probe, table, classes, values))
    if args.default:
        choose_scale(args.params, args.name)

    lines = [
        f"{file}: written",
        f"  corpus: {values.train:,} images to train on, {values.val:,} held out, {table.captions:,} captions",
    ]
    if classes is not None:
        lines.append(
            f"  probe: {len(classes.names)} classes, {classes.train:,} images to train on, {classes.test:,} to test"
            + f" ({classes.said})" * bool(classes.said)
        )
    place = os.environ.get("MDC_DATA")
    start = f"MDC_DATA={shlex.quote(place)} " if place else ""
    target = ARTEFACTS["table1" if classes is not None else "figure_loss"].target
    option = "" if args.default else f" --config scale={args.name}"
    lines.append(f"To run it:\n  {start}snakemake results/{target} --cores all{option}")
    if args.default:
        lines.append(f"{args.params}: scale: {args.name}")
    else:
        lines.append(f"To make it the default: write `scale: {args.name}` into {args.params} (mdc init --default does)")
    print("\n".join(lines))
