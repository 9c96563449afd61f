"""The verb ``mdc score``: a run's scores of captions for an image, or of a whole table of them."""

import argparse
import json
import sys
import warnings
from pathlib import Path

from mdc.app import score_file
from mdc.app.answers import Score
from mdc.app.model import Model, load_from_args
from mdc.app.scores import APART, ranked
from mdc.data.sources.named_table import kind_of
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.records import UserError


def main(args: argparse.Namespace) -> None:
    """``args``: run, image, captions, estimator, weights, samples, seed, mismatched, json, params, scale; for a table, without
    captions, also out, tokens and processes."""
    if not args.captions:
        if args.json:
            raise UserError("--json: goes with an image and its captions; a table's --out may end in .jsonl")
        return score_file.main(args)
    if kind_of(Path(args.image)) is not None:
        raise UserError(f"{args.image}: a table of images and captions takes no CAPTION; allowed: its --out")
    if args.out or args.tokens or args.processes:
        raise UserError("--out, --tokens, --processes: for a table of images and captions alone, without CAPTION")
    model = load_from_args(args)
    warnings.showwarning = lambda message, *_: print(f"mdc score: {message}", file=sys.stderr)
    scores = model.score(
        args.image, args.captions, args.estimator, samples=args.samples, seed=args.seed, mismatched=args.mismatched
    )
    estimator = scores[0].estimator
    metadata = {"run": model.name, "weights": model.weights, "image": str(args.image), "estimator": estimator}
    if args.json:
        samples = args.samples if ESTIMATORS[estimator].sampled else None
        listed = [{key: value for key, value in score.plain().items() if key != "estimator"} for score in scores]
        print(json.dumps({**metadata, "samples": samples, "captions": listed}, indent=1))
    else:
        print("\n".join(_text(model, scores, args)))


def _text(model: Model, scores: list[Score], args: argparse.Namespace) -> list[str]:
    """A table, the best caption first and those with unknown tokens apart, and below it each token's contribution."""
    name = scores[0].estimator
    estimator = ESTIMATORS[name]
    masks = f", {args.samples} masks" if estimator.sampled else ""
    lines = [f"{model.name} ({model.weights} weights), {args.image}", f"{name}: {estimator.text}{masks}", ""]
    heads = ["score", "± s.e.", *(["mismatched", "± s.e.", "gain"] if args.mismatched else []), "per token", "caption"]
    rows = []
    best_first, apart = ranked(scores)
    for score in best_first + apart:
        error, others = (f"{e:.3f}" if estimator.sampled else "" for e in (score.error, score.mismatched_error or 0.0))
        control = score.mismatched
        mismatched = [] if control is None else [f"{control:.2f}", others, f"{score.score - control:+.2f}"]
        each = f"{score.score / len(score.tokens):.3f}" if score.tokens else ""
        without = f" (without {', '.join(score.unknown)})" if score.unknown else ""
        cells = [f"{score.score:.3f}", error, *mismatched, each]
        rows.append([*("–" if cell.strip("+") == "nan" else cell for cell in cells), score.caption + without])
    widths = [max(len(row[place]) for row in [heads, *rows]) for place in range(len(heads) - 1)]
    for row in [heads, *rows]:
        lines.append("  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]))
    if apart:
        lines.insert(len(lines) - len(apart), APART)
    for score in best_first + apart:
        if score.tokens:
            lines += ["", score.caption, "  " + "  ".join(f"{word} {value:.2f}" for word, value in score.tokens)]
    return lines
