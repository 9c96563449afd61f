"""Scoring captions by a masked diffusion captioner: ours against a plain loop, on the same model in one run.

    python bench/score.py [--captions N] [--samples N] [--small]
    python bench/score.py --run results/mini/runs/dense/ViT-T-12/mdc/s0     # the variance, on a trained run

The peer works as LLaDA's get_log_likelihood does: one caption after the other, a batch of its masked versions at a time through
the whole decoder, all logits of all places, cross-entropy at the masked ones. It is fair: it too reads the image once, and does
not pad. What it leaves out is what is measured: keys and values of the image for every version, and logits that nobody reads.
Both compute the same model (ViT-B/32 with a decoder of 12 layers; --small: a tiny one), in fp32, on the same threads.

Cost and variance are told apart: seconds a pass here, the variance of a score and of a difference with --run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mdc.config import Backbone, Decoder
from mdc.diffusion.likelihood import mask_counts, mean_of_groups, token_terms
from mdc.evaluation.retrieval import HeldOut
from mdc.evaluation.scored_run import run_scorer
from mdc.formats.images import normalise
from mdc.models.captioner import Captioner
from mdc.predictors.caption_scores import CaptionScorer, Pair, scored
from mdc.predictors.draws import GROUPS, draws_of

B32 = Backbone(
    label="ViT-B/32",
    image_size=224,
    patch_size=32,
    width=768,
    layers=12,
    heads=12,
    embed_dim=512,
    decoder=Decoder(width=512, layers=12, heads=8),
)
TINY = B32.model_copy(
    update={"image_size": 64, "width": 96, "layers": 2, "heads": 3, "decoder": Decoder(width=96, layers=2, heads=3)}
)
BATCH = 32  # versions that the peer computes at a time, as LLaDA's mc batch


class Peer:
    """The plain loop; ``visual`` (M, E) are an image's tokens, read once."""

    def __init__(self, model: Captioner, mask_id: int) -> None:
        self.model, self.mask_id = model, mask_id

    @torch.no_grad()
    def log_probs(self, tokens: Tensor, where: Tensor, visual: Tensor) -> Tensor:
        """log p of the true tokens where they are masked, 0 elsewhere: tokens (T,), where (n, L) → (n, L)."""
        found = torch.zeros(where.shape)
        for start in range(0, len(where), BATCH):
            part = where[start : start + BATCH]
            rows = tokens.expand(len(part), -1)
            inputs = torch.cat([rows[:, :1], rows[:, 1:].masked_fill(part, self.mask_id)], dim=1)
            lengths = torch.full((len(part),), len(tokens))
            hidden = self.model.text(inputs, lengths, visual.expand(len(part), -1, -1))
            logits = self.model.head(hidden)[:, 1:].float()
            loss = torch.nn.functional.cross_entropy(logits[part], rows[:, 1:][part], reduction="none")
            found[start : start + BATCH][part] = -loss
        return found

    @torch.no_grad()
    def heuristic(self, tokens: Tensor, visual: Tensor) -> float:
        """The paper's N steps, one pass a step, all logits of all places."""
        length = len(tokens) - 1
        where, total = torch.ones(length, dtype=torch.bool), 0.0
        for _ in range(length):
            inputs = torch.cat([tokens[:1], tokens[1:].masked_fill(where, self.mask_id)])
            hidden = self.model.text(inputs[None], torch.tensor([len(tokens)]), visual[None])
            log_probs = self.model.head(hidden)[0, 1:].float().log_softmax(dim=-1)
            place = int(torch.where(where, log_probs.amax(dim=-1), -torch.inf).argmax())
            total += float(log_probs[place, tokens[1 + place]])
            where[place] = False
        return total


def cost(args: argparse.Namespace) -> None:
    """Seconds a pass, ours and the peer's, for two images with four captions each, of 8 to 20 tokens."""
    backbone = TINY if args.small else B32
    vocabulary = 500 if args.small else 49_408
    model = Captioner(backbone, vocabulary, 77, causal=False, seed=0).eval()
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(
        0, 256, (2, 3, backbone.image_size, backbone.image_size), generator=generator, dtype=torch.uint8
    )
    lengths = [8, 12, 12, 20][: args.captions] if args.captions < 4 else [8, 12, 12, 20]
    captions = [torch.randint(0, vocabulary - 2, (n + 1,), generator=generator) for n in lengths]
    pairs = [Pair(image, caption.tolist(), n) for image in range(2) for n, caption in enumerate(captions)]
    scorer = CaptionScorer(model, vocabulary, "fp32", torch.device("cpu"), batch_tokens=4096)
    peer = Peer(model, vocabulary)
    draws = [draws_of(f"bench {n}", 0, args.samples, 77) for n in range(len(captions))]
    with torch.no_grad():
        visual = model.encoder(normalise(images))[1]

    def ours() -> list[Tensor]:
        memory = scorer.look(images)
        found: list[Any] = [None] * len(pairs)
        for chosen, log_probs, _ in scorer.samples(memory, pairs, draws, 0, args.samples // GROUPS):
            for place, one in zip(chosen, log_probs, strict=True):
                found[place] = one.flatten(0, 1)
        return found

    def plain() -> list[Tensor]:
        return [
            peer.log_probs(torch.tensor(pair.tokens), _masks(pair, draws, args.samples), visual[pair.image])
            for pair in pairs
        ]

    passes = len(pairs) * args.samples
    same = _compare(f"Monte Carlo, {passes:,} passes", ours, plain, passes, args.repeats)
    worst = max(float((a - b).abs().max()) for a, b in zip(*same, strict=True))
    print(f"  log p under the same masks: greatest difference {worst:.1e} nats")
    steps = sum(len(pair.tokens) - 1 for pair in pairs)
    both = _compare(
        f"heuristic, {steps} passes",
        lambda: [one.value for one in scorer.heuristic(scorer.look(images), pairs)],
        lambda: [peer.heuristic(torch.tensor(pair.tokens), visual[pair.image]) for pair in pairs],
        steps,
        args.repeats,
    )
    print(f"  scores: greatest difference {max(abs(a - b) for a, b in zip(*both, strict=True)):.1e} nats")


def _masks(pair: Pair, draws: Sequence[Any], samples: int) -> Tensor:
    length = len(pair.tokens) - 1
    where = draws[pair.item].masks(length, lambda points: mask_counts(points, length), 0, samples // GROUPS)
    return where.flatten(0, 1)


def _compare(name: str, ours: Callable[[], Any], peer: Callable[[], Any], passes: int, repeats: int) -> tuple[Any, Any]:
    """Both in turn, ``repeats`` times; prints the medians and their ratio."""
    times: tuple[list[float], list[float]] = ([], [])
    results: tuple[Any, Any] = (None, None)
    for _ in range(repeats):
        found = []
        for place, run in enumerate((ours, peer)):
            began = time.perf_counter()
            found.append(run())
            times[place].append(time.perf_counter() - began)
        results = found[0], found[1]
    mine, other = (statistics.median(one) / passes * 1e3 for one in times)
    print(f"{name}: ours {mine:.2f} ms a pass, plain loop {other:.2f} ms: {other / mine:.2f} times as fast")
    return results


def variance(args: argparse.Namespace) -> None:
    """On a trained run and its held-out pairs: the variance of a score and of the difference of two captions, times samples."""
    import json

    from mdc.config import Scoring
    from mdc.jobs.read import as_job
    from mdc.predictors.runs import read_run
    from mdc.text import Vocabulary

    folder = Path(args.run)
    checkpoint, manifest = read_run(folder)
    job = as_job(manifest["config"], "pretrain", str(folder))
    data = folder.parents[len(Path(manifest["id"]).parts) - 1] / "data"
    vocabulary = Vocabulary.read(data / "vocabularies" / job.vocabulary / "vocabulary.json")
    values = {"samples": args.samples, "mismatched": 1, "seed": 0, "batch_tokens": 8192, "precision": "fp32"}
    scoring = Scoring(**values, processes=1, threads=torch.get_num_threads(), device="cpu")
    scorer = run_scorer(checkpoint, job, vocabulary, scoring, torch.device("cpu")).captioner
    pairs = HeldOut.of(data / "corpora" / job.corpus, args.captions, 77)
    pictures = torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in pairs.images])
    memory = scorer.look(pictures)
    rng = np.random.default_rng(0)
    asked = []
    for n, caption in enumerate(pairs.captions):
        ids = vocabulary.encode(caption)
        swapped = [ids[0], *rng.permutation(ids[1:-1]).tolist(), ids[-1]]  # a wrong caption of equal length
        asked += [Pair(n, ids, n), Pair(n, swapped, n)]
    rows: dict[str, list[float]] = {}
    for samples in (16, 64, 256, args.samples):
        draws = [draws_of(f"variance {n}", 1, samples, 77) for n in range(len(pairs.captions))]
        for chosen, log_probs, where in scorer.samples(memory, asked, draws, 0, samples // GROUPS):
            for name, control in (("plain", False), ("controlled", True)):
                for one in scored(log_probs, where, control):
                    rows.setdefault(f"{samples} {name} score", []).append(one.error**2 * samples)
            by_place = dict(zip(chosen, zip(log_probs, where, strict=True), strict=True))
            for place in (p for p in by_place if p % 2 == 0 and p + 1 in by_place):
                (first, mask), (second, _) = by_place[place], by_place[place + 1]
                for name, control in (("plain", False), ("controlled", True)):
                    error = _difference(first, second, mask, control)
                    rows.setdefault(f"{samples} {name} difference", []).append(error**2 * samples)
    print(json.dumps({name: round(float(np.mean(values)), 2) for name, values in rows.items()}, indent=1))


def _difference(first: Tensor, second: Tensor, where: Tensor, control: bool) -> float:
    """The standard error of the difference of two captions under the same masks."""
    from mdc.diffusion.likelihood import controlled_terms

    terms = [
        (controlled_terms(one[None], where[None])[0] if control else token_terms(one.double(), where)).sum(dim=-1)
        for one in (first, second)
    ]
    return float(mean_of_groups(terms[0] - terms[1])[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=int, default=4)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--run", metavar="FOLDER", help="a trained masked run: its variance instead of the cost")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.run:
        variance(args)
    else:
        cost(args)


if __name__ == "__main__":
    main()
