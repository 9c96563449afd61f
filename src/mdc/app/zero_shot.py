"""The verb ``mdc zero-shot``: classify images by a user's classes with a run."""

import argparse
import csv
import json
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from mdc.app.answers import Classified, Classifying
from mdc.app.classify import Classifier
from mdc.app.model import load_from_args
from mdc.app.user_images import Readable
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.records import UserError, text_lines

_BATCH = 64


def main(args: argparse.Namespace) -> None:
    """``args``: images, run, classes, template, those of :class:`mdc.app.answers.Classifying`, weights, json, csv, params, scale.
    UserError, after all others were classified, if an image cannot be read."""
    classes = _classes(args.classes)
    readable = Readable(args.images)
    model = load_from_args(args)
    warnings.showwarning = lambda message, *_: print(f"mdc zero-shot: {message}", file=sys.stderr)
    options: Classifying = {key: getattr(args, key) for key in ("samples", "seed", "estimator", "debiased")}  # type: ignore[assignment]
    classifier = Classifier(model, classes, args.template or None, options)
    parts = readable.batches(_BATCH, classifier.picture, "images")
    results = (pair for images in parts for pair in zip(images, classifier.of(list(images.values())), strict=True))
    if args.json:
        metadata = {"run": model.name, "weights": model.weights}
        print(json.dumps([{"image": str(path), **asdict(result), **metadata} for path, result in results], indent=1))
    elif args.csv:
        _write(results)
    else:
        kind = ESTIMATORS[classifier.estimator].text
        print(f"{model.name} ({model.weights} weights), {classifier.estimator}{', debiased' * args.debiased}: {kind}")
        for path, result in results:
            print(_text(path, result, len(readable.paths)), flush=True)
    readable.complain()


def _classes(argument: str) -> list[str]:
    """Names in one argument with commas between them, or a file of them, one a line."""
    if not os.path.isfile(argument):  # noqa: PTH113 — False also for more names than a path can have bytes
        classes = [name.strip() for name in argument.split(",") if name.strip()]
        if len(classes) < 2:
            raise UserError(f"--classes {argument}: no such file, and fewer than two names with commas between them")
        return classes
    try:
        return [line.strip() for line in text_lines(Path(argument).read_text(encoding="utf-8-sig")) if line.strip()]
    except UnicodeDecodeError:
        raise UserError(f"--classes {argument}: is not UTF-8 text; needed: names of classes, one a line") from None


def _write(results: Iterator[tuple[Path, Classified]]) -> None:
    """As csv: a row per image and class, in the classes' order; ``chosen``: 1 of the image's class, else 0;
    ``unknown``: tokens without which the class was scored."""
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(["image", "class", "score", "probability", "chosen", "unknown"])
    for path, result in results:
        for label, score in result.scores.items():
            share = "" if result.probabilities is None else result.probabilities[label]
            unknown = " ".join(result.unknown.get(label, ()))
            lines.writerow([path, label, score, share, int(label == result.label), unknown])


def _text(path: Path, result: Classified, count: int) -> str:
    """A line per image; for a single image all classes, the best first."""
    ranked = sorted(result.scores, key=lambda label: -result.scores[label])
    lines = []
    for label in ranked if count == 1 else ranked[:1]:
        share = "" if result.probabilities is None else f"  {result.probabilities[label]:6.1%}"
        without = f" (without {', '.join(result.unknown[label])})" if label in result.unknown else ""
        lines.append(f"{result.scores[label]:9.3f}{share}  {label}{without}")
    return "\n".join(lines) if count == 1 else f"{path}: {lines[0].strip()}"
