"""The verb ``mdc score``: what one run says of captions for an image, for a person to read."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from pydantic import ValidationError

from mdc.data.formats.images import FORMATS, ImageError, decode
from mdc.evaluation.predictors.blind import log_mean_probability, mean_score
from mdc.evaluation.predictors.caption_scores import Pair, Scored
from mdc.evaluation.predictors.draws import draws_of
from mdc.evaluation.predictors.score import caption_tokens
from mdc.evaluation.retrieval import HeldOut
from mdc.evaluation.scored_run import run_scorer
from mdc.models.runs import open_run, scale_of, weights_of
from mdc.models.text import clip_pieces, clip_text
from mdc.plan.config.problems import first_problem
from mdc.plan.config.score import Scoring, estimators_of
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.parts import family_of
from mdc.plan.records import UserError
from mdc.training.device import choose_device

_BLIND = 8  # held-out images that stand in for the caption's own


@dataclass(frozen=True)
class Answer:
    """One caption: ``score`` in nats (or a cosine), its standard error, what each token adds, and the blind score
    with its own error. ``unknown``: its pieces that the model's vocabulary does not have, without which it was scored."""

    caption: str
    score: float
    error: float
    tokens: list[tuple[str, float]]
    blind: float | None
    blind_error: float | None
    unknown: list[str]


def main(args: argparse.Namespace) -> None:
    """``args``: run, image, captions, estimator, weights, samples, seed, blind, json, params, scale."""
    folder = run_folder(args.run, args.params, args.scale)
    weights = args.weights or weights_of(folder)
    run, manifest = open_run(folder, weights)
    job = run.job
    names = estimators_of(family_of(job.method.objective), job.method.t_range)
    if not names:
        raise UserError(f"{args.run}: a run of {job.method_name} ({job.method.objective}) cannot score captions")
    estimator = args.estimator or names[0]
    if estimator not in names:
        raise UserError(
            f"{args.run}: a run of {job.method_name} has no estimator {estimator!r}; it has {', '.join(names)}"
        )
    scoring = _scoring(args)
    scorer = run_scorer(run, scoring, choose_device("auto"))
    pictures = [_picture(args.image)]
    if args.blind:
        corpus = scale_of(folder, manifest) / "data" / "corpora" / job.corpus
        pictures += other_images(scorer, corpus, pictures[0], job.protocol.data.context_length)
    answers = ask(scorer, estimator, pictures, args.captions, args.samples, args.seed)
    if unknown := sorted({piece for one in answers for piece in one.unknown}):
        print(
            f"mdc score: not in this model's vocabulary, and left out: {', '.join(unknown)}; to train with all of CLIP's pieces: "
            "data.vocabularies: {words: full}",
            file=sys.stderr,
        )
    told = {"run": manifest["id"], "weights": weights, "image": str(args.image), "estimator": estimator}
    if args.json:
        samples = args.samples if ESTIMATORS[estimator].sampled else None
        print(json.dumps({**told, "samples": samples, "captions": [vars(one) for one in answers]}, indent=1))
    else:
        print("\n".join(_text(told, answers, args)))


def _scoring(args: argparse.Namespace) -> Scoring:
    """How to score, from the command line; UserError for a number that cannot be."""
    if args.samples < 16 or args.samples % 16:
        raise UserError(f"--samples {args.samples}: must be a multiple of 16")
    try:
        return Scoring(
            samples=args.samples,
            mismatched=_BLIND,
            seed=args.seed,
            batch_tokens=8192,
            precision="fp32",
            processes=1,
            threads=torch.get_num_threads(),
            device="auto",
        )
    except ValidationError as error:
        raise UserError(f"--{first_problem(error)}") from None


def run_folder(run: str, params: str, scale: str | None) -> Path:
    """The folder of a run, given as a folder or as an id of ``scale``.

    Without ``scale``, of the scale that ``params`` names, otherwise of the only other scale that has it. UserError if no scale
    has it, or several have.
    """
    if (Path(run) / "run.json").is_file():
        return Path(run)
    results, own = Path("results"), scale
    if own is None:
        from mdc.plan.config.read import load

        own = load(params).scale
    name = run.removeprefix("runs/")
    scales = sorted(folder.name for folder in results.glob("*") if (folder / "runs" / name / "run.json").is_file())
    found = [own] if own in scales else [] if scale else scales
    if len(found) == 1:
        return results / found[0] / "runs" / name
    if scales:
        raise UserError(f"--run {run}: scale {own} has no such run, but {', '.join(scales)} have; choose by --scale")
    ids = sorted(
        {str(path.parent.relative_to(runs)) for runs in results.glob("*/runs") for path in runs.rglob("run.json")}
    )
    raise UserError(
        f"--run {run}: no folder with a run.json, and no scale's run; runs: {', '.join(ids[:8]) or 'none yet'}"
    )


def other_images(scorer: Any, corpus: Path, own: Image.Image, context_length: int) -> list[Image.Image]:
    """The first held-out images that stand in for ``own``: none that is ``own`` itself, as the model sees it.

    UserError if the corpus has fewer than two of them.
    """
    picture = scorer.picture(own)
    return HeldOut.of(
        corpus, _BLIND, context_length, leave_out=lambda image: torch.equal(scorer.picture(image), picture)
    ).images


def ask(
    scorer: Any, estimator: str, pictures: Sequence[Image.Image], captions: Sequence[str], samples: int, seed: int
) -> list[Answer]:
    """The score of each caption with the first of ``pictures``; blind with the others, if there are any."""
    vocabulary, length = scorer.vocabulary, scorer.context_length
    tokens = [caption_tokens(vocabulary, caption, length, leave_out=True) for caption in captions]
    seen = scorer.look(torch.stack([scorer.picture(image) for image in pictures]))
    pairs = [Pair(image, ids) for ids in tokens for image in range(len(pictures))]
    draws = [draws_of("asked", seed, samples, scorer.context_length)]
    scores: list[Scored] = scorer.score(estimator, seen, pairs, draws)
    answers = []
    for place, caption in enumerate(captions):
        own, *others = scores[place * len(pictures) : (place + 1) * len(pictures)]
        nats = ESTIMATORS[estimator].nats
        blind = (log_mean_probability if nats else mean_score)(own, others) if others else None
        pieces = [clip_text([piece]) for piece in vocabulary.known(clip_pieces(caption))]
        each = zip([*pieces, "<end>"], own.tokens.tolist(), strict=True) if nats else ()
        without, its_error = (blind.value, blind.error) if blind is not None else (None, None)
        answers.append(
            Answer(caption, own.value, own.error, list(each), without, its_error, vocabulary.unknown(caption))
        )
    return answers


def _without(one: Answer) -> str:
    return f" (without {', '.join(one.unknown)})" if one.unknown else ""


def _picture(path: str) -> Image.Image:
    try:
        return decode(Path(path).read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except ImageError as error:
        raise UserError(f"{path}: {error}; allowed: a whole {FORMATS} image") from None


def _text(told: dict[str, str], answers: Sequence[Answer], args: argparse.Namespace) -> list[str]:
    """A table, the best caption first, and below it what each token adds."""
    estimator = ESTIMATORS[told["estimator"]]
    drawn = f", {args.samples} masks" if estimator.sampled else ""
    said = [
        f"{told['run']} ({told['weights']} weights), {told['image']}",
        f"{told['estimator']}: {estimator.text}{drawn}",
        "",
    ]
    heads = ["score", "± s.e.", *(["blind", "± s.e.", "gain"] if args.blind else []), "per token", "caption"]
    rows = []
    ranked = sorted(answers, key=lambda one: -one.score)
    for one in ranked:
        error, blind_error = (f"{e:.3f}" if estimator.sampled else "" for e in (one.error, one.blind_error or 0.0))
        blind = [f"{one.blind:.2f}", blind_error, f"{one.score - one.blind:+.2f}"] if one.blind is not None else []
        each = f"{one.score / len(one.tokens):.3f}" if one.tokens else ""
        rows.append([f"{one.score:.3f}", error, *blind, each, one.caption + _without(one)])
    widths = [max(len(row[place]) for row in [heads, *rows]) for place in range(len(heads) - 1)]
    for row in [heads, *rows]:
        said.append("  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]))
    for one in ranked:
        if one.tokens:
            said += ["", one.caption, "  " + "  ".join(f"{word} {value:.2f}" for word, value in one.tokens)]
    return said
