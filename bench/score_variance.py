"""What the shared masks and the controls do to the variance of a likelihood, and how many samples a decision needs.

    python bench/score_variance.py RUN CHOICE_SET [--items N] [--samples N]
    python bench/score_variance.py results/mini/runs/dense/ViT-T-12/mdc/s0 results/mini/data/choices/swap

Of every item the answer and the option that comes nearest to it are scored under up to 1,024 masks.

*Variance*: of a score, of the difference of the two options under the item's shared masks, and of their difference if each
had masks of its own (the sum of the two scores' variances); all times the number of samples, to be
comparable, by the plain mean and with controls; mean and median over items.

*Adaptive sampling*: looks at 16, 32, 64, … samples; an item is decided at the first look where its difference is further
from 0 than the level 0.05, split evenly over the looks, requires by Student's t with 15 degrees of freedom. Reported: how many
samples were needed, how many items no look decided, and how many decisions another 1,024 masks contradict.

*Without sampling*: right captions of at most ten tokens are also scored by every mask. Reported: how far the sampled
scores are from these bounds, in their own standard errors.
"""

import argparse
import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rows as bench_rows
import torch
from scipy import stats
from torch import Tensor

from mdc.data.shards.index import read_index
from mdc.diffusion.likelihood import controlled_terms, mean_of_groups, token_terms
from mdc.evaluation.job_models import run_scorer
from mdc.evaluation.option_scores import Questions, picture
from mdc.evaluation.predictors.caption_scores import GROUPS, Draws, Pair
from mdc.models.runs import open_run
from mdc.plan.config.score import Scoring

LEVEL = 0.05
_ITEMS = 16  # scored at a time
_SHORT, _SHORTS = 10, 20  # tokens of a caption of which all masks are taken, and how many such captions


def main() -> None:
    parser = bench_rows.parser(__doc__, items=200, samples=1024, threads=1)
    parser.add_argument("run", type=Path, help="a run's folder, of a masked method")
    parser.add_argument("choices", type=Path, help="a choice set's folder")
    args = bench_rows.arguments(parser, items=20, samples=64)
    torch.set_num_threads(args.threads)
    items, again = sampled_items(args, 0), sampled_items(args, 1)
    print(f"{args.run}, {args.choices.name}: {len(items)} items")
    what = f"variance × samples of a difference of scores, {args.run}, {args.choices.name}, {len(items)} items"
    shared, own = variances(items, args.samples)
    peer = "masks of its own for each caption"
    bench_rows.write("score_variance", [bench_rows.compared(what, peer, "nats²", [shared], [own])], args.results)
    adaptive(items, again, args.samples)
    against_enumeration(*opened(args, 0), args.samples)


def opened(args: argparse.Namespace, seed: int) -> tuple[Any, Questions]:
    """The scorer of the run, and the choice set."""
    run, _ = open_run(args.run)
    scoring = Scoring(
        samples=args.samples,
        mismatched=1,
        seed=seed,
        batch_tokens=8192,
        precision="fp32",
        processes=1,
        threads=args.threads,
        device="cpu",
    )
    scorer = run_scorer(run, scoring, torch.device("cpu"))
    index = args.choices / "index.json"
    read_index(index, kind="choices")
    questions = Questions.open(
        args.choices.name,
        index,
        trained=None,
        seed=seed,
        others=1,
        samples=args.samples,
        context_length=run.context_length,
    )
    return scorer, questions


def sampled_items(args: argparse.Namespace, seed: int) -> list[list[tuple[Tensor, Tensor]]]:
    """Of each item (log p, where), (G, m, L) each, of the answer and of the nearest other option by the first 16 samples."""
    scorer, questions = opened(args, seed)
    pairs_of_items: list[list[tuple[Tensor, Tensor]]] = []
    numbers = range(min(args.items, len(questions.images)))
    for start in range(0, len(numbers), _ITEMS):
        pictures, pairs, draws = [], [], []
        for place, number in enumerate(numbers[start : start + _ITEMS]):
            options = [scorer.tokens(text) for text in questions.reader.read(number)[2]["options"]]
            pictures.append(picture(scorer, questions, number))
            pairs += [Pair(place, tokens, place) for tokens in dict.fromkeys(map(tuple, options))]
            draws.append(Draws(f"{questions.name}/{number}", seed, args.samples, 77))
        memory = scorer.look(torch.stack(pictures))
        by_pair: dict[int, tuple[Tensor, Tensor]] = {}
        for chosen, log_probs, where in scorer.captioner.samples(memory, pairs, draws, args.samples // GROUPS):
            by_pair |= dict(zip(chosen, zip(log_probs, where, strict=True), strict=True))
        for place in range(len(pictures)):
            answer, *distractors = [by_pair[p] for p, pair in enumerate(pairs) if pair.item == place]
            if distractors:
                pairs_of_items.append([answer, max(distractors, key=lambda option: _value(option, 1))])
    return pairs_of_items


def against_enumeration(scorer: Any, questions: Questions, samples: int) -> list[float]:
    """Prints, and returns, how many standard errors the sampled bounds of short right captions are above the exact ones."""
    errors: list[float] = []
    for number in range(len(questions.images)):
        tokens = scorer.tokens(questions.reader.read(number)[2]["options"][0])
        length = len(tokens) - 1
        if length > _SHORT or len(errors) == _SHORTS:
            continue
        memory = scorer.look(picture(scorer, questions, number)[None])
        # equation 8 over every set of masks but the empty one: Σ_S Σ_{i∈S} log p_i / (|S|·C(L,|S|))
        where = torch.tensor(list(itertools.product((False, True), repeat=length))[1:])
        sums = scorer.captioner.masked(torch.tensor([tokens]), memory, where[None])[0].double().sum(dim=1).tolist()
        sizes = where.sum(dim=1).tolist()
        exact = sum(value / (size * math.comb(length, size)) for value, size in zip(sums, sizes, strict=True))
        (estimate,) = scorer.captioner.monte_carlo(memory, [Pair(0, tokens)], [questions.draws(number)], samples)
        errors.append((estimate.value - exact) / max(estimate.error, 1e-9))
    if errors:
        root = statistics.mean(value * value for value in errors) ** 0.5
        print(
            f"against all masks, {len(errors)} right captions of at most {_SHORT} tokens: {samples} samples are off by "
            f"{root:.2f} standard errors (root mean square), at most {max(map(abs, errors)):.2f}, "
            f"in the mean {statistics.mean(errors):+.2f}"
        )
    return errors


def _sums(option: tuple[Tensor, Tensor], count: int, control: bool = True) -> Tensor:
    """The score by the first ``count`` samples of each group, a value a sample, (G, count)."""
    log_probs, where = (values[:, :count] for values in option)
    return (controlled_terms(log_probs, where) if control else token_terms(log_probs.double(), where)).sum(dim=-1)


def _value(option: tuple[Tensor, Tensor], count: int) -> float:
    return float(_sums(option, count).mean())


def variances(items: Sequence[Sequence[tuple[Tensor, Tensor]]], samples: int) -> tuple[float, float]:
    """Prints a line for each number of samples; returns those of a difference under shared and under own masks, of all samples
    with controls."""
    print("variance × samples, nats² (mean, median over items)")
    for count in _looks(samples):
        each = count // GROUPS
        for name, control in (("plain", False), ("controls", True)):
            rows: list[list[float]] = [[], [], []]
            for answer, other in items:
                first, second = _sums(answer, each, control), _sums(other, each, control)
                first_variance, second_variance, shared_variance = (
                    float(mean_of_groups(sums)[1]) ** 2 * count for sums in (first, second, first - second)
                )
                for row, value in zip(
                    rows, (first_variance, shared_variance, first_variance + second_variance), strict=True
                ):
                    row.append(value)
            score, shared, own = (f"{statistics.mean(row):8.2f} ({statistics.median(row):7.2f})" for row in rows)
            ratio = statistics.mean(rows[2]) / statistics.mean(rows[1])
            print(
                f"  {count:5d} samples, {name:8s}: a score {score}; a difference {shared}; with masks of its own {own}: "
                f"{ratio:.2f} times as much"
            )
    return statistics.mean(rows[1]), statistics.mean(rows[2])


def adaptive(
    items: Sequence[Sequence[tuple[Tensor, Tensor]]], again: Sequence[Sequence[tuple[Tensor, Tensor]]], samples: int
) -> None:
    """Prints how many samples the decisions took, and how good they were."""
    looks = _looks(samples)
    bar = float(stats.t.isf(LEVEL / 2 / len(looks), GROUPS - 1))
    needed, undecided, wrong, fixed = [], 0, 0, 0
    for (answer, other), (answer_again, other_again) in zip(items, again, strict=True):
        truth = _difference(answer_again, other_again, samples)[0]
        fixed += (_difference(answer, other, samples)[0] > 0) != (truth > 0)
        for count in looks:
            value, error = _difference(answer, other, count)
            if decided := abs(value) > bar * error:
                break
        needed.append(count)
        undecided += not decided
        wrong += (value > 0) != (truth > 0)
    total = len(items)
    print(
        f"adaptive, looks at {', '.join(map(str, looks))}; |difference| > {bar:.2f} standard errors: "
        f"{statistics.mean(needed):.0f} of {samples} samples in the mean, {statistics.median(needed):.0f} in the median "
        f"({samples / statistics.mean(needed):.1f} times fewer passes); {undecided} of {total} items undecided at {samples}; "
        f"another {samples} masks contradict {wrong} decisions, and {fixed} of all samples' without looks"
    )


def _difference(answer: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor], count: int) -> tuple[float, float]:
    each = count // GROUPS
    value, error = mean_of_groups(_sums(answer, each) - _sums(other, each))
    return float(value), float(error)


def _looks(samples: int) -> list[int]:
    looks = [GROUPS]
    while looks[-1] * 2 <= samples:
        looks.append(looks[-1] * 2)
    return looks


if __name__ == "__main__":
    main()
