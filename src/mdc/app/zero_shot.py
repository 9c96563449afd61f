"""The verb ``mdc zero-shot``: which of a person's classes a run finds in images."""

from __future__ import annotations

import argparse
import csv
import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from mdc.app.answers import Classified, Classifying
from mdc.app.classify import Classifier
from mdc.app.given_images import Readable
from mdc.app.model import load_asked
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.records import UserError

_BATCH = 64


def main(args: argparse.Namespace) -> None:
    """``args``: images, run, classes, template, those of :class:`mdc.app.answers.Classifying`, weights, json, csv, params, scale.
    UserError, after all others were classified, if an image cannot be read."""
    classes = _classes(args.classes)
    readable = Readable(args.images)
    model = load_asked(args)
    warnings.showwarning = lambda message, *_: print(f"mdc zero-shot: {message}", file=sys.stderr)
    options: Classifying = {key: getattr(args, key) for key in ("samples", "seed", "estimator", "debiased")}  # type: ignore[assignment]
    classifier = Classifier(model, classes, args.template or None, options)
    parts = readable.batches(_BATCH, "images")
    found = (pair for some in parts for pair in zip(some, classifier.of(list(some.values())), strict=True))
    if args.json:
        told = {"run": model.name, "weights": model.weights}
        print(json.dumps([{"image": str(path), **asdict(one), **told} for path, one in found], indent=1))
    elif args.csv:
        _write(found)
    else:
        kind = ESTIMATORS[classifier.estimator].text
        print(f"{model.name} ({model.weights} weights), {classifier.estimator}{', debiased' * args.debiased}: {kind}")
        for path, one in found:
            print(_text(path, one, len(readable.paths)), flush=True)
    readable.complain()


def _classes(given: str) -> list[str]:
    """Names in one argument with commas between them, or a file of them, one a line."""
    path = Path(given)
    if not path.is_file():
        classes = [one.strip() for one in given.split(",") if one.strip()]
        if len(classes) < 2:
            raise UserError(f"--classes {given}: no such file, and fewer than two names with commas between them")
        return classes
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise UserError(f"--classes {path}: is not UTF-8 text; needed: names of classes, one a line") from None


def _write(found: Iterator[tuple[Path, Classified]]) -> None:
    """As csv: a row an image and class, in the classes' order; ``chosen``: 1 of the image's class, else 0;
    ``unknown``: tokens without which the class was scored."""
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(["image", "class", "score", "probability", "chosen", "unknown"])
    for path, one in found:
        for label, score in one.scores.items():
            share = "" if one.probabilities is None else one.probabilities[label]
            unknown = " ".join(one.unknown.get(label, ()))
            lines.writerow([path, label, score, share, int(label == one.label), unknown])


def _text(path: Path, one: Classified, count: int) -> str:
    """A line an image; of a single image all classes, the best first."""
    ranked = sorted(one.scores, key=lambda label: -one.scores[label])
    lines = []
    for label in ranked if count == 1 else ranked[:1]:
        share = "" if one.probabilities is None else f"  {one.probabilities[label]:6.1%}"
        without = f" (without {', '.join(one.unknown[label])})" if label in one.unknown else ""
        lines.append(f"{one.scores[label]:9.3f}{share}  {label}{without}")
    return "\n".join(lines) if count == 1 else f"{path}: {lines[0].strip()}"
