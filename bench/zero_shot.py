"""Zero-shot classification by a captioner's likelihood: ours against a plain loop, on the same model in one run.

    python bench/zero_shot.py [--images N] [--classes N] [--small]

The peer encodes and decodes each pair of an image and a class's caption, as a model that scores one pair does. Ours reads an
image once (its encoder, and the keys and values of every layer's cross-attention), and scores all classes' captions in batches.
Both compute the same model (ViT-B/32 with a decoder of 12 layers; --small: a tiny one), in fp32, on the same threads.
"""

import argparse

import rows
import torch
from score import B32, TINY, compared

from mdc.evaluation.predictors.caption_scores import Pair
from mdc.methods.autoregressive.score import Scorer
from mdc.models.captioner import Captioner
from mdc.models.normalise import normalise

LENGTHS = (5, 6, 7, 8)  # pieces of "a photo of a {class}"


def cost(args: argparse.Namespace) -> None:
    backbone, vocabulary = (TINY, 500) if args.small else (B32, 49_408)
    model = Captioner(backbone, vocabulary, 77, causal=True, seed=0).eval()
    generator = torch.Generator().manual_seed(0)
    shape = (args.images, 3, backbone.image_size, backbone.image_size)
    images = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    sot, eot = vocabulary - 2, vocabulary - 1
    captions = [
        [sot, *torch.randint(0, sot, (LENGTHS[n % len(LENGTHS)],), generator=generator).tolist(), eot]
        for n in range(args.classes)
    ]
    scorer = Scorer(model, vocabulary, "fp32", torch.device("cpu"), batch_tokens=4096)
    pairs = [Pair(image, tokens) for image in range(args.images) for tokens in captions]

    def ours() -> list[float]:
        return [score.value for score in scorer.autoregressive(scorer.look(images), pairs)]

    @torch.no_grad()
    def plain() -> list[float]:
        scores = []
        for pair in pairs:
            tokens = torch.tensor(pair.tokens)
            logits = model.logits(normalise(images[pair.image, None]), tokens[None], torch.tensor([len(tokens)]))[0]
            log_probs = logits[:-1].float().log_softmax(dim=-1).gather(1, tokens[1:, None])
            scores.append(float(log_probs.double().sum()))
        return scores

    what = f"zero-shot classification by likelihood, {args.classes} classes"
    row, results = compared(what, "encode and decode a pair at a time", ours, plain, len(pairs), args)
    rows.write("zero_shot", [row], args.results)
    worst = max(abs(a - b) for a, b in zip(*results, strict=True))
    print(f"  scores: greatest difference {worst:.1e} nats")


def main() -> None:
    parser = rows.parser(__doc__, images=4, classes=32, repeats=3, threads=1)
    parser.add_argument("--small", action="store_true")
    args = rows.arguments(parser, images=2, classes=16, repeats=2, small=True)
    torch.set_num_threads(args.threads)
    cost(args)


if __name__ == "__main__":
    main()
