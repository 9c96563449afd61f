"""Scoring captions by a masked diffusion captioner: ours against a plain loop, on the same model in one run.

    python bench/score.py [--images N] [--samples N] [--small]

The peer works as LLaDA's get_log_likelihood does: one caption after the other, a batch of its masked versions at a time through
the whole decoder, all logits of all places, cross-entropy at the masked ones. It is fair: it too reads the image once, and does
not pad. What it leaves out is what is measured: keys and values of the image for every version, and logits that nobody reads.
Both compute the same model (ViT-B/32 with a decoder of 12 layers; --small: a tiny one), in fp32, on the same threads.

This bench measures seconds per pass; bench/score_variance.py measures variances, on a trained run.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import rows
import torch
from torch import Tensor
from turns import answered

from mdc.diffusion.likelihood import mask_counts
from mdc.evaluation.predictors.caption_scores import GROUPS, Draws, Pair
from mdc.methods.masked.score import Scorer
from mdc.models.captioner import Captioner
from mdc.models.normalise import normalise
from mdc.plan.config.kinds.backbones import Backbone, Decoder

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
LENGTHS = (7, 9, 11, 12, 14, 18)  # pieces of a caption
BATCH = 32  # versions that the peer computes at a time, as LLaDA's mc batch


class Peer:
    """The plain loop; ``visual`` (M, E) are an image's tokens, read once."""

    def __init__(self, model: Captioner, mask_id: int) -> None:
        self.model, self.mask_id = model, mask_id

    @torch.no_grad()
    def log_probs(self, tokens: Tensor, where: Tensor, visual: Tensor) -> Tensor:
        """log p of the true tokens where they are masked, 0 elsewhere: tokens (T,), where (n, L) → (n, L)."""
        out = torch.zeros(where.shape)
        for start in range(0, len(where), BATCH):
            part = where[start : start + BATCH]
            rows = tokens.expand(len(part), -1)
            inputs = torch.cat([rows[:, :1], rows[:, 1:].masked_fill(part, self.mask_id)], dim=1)
            hidden = self.model.text(inputs, None, visual.expand(len(part), -1, -1))
            logits = self.model.head(hidden)[:, 1:].float()
            loss = torch.nn.functional.cross_entropy(logits[part], rows[:, 1:][part], reduction="none")
            out[start : start + BATCH][part] = -loss
        return out

    @torch.no_grad()
    def heuristic(self, tokens: Tensor, visual: Tensor) -> float:
        """The paper's N steps, one pass a step, all logits of all places."""
        length = len(tokens) - 1
        where, total = torch.ones(length, dtype=torch.bool), 0.0
        for _ in range(length):
            inputs = torch.cat([tokens[:1], tokens[1:].masked_fill(where, self.mask_id)])
            hidden = self.model.text(inputs[None], None, visual[None])
            log_probs = self.model.head(hidden)[0, 1:].float().log_softmax(dim=-1)
            place = int(torch.where(where, log_probs.amax(dim=-1), -torch.inf).argmax())
            total += float(log_probs[place, tokens[1 + place]])
            where[place] = False
        return total


def cost(args: argparse.Namespace) -> None:
    """Seconds a pass, ours and the peer's, for items of three options each, as SugarCrepe's are: see ``_options``."""
    backbone = TINY if args.small else B32
    vocabulary = 500 if args.small else 49_408
    model = Captioner(backbone, vocabulary, 77, causal=False, seed=0).eval()
    generator = torch.Generator().manual_seed(0)
    shape = (args.images, 3, backbone.image_size, backbone.image_size)
    images = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    pairs = [
        Pair(image, option, image)
        for image in range(args.images)
        for option in _options(LENGTHS[image % len(LENGTHS)], vocabulary - 2, generator)
    ]
    scorer = Scorer(model, vocabulary, "fp32", torch.device("cpu"), batch_tokens=4096)
    peer = Peer(model, vocabulary)
    draws = [Draws(f"bench {n}", 0, args.samples, 77) for n in range(args.images)]
    with torch.no_grad():
        visual = model.encoder(normalise(images))[1]

    def ours() -> list[Tensor]:
        memory = scorer.look(images)
        by_pair: list[Any] = [None] * len(pairs)
        for chosen, log_probs, _ in scorer.samples(memory, pairs, draws, args.samples // GROUPS):
            for place, values in zip(chosen, log_probs, strict=True):
                by_pair[place] = values.flatten(0, 1)
        return by_pair

    def plain() -> list[Tensor]:
        return [
            peer.log_probs(torch.tensor(pair.tokens), _masks(pair, draws, args.samples), visual[pair.image])
            for pair in pairs
        ]

    passes, peers = len(pairs) * args.samples, "the plain loop, as LLaDA's"
    row, same = compared(f"scoring captions by MDC, Monte Carlo, {passes:,} passes", peers, ours, plain, passes, args)
    rows.write("score", [row], args.results)
    worst = max(float((a - b).abs().max()) for a, b in zip(*same, strict=True))
    print(f"  log p under the same masks: greatest difference {worst:.1e} nats")
    steps = sum(len(pair.tokens) - 1 for pair in pairs)
    row, scores = compared(
        f"scoring captions by MDC, heuristic, {steps} passes",
        peers,
        lambda: [values.value for values in scorer.heuristic(scorer.look(images), pairs)],
        lambda: [peer.heuristic(torch.tensor(pair.tokens), visual[pair.image]) for pair in pairs],
        steps,
        args,
    )
    rows.write("score", [row], args.results)
    print(f"  scores: greatest difference {max(abs(a - b) for a, b in zip(*scores, strict=True)):.1e} nats")


def _options(length: int, words: int, generator: torch.Generator) -> list[list[int]]:
    """A caption of ``length`` pieces and EOT, one with a piece replaced, and one with a piece added."""
    sot, eot = words, words + 1
    caption = torch.randint(0, words, (length,), generator=generator).tolist()
    place, word = (
        int(torch.randint(0, length, (1,), generator=generator)),
        int(torch.randint(0, words, (1,), generator=generator)),
    )
    replaced = [*caption[:place], word, *caption[place + 1 :]]
    added = [*caption[:place], word, *caption[place:]]
    return [[sot, *pieces, eot] for pieces in (caption, replaced, added)]


def _masks(pair: Pair, draws: Sequence[Any], samples: int) -> Tensor:
    length = len(pair.tokens) - 1
    where = draws[pair.item].masks(length, lambda points: mask_counts(points, length), samples // GROUPS)
    return where.flatten(0, 1)


def compared(
    what: str, peer: str, ours: Callable[[], Any], plain: Callable[[], Any], passes: int, args: argparse.Namespace
) -> tuple[rows.Row, tuple[Any, Any]]:
    """The row of so many passes by both in turns, and what both found."""
    results, times = answered({"ours": ours, "plain": plain}, args.repeats)
    each = {side: [1e3 * seconds / passes for seconds in durations] for side, durations in times.items()}
    towers = "tiny towers" if args.small else "ViT-B/32 and 12 layers"
    setting = f"fp32, {rows.threads(args.threads)}"
    row = rows.compared(f"{what}, {towers}", peer, "ms/pass", each["ours"], each["plain"], setting)
    return row, (results["ours"], results["plain"])


def main() -> None:
    parser = rows.parser(__doc__, samples=16, repeats=3, threads=1)
    parser.add_argument("--images", type=int, default=6, help="images, each with one item of three options")
    parser.add_argument("--small", action="store_true")
    args = rows.arguments(parser, images=2, samples=16, repeats=2, small=True)
    torch.set_num_threads(args.threads)
    cost(args)


if __name__ == "__main__":
    main()
