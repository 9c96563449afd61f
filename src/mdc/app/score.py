"""The verb ``mdc score``: what one run says of captions for an image, for a person to read."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import asdict

from mdc.app.find_run import run_folder
from mdc.app.model import Model, Score, load
from mdc.plan.estimators import ESTIMATORS


def main(args: argparse.Namespace) -> None:
    """``args``: run, image, captions, estimator, weights, samples, seed, blind, json, params, scale."""
    model = load(run_folder(args.run, args.params, args.scale), args.weights)
    warnings.showwarning = lambda message, *_: print(f"mdc score: {message}", file=sys.stderr)
    scores = model.score(
        args.image, args.captions, args.estimator, samples=args.samples, seed=args.seed, blind=args.blind
    )
    estimator = scores[0].estimator
    told = {"run": model.name, "weights": model.weights, "image": str(args.image), "estimator": estimator}
    if args.json:
        samples = args.samples if ESTIMATORS[estimator].sampled else None
        listed = [{key: value for key, value in asdict(one).items() if key != "estimator"} for one in scores]
        print(json.dumps({**told, "samples": samples, "captions": listed}, indent=1))
    else:
        print("\n".join(_text(model, scores, args)))


def _text(model: Model, scores: list[Score], args: argparse.Namespace) -> list[str]:
    """A table, the best caption first, and below it what each token adds."""
    name = scores[0].estimator
    estimator = ESTIMATORS[name]
    drawn = f", {args.samples} masks" if estimator.sampled else ""
    said = [f"{model.name} ({model.weights} weights), {args.image}", f"{name}: {estimator.text}{drawn}", ""]
    heads = ["score", "± s.e.", *(["blind", "± s.e.", "gain"] if args.blind else []), "per token", "caption"]
    rows = []
    ranked = sorted(scores, key=lambda one: -one.score)
    for one in ranked:
        error, blind_error = (f"{e:.3f}" if estimator.sampled else "" for e in (one.error, one.blind_error or 0.0))
        blind = [f"{one.blind:.2f}", blind_error, f"{one.score - one.blind:+.2f}"] if one.blind is not None else []
        each = f"{one.score / len(one.tokens):.3f}" if one.tokens else ""
        without = f" (without {', '.join(one.unknown)})" if one.unknown else ""
        rows.append([f"{one.score:.3f}", error, *blind, each, one.caption + without])
    widths = [max(len(row[place]) for row in [heads, *rows]) for place in range(len(heads) - 1)]
    for row in [heads, *rows]:
        said.append("  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]))
    for one in ranked:
        if one.tokens:
            said += ["", one.caption, "  " + "  ".join(f"{word} {value:.2f}" for word, value in one.tokens)]
    return said
