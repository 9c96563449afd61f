"""The verb ``mdc caption``: a run's captions of images, as text or as a COCO results file."""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from mdc.app.answers import Caption, left_out
from mdc.app.caption_options import Options, template, unknown_in, way_of
from mdc.app.model import load_from_args
from mdc.app.user_images import Readable

_BATCH = 32


def main(args: argparse.Namespace) -> None:
    """``args``: images, run, weights, fill, explain, json, params, scale, and :class:`mdc.app.caption_options.Options`.

    An image that is named twice is captioned once. UserError, after all others were captioned, if an image cannot be read.
    """
    model = load_from_args(args)
    options: Options = {key: getattr(args, key) for key in Options.__annotations__}  # type: ignore[assignment]
    way_of(model.job, options, filling=args.fill is not None)  # fail before any image is read
    if args.fill is not None:
        template(args.fill, model.vocabulary)
        if warning := left_out(unknown_in(args.fill, model.vocabulary)):
            print(f"mdc caption: {warning}", file=sys.stderr)
    readable = Readable(args.images)
    paths = readable.paths
    ids = dict(zip(paths, image_ids(paths), strict=True))
    captions: dict[Path, Caption] = {}
    for images in readable.batches(_BATCH, model.writer.picture, "captions"):
        names, pixels = [path.name for path in images], torch.stack(list(images.values()))
        for path, caption in zip(images, model.caption_pixels(pixels, names, options, args.fill), strict=True):
            captions[path] = caption
            if not args.json:
                print(_text(path, caption, args, len(paths)), flush=True)
    if args.json:
        source = {"run": model.name, "weights": model.weights}
        entries = [{"image_id": ids[path]} | _line(path, caption) | source for path, caption in captions.items()]
        print(json.dumps(entries, indent=1))
    readable.complain()


def image_ids(paths: Sequence[Path]) -> list[int | str]:
    """The ``image_id`` of each image file in a results file, none twice if no path is.

    A name that is a whole number (``42.png``, ``000000000042.jpg``), or one of COCO's own (``COCO_val2014_000000000042.jpg``),
    has that number as its id; any other has the file's name. Files that would share an id get their paths."""
    numbers = [re.fullmatch(r"(?:COCO_\w+?_(?=\d{12}$))?(\d+)", path.stem, re.ASCII) for path in paths]
    ids = [int(number[1]) if number else path.name for number, path in zip(numbers, paths, strict=True)]
    counts = Counter(ids)
    return [image_id if counts[image_id] == 1 else str(path) for image_id, path in zip(ids, paths, strict=True)]


def _line(path: Path, caption: Caption) -> dict[str, object]:
    pieces = [asdict(piece) for piece in caption.pieces]
    return {"caption": caption.text, "image": str(path), "log_prob": caption.log_prob, "pieces": pieces}


def _text(path: Path, caption: Caption, args: argparse.Namespace, count: int) -> str:
    head = f"{path}: {caption.text}" if count > 1 else caption.text
    if not args.explain:
        return head
    unwritten = "given" if args.fill is not None else "present from the start"
    rows = []
    for place, piece in sorted(enumerate(caption.pieces, start=1), key=lambda item: (item[1].step, item[0])):
        predicted = piece.probability is not None
        detail = f"probability {piece.probability:.3f}  {piece.piece}" if predicted else f"{piece.piece}  ({unwritten})"
        rows.append(f"  step {piece.step:3d}  place {place:3d}  {detail}")
    return "\n".join([head, *rows])
