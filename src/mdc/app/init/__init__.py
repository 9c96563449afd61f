"""``mdc init``: a scale for somebody's own images, captions and classes, as a file of its own."""

import argparse
import os
import re
import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median

from mdc.app.init.block import MAX_SKIPPED, captioned, scale_text
from mdc.app.init.find import Corpus, recognise
from mdc.app.init.hub import hub_id, look_at_hub
from mdc.app.init.seen import captioned_test_images
from mdc.app.init.survey import Classes, Survey, is_anywhere, look_at_classes, places_under, survey
from mdc.app.init.values import Values, choose
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.layers import is_scale_name, scale_file, scales_of
from mdc.plan.config.params import Params
from mdc.plan.config.read import load
from mdc.plan.data_folder import data_folder
from mdc.plan.records import UserError, set_mode, write_text

_LENGTH = 12  # default tokens of a caption


def main(args: argparse.Namespace) -> None:
    """Survey ``args.paths``, write scales/NAME.yaml beside ``args.params``, and print the findings, the chosen values, and the
    command to run. ``args.default``: make it the parameter file's scale.

    UserError for a name or a file that cannot be used; nothing is written then.
    """
    file = _new_scale(args.params, args.name)
    root = data_folder()
    corpus, contents = _look(root, args.paths, args.name)
    probe = places_under(root, [args.probe])[0] if args.probe is not None else None
    classes = look_at_classes(root / probe) if probe is not None else None
    options = {name: getattr(args, name) for name in ("image_size", "tower", "batch_size", "epochs", "vocabulary")}
    values = choose(contents, corpus.holds_out, classes, options)
    _write_scale(args.params, file, scale_text(args.name, corpus, contents, probe, classes, values))
    args.interrupted = f"{file} is written"
    if args.default:
        _choose_scale(args.params, args.name)

    print(f"{file}: written")
    for line in _lines(corpus, contents, classes, values):
        print(f"  {line}")
    if probe is not None and (
        seen := captioned_test_images(contents, root / corpus.images, root, probe, values.val_fraction)
    ):
        print(f"  warning:  {seen}; tables will count those that are trained on; keep them out of the captions")
    print(f"  time:     {_time(load(args.params, args.name), contents, values)}", flush=True)
    place = os.environ.get("MDC_DATA")
    start = f"MDC_DATA={shlex.quote(place)} " if place else ""
    name = "table1" if classes is not None else "table3" if captioned(corpus, contents, values) > 9 else "figure_loss"
    option = "" if args.default else f" --config scale={args.name}"
    print(f"To run it:\n  {start}snakemake results/{ARTEFACTS[name].target} --cores all{option}")
    if args.default:
        print(f"{args.params}: scale: {args.name}")
    else:
        print(f"To make it the default: write `scale: {args.name}` into {args.params} (mdc init --default does)")


def _new_scale(params: str | Path, name: str) -> Path:
    """The path of a new scale. UserError for an invalid or existing ``name``, or invalid ``params``."""
    if not is_scale_name(name):  # 12, on, null, 2026-01-01: --config scale=12 would be a number too
        raise UserError(
            f"NAME = {name!r}: no name of a scale; allowed: letters, digits, '_', '.' and '-', nothing that YAML reads as a "
            "number, a date or a truth value"
        )
    load(params)
    file = scale_file(params, name)
    if file.exists():
        raise UserError(f"{file}: already exists; the scales are {', '.join(scales_of(params))}; choose another name")
    return file


def _write_scale(params: str | Path, file: Path, text: str) -> None:
    """Write the ``file`` of a scale. UserError, and no file, if the scale is invalid."""
    write_text(file, text)
    try:
        load(params, file.stem)
    except BaseException:
        file.unlink()
        raise


def _choose_scale(params: str | Path, name: str) -> None:
    """Make ``name`` the scale that the parameter file names, and leave every other byte of it."""
    file = Path(params).resolve()  # keep symbolic links
    old = file.read_bytes().decode("utf-8")
    new, count = re.subn(r"(?m)^(scale:[ \t]*)[^\s#]+", rf"\g<1>{name}", old)
    if count != 1:
        raise UserError(f"{params}: has no line `scale: NAME`; write `scale: {name}` there by hand")
    mode = file.stat().st_mode
    write_text(file, new)
    set_mode(file, mode)


def _look(root: Path, paths: list[str], name: str) -> tuple[Corpus, Survey]:
    dataset = hub_id(paths[0]) if len(paths) == 1 else None
    if dataset is not None and (paths[0].startswith("hub:") or not is_anywhere(root, paths[0])):
        return look_at_hub(dataset, name)
    corpus = recognise(root, places_under(root, paths))
    return corpus, survey(root, corpus)


def _lines(corpus: Corpus, contents: Survey, classes: Classes | None, values: Values) -> Iterator[str]:
    about = "about " * contents.about
    yield f"images:   {about}{sum(contents.counts.values()):,} with captions in {corpus.images}"
    length = f", median length {median(contents.pieces):.0f} tokens" if contents.pieces else ""
    yield f"captions: {about}{contents.captions:,} from {corpus.captions}{length}"
    if contents.sizes:
        middle, largest = (sorted(contents.sizes, key=min)[place] for place in (len(contents.sizes) // 2, -1))
        stored = f"; larger ones are kept at {values.stored} pixels" if values.stored else "; kept as they are"
        yield (
            f"sizes:    median {middle[0]} × {middle[1]}, {largest[0]} × {largest[1]} the largest of "
            f"{len(contents.sizes)} that were opened{stored}"
        )
    else:
        yield f"sizes:    not looked at; images are kept at {values.stored} pixels at most"
    source = (
        "the data's own" if values.val_fraction is None else f"{100 * values.val_fraction:g} % by a hash of the names"
    )
    yield f"splits:   {about}{values.train:,} images to train on, {values.val:,} held out ({source})"
    left_out = [str(contents.left_out)] if contents.left_out.counts else []
    left_out += [f"captions without words: {contents.left_out.captions:,}"] if contents.left_out.captions else []
    left_out += [f"links that lead nowhere: {contents.broken_links:,}"] if contents.broken_links else []
    left_out += [f"images that nothing captions: {contents.unused:,}"] if contents.unused else []
    yield f"left out: {'; '.join(left_out) or 'nothing so far'}"
    count = sum(contents.left_out.counts.values())
    if count > MAX_SKIPPED * (count + sum(contents.counts.values())):
        yield f"          above max_skipped ({MAX_SKIPPED:.0%}), so the job will stop: mend the data, or raise it in the scale"
    if classes is not None:
        yield (
            f"probe:    {len(classes.names)} classes, {classes.train:,} images to train on, {classes.test:,} to test"
            + f" ({classes.said})" * bool(classes.said)
        )
    size = values.size
    words = "the tokens of the captions" if size.vocabulary == "words" else "CLIP's whole vocabulary"
    yield (
        f"chosen:   {size.tower} at {size.image_size} pixels, {size.epochs} passes in batches of {size.batch_size}, {words}"
    )
    yield "overfits: a table says so; then fewer passes (`epochs`), or `weights: best` for captions and scores"


def _time(params: Params, contents: Survey, values: Values) -> str:
    """Estimated time of shards and trainings on this machine, from a few steps."""
    from mdc.app.init.estimate import training_seconds

    length = round(median(contents.pieces)) if contents.pieces else _LENGTH
    seconds, device = training_seconds(params, values.train, length, values.size.vocabulary == "full")
    shards = contents.seconds * sum(contents.counts.values())
    making = f", making the shards at most {_rounded(shards)}" if contents.sizes else ""
    return f"training CLIP, ARC and MDC takes about {_rounded(seconds)} on this machine's {device}{making}; tables come after"


def _rounded(seconds: float) -> str:
    if seconds < 90:
        return "a minute"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 48 * 3600 else f"{timedelta(seconds=seconds).days} days"
