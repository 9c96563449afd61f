"""Captions per second of MDC: what a guide costs, and ancestral sampling. docs/bench.md says what the peer was.

    python bench/caption.py [--images N] [--threads N] [--repeats N]

A ViT-B/32 at 224 pixels, a decoder of width 512, untrained weights, fp32, 15 BPE tokens. Each repeat measures all of them in
turn; ratios are within a repeat, and the median is shown. Times include encoding the images.
"""

from collections.abc import Callable
from pathlib import Path

import rows
import torch
from score import B32
from turns import in_turns

from mdc.evaluation.predictors.writing import Guiding
from mdc.methods.contrastive.score import Scorer
from mdc.methods.masked.generate import Writer
from mdc.models.build import ModelSetup, build
from mdc.models.captioner import Captioner
from mdc.models.text import Vocabulary
from mdc.plan.config.decoding import Guide, Unmasking
from mdc.plan.config.read import load

ROOT = Path(__file__).resolve().parents[1]
TOKENS = 15
#: the cost of a CLIP that guides every token
GUIDED, PLAIN = f"MDC, N' = {TOKENS}, guided by a CLIP of ViT-B/32", f"MDC, N' = {TOKENS}, 1 a step"
#: steps that show nothing call no model, so 100 steps take no longer than a step for each piece
ANCESTRAL = f"MDC, N' = {TOKENS}, ancestral in 100 steps"


def main() -> None:
    parser = rows.parser(__doc__, images=8, threads=1, repeats=3)
    args = rows.arguments(parser, images=1, repeats=1)
    torch.set_num_threads(args.threads)
    shape = (args.images, 3, 224, 224)
    images = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    keys = [str(n) for n in range(args.images)]
    vocabulary = Vocabulary.full()
    cpu = torch.device("cpu")
    writer = Writer(Captioner(B32, vocabulary.size, 77, causal=False, seed=0), vocabulary, "fp32", cpu)
    params = load(ROOT / "params.yaml")
    setup = ModelSetup(params.methods["clip"], B32, params.protocol.pretrain, vocabulary.size, 77, seed=0)
    clip = Scorer(build(setup), vocabulary.mask_id, "fp32", cpu)

    def written(policy: Unmasking, guided: bool = False) -> Callable[[], object]:
        def run() -> object:
            guiding = Guiding(clip.read, clip.look(images)) if guided else None
            return writer.unmasked(writer.look(images), policy, keys, guiding)

        return run

    lengths = [TOKENS]
    candidates = {
        PLAIN: written(Unmasking(kind="unmask", lengths=lengths)),
        GUIDED: written(Unmasking(kind="unmask", lengths=lengths, guide=Guide(weight=10.0)), guided=True),
        ANCESTRAL: written(Unmasking(kind="unmask", lengths=lengths, temperature=1.0, ancestral=100)),
    }
    speeds = {
        name: [args.images / seconds for seconds in rounds]
        for name, rounds in in_turns(candidates, args.repeats).items()
    }
    setting = f"fp32, {rows.threads(args.threads)}, {args.images} images"
    rows.write(
        "caption",
        [
            rows.compared(_what(GUIDED), "ours without a guide", "captions/s", speeds[GUIDED], speeds[PLAIN], setting),
            rows.compared(_what(ANCESTRAL), "ours, 1 a step", "captions/s", speeds[ANCESTRAL], speeds[PLAIN], setting),
        ],
        args.results,
    )


def _what(ours: str) -> str:
    return f"writing captions of {TOKENS} pieces, ViT-B/32, {ours}"


if __name__ == "__main__":
    main()
