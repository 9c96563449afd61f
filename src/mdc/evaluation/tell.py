"""The verb ``mdc caption``: what a run writes for images, for a person to read, or as a COCO results file."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from pydantic import ValidationError

from mdc.data.formats.images import FORMATS, ImageError, decode
from mdc.data.formats.samples import IMAGE_ENDINGS
from mdc.evaluation.ask import run_folder
from mdc.evaluation.metrics.files import image_ids
from mdc.models.runs import open_run, weights_of
from mdc.models.text import Vocabulary, clip_pieces
from mdc.plan.config.caption import WAYS, WRITES, Beam, Diffusing, Unmasking
from mdc.plan.config.problems import first_problem
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.parts import ABILITIES, family_of, load
from mdc.plan.progress import progress
from mdc.plan.records import UserError
from mdc.training.device import choose_device

#: names of files that are looked at in a folder
_BATCH = 32
_DEFAULT_LENGTHS = (10, 15, 20)  # the paper's
#: what stands for a missing word in --fill
_GAP = "?"


def main(args: argparse.Namespace) -> None:
    """``args``: images, run, weights, policy, length, per_step, threshold, temperature, beam, steps, guidance, seed, fill,
    explain, json, params, scale. An image that is named twice is captioned once. UserError, after all others were captioned, if
    an image cannot be read."""
    folder = run_folder(args.run, args.params, args.scale)
    weights = args.weights or weights_of(folder)
    run, manifest = open_run(folder, weights)
    job, vocabulary = run.job, run.vocabulary
    writer = load(ABILITIES, "generate").RunWriter(run, precision="fp32", device=choose_device("auto"))
    how = policy(args, job)
    gaps = template(args.fill, vocabulary) if args.fill is not None else None
    paths = list(dict.fromkeys(images(args.images)))
    ids = dict(zip(paths, image_ids(paths), strict=True))
    bad: list[str] = []
    told = []
    for start in progress(range(0, len(paths), _BATCH), unit="batch", desc="captions", disable=len(paths) <= _BATCH):
        some = [(path, picture) for path in paths[start : start + _BATCH] if (picture := _open(path, bad)) is not None]
        if not some:
            continue
        seen = writer.look(torch.stack([writer.picture(picture) for _, picture in some]))
        keys = [path.name for path, _ in some]
        if gaps is not None:
            assert isinstance(how, Unmasking)
            written = writer.fill(seen, [gaps] * len(some), how, keys)
        else:
            written = writer.write(seen, how, keys)
        for (path, _), one in zip(some, written, strict=True):
            line = _line(path, writer, one)
            told.append(line)
            if not args.json:
                print(_text(line, args, len(paths)), flush=True)
    if args.json:
        made = {"run": manifest["id"], "weights": weights}
        results = [{"image_id": ids[Path(one["image"])], "caption": one["caption"]} | one | made for one in told]
        print(json.dumps(results, indent=1))
    if bad:
        raise UserError(
            f"{len(bad)} of {len(paths)} images could not be read: {'; '.join(bad[:3])}{'; …' * (len(bad) > 3)}"
        )


def policy(args: argparse.Namespace, job: PretrainJob) -> Unmasking | Beam | Diffusing:
    """How to write, from the command line; by default as the paper does: MDC the likeliest of its three lengths, ARC a beam of 6;
    MC-Diffusion 25 strides without guidance.

    UserError for an option that the run's method does not have, or a value that it cannot have.
    """
    try:
        return _policy(args, job)
    except ValidationError as error:
        key, _, problem = first_problem(error).partition(" ")
        raise UserError(f"--{_OPTIONS.get(key, key)} {problem}") from None


#: key of a way to write → the option, where it is called otherwise
_OPTIONS = {"per_step": "per-step", "width": "beam"}
#: kind of writing → what --policy may say of it, and the options that it has
_ASKED = {
    "unmask": (("unmask",), ("length", "per_step", "threshold", "temperature", "fill")),
    "beam": (("beam",), ("length", "beam")),
    "diffuse": (("posterior", "best_first"), ("steps", "guidance")),
}


def _policy(args: argparse.Namespace, job: PretrainJob) -> Unmasking | Beam | Diffusing:
    if family_of(job.method.objective) not in WRITES:
        raise UserError(f"{job.job}: a method with the objective {job.method.objective} writes no captions")
    writes = WRITES[family_of(job.method.objective)]
    policies, options = _ASKED[writes]
    for option in dict.fromkeys(one for _, listed in _ASKED.values() for one in listed):
        if option not in options and getattr(args, option) is not None:
            name = option.replace("_", "-")
            raise UserError(f"--{name}: {job.method_name} writes by {WAYS[writes]}, which does not have it")
    if args.policy is not None and args.policy not in policies:
        raise UserError(f"--policy {args.policy}: {job.method_name} writes by {' or '.join(policies)}")
    if args.fill is not None and args.length is not None:
        raise UserError("--length, --fill: a caption that is filled in has the length of its text; leave --length out")
    room = job.protocol.data.context_length - 2
    if args.length is not None and not 1 <= args.length <= room:
        raise UserError(f"--length {args.length}: must be 1 to {room} word pieces, which fit the context")
    if writes == "diffuse":
        scale = 1.0 if args.guidance is None else args.guidance
        most = job.method.diffusion_steps or 1
        told: dict[str, Any] = {
            "steps": args.steps if args.steps is not None else min(25, most),
            "policy": args.policy or "posterior",
        }
        return Diffusing(kind="diffuse", guidance=scale, seed=args.seed, **told)
    if writes == "beam":
        width = 6 if args.beam is None else args.beam
        return Beam(kind="beam", width=width, least=args.length or 1, most=args.length or room)
    values: dict[str, Any] = {"per_step": 1 if args.per_step is None else args.per_step, "threshold": args.threshold}
    values |= {"temperature": args.temperature, "seed": args.seed}
    canvas = job.start.canvas if job.start is not None else None
    if canvas is not None and args.length is None:
        return Unmasking(kind="unmask", lengths=[min(canvas, room + 1)], ends=True, **values)
    lengths = [args.length] if args.length is not None else [one for one in _DEFAULT_LENGTHS if one <= room] or [room]
    return Unmasking(kind="unmask", lengths=lengths, **values)


def images(asked: Sequence[str]) -> Iterator[Path]:
    """The image files that are asked for, and those of folders in the order of their names; UserError if a folder has none."""
    for one in asked:
        path = Path(one)
        if not path.is_dir():
            yield path
            continue
        found = sorted(
            file for file in path.iterdir() if file.suffix.lower().lstrip(".") in IMAGE_ENDINGS and file.is_file()
        )
        if not found:
            raise UserError(f"{path}: a folder without an image; looked for {FORMATS} images")
        yield from found


def _open(path: Path, bad: list[str]) -> Image.Image | None:
    """The image; None, and what is wrong with it said and put down, if it cannot be read."""
    try:
        return decode(path.read_bytes())
    except OSError as error:
        why = f"{path}: cannot be read ({error.strerror})"
    except ImageError as error:
        why = f"{path}: {error}"
    print(why, file=sys.stderr)
    bad.append(why)
    return None


def template(text: str, vocabulary: Vocabulary) -> list[int]:
    """The pieces of a caption with gaps, each a mask: "a ? dog" has one; UserError for a text without."""
    found: list[int] = []
    for part in text.split():
        if part == _GAP:
            found.append(vocabulary.mask_id)
        else:
            found += vocabulary.encode_pieces(clip_pieces(part), 10**6)[1:-1]
    if vocabulary.mask_id not in found:
        raise UserError(
            f'--fill {text!r}: has no gap; write ? for each word piece that is missing, as in "a ? dog on a ?"'
        )
    return found


def _line(path: Path, writer: Any, one: Any) -> dict[str, Any]:
    # what was not written at any step has no probability: a word that was given, or one of a diffusion's random start
    pieces = [
        {
            "piece": writer.piece(piece),
            "step": step,
            "probability": math.exp(min(confidence, 0.0)) if step else None,
        }
        for piece, step, confidence in zip(one.pieces, one.step, one.confidence, strict=True)
    ]
    return {"image": str(path), "caption": writer.text(one), "log_prob": one.log_prob, "pieces": pieces}


def _text(line: dict[str, Any], args: argparse.Namespace, count: int) -> str:
    said = f"{line['image']}: {line['caption']}" if count > 1 else line["caption"]
    if not args.explain:
        return said
    steps = sorted((piece["step"], place) for place, piece in enumerate(line["pieces"]))
    unwritten = "given" if args.fill is not None else "stood there from the start"
    rows = []
    for step, place in steps:
        piece = line["pieces"][place]
        how = (
            f"probability {piece['probability']:.3f}  {piece['piece']}" if step else f"{piece['piece']}  ({unwritten})"
        )
        rows.append(f"  step {step:3d}  place {place + 1:3d}  {how}")
    return "\n".join([said, *rows])
