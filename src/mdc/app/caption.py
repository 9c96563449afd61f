"""The verb ``mdc caption``: what a run writes for images, for a person to read, or as a COCO results file."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from mdc.app.answers import Caption, left_out
from mdc.app.given_images import Readable
from mdc.app.model import load_asked
from mdc.app.ways import Options, template, unknown_in, way_of
from mdc.evaluation.metrics.files import image_ids

_BATCH = 32


def main(args: argparse.Namespace) -> None:
    """``args``: images, run, weights, those of :class:`mdc.app.ways.Options`, fill, explain, json, params, scale. An image that
    is named twice is captioned once. UserError, after all others were captioned, if an image cannot be read."""
    model = load_asked(args)
    options: Options = {key: getattr(args, key) for key in Options.__annotations__}  # type: ignore[assignment]
    way_of(model.job, options, filling=args.fill is not None)  # refused before any image is read
    if args.fill is not None:
        template(args.fill, model.vocabulary)
        if told := left_out(unknown_in(args.fill, model.vocabulary)):
            print(f"mdc caption: {told}", file=sys.stderr)
    readable = Readable(args.images)
    paths = readable.paths
    ids = dict(zip(paths, image_ids(paths), strict=True))
    found: dict[Path, Caption] = {}
    for some in readable.batches(_BATCH, "captions"):
        names, pixels = [path.name for path in some], model.writer_pixels(list(some.values()))
        for path, one in zip(some, model.caption_pixels(pixels, names, options, args.fill), strict=True):
            found[path] = one
            if not args.json:
                print(_text(path, one, args, len(paths)), flush=True)
    if args.json:
        made = {"run": model.name, "weights": model.weights}
        print(json.dumps([{"image_id": ids[path]} | _line(path, one) | made for path, one in found.items()], indent=1))
    readable.complain()


def _line(path: Path, one: Caption) -> dict[str, object]:
    pieces = [asdict(piece) for piece in one.pieces]
    return {"caption": one.text, "image": str(path), "log_prob": one.log_prob, "pieces": pieces}


def _text(path: Path, one: Caption, args: argparse.Namespace, count: int) -> str:
    said = f"{path}: {one.text}" if count > 1 else one.text
    if not args.explain:
        return said
    unwritten = "given" if args.fill is not None else "stood there from the start"
    rows = []
    for place, piece in sorted(enumerate(one.pieces, start=1), key=lambda numbered: (numbered[1].step, numbered[0])):
        written = piece.probability is not None
        how = f"probability {piece.probability:.3f}  {piece.piece}" if written else f"{piece.piece}  ({unwritten})"
        rows.append(f"  step {piece.step:3d}  place {place:3d}  {how}")
    return "\n".join([said, *rows])
