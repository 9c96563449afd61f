"""Captions per second: MDC and ARC against open_clip's ``coca.generate``, on one machine in one run.

    make .coca/.ready && python bench/caption.py [--images N] [--threads N] [--repeats N]

All have a ViT-B/32 at 224 pixels, decoders of width 512, untrained weights, fp32, and decode 15 BPE tokens. CoCa's published
towers have 12 + 12 text layers, twice our depth, so it also runs with 6 + 6. Each repeat measures all of them in
turn; ratios are within a repeat, and the median is shown. Times include encoding the images.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import rows
import torch
from score import B32
from turns import in_turns

from mdc.evaluation.predictors.score import Similarity
from mdc.evaluation.predictors.writing import Guiding, Writer
from mdc.models.build import ModelSetup, build
from mdc.models.captioner import Captioner
from mdc.models.text import Vocabulary
from mdc.plan.config.caption import Beam, Guide, Unmasking
from mdc.plan.config.read import load

ROOT = Path(__file__).resolve().parents[1]
TOKENS = 15
#: pairs of ours and CoCa's to compare
PAIRS = (
    ("ARC, greedy", "CoCa 6 + 6, greedy"),
    ("ARC, beam 6", "CoCa 6 + 6, beam 6"),
    ("ARC, greedy", "CoCa 12 + 12, greedy"),
    ("ARC, beam 6", "CoCa 12 + 12, beam 6"),
    (f"MDC, N' = {TOKENS}, 1 a step", "CoCa 6 + 6, greedy"),
    (f"MDC, N' = {TOKENS}, 3 a step", "CoCa 6 + 6, greedy"),
    (f"MDC, N' = {TOKENS}, 3 a step", "CoCa 6 + 6, beam 6"),
)
#: the cost of a CLIP that guides every token
GUIDED, PLAIN = f"MDC, N' = {TOKENS}, guided by a CLIP of ViT-B/32", f"MDC, N' = {TOKENS}, 1 a step"
#: steps that show nothing call no model, so 100 steps take no longer than a step for each piece
ANCESTRAL = f"MDC, N' = {TOKENS}, ancestral in 100 steps"


class Peer:
    """``coca.generate`` in a process of its own environment."""

    def __init__(self, python: Path, threads: int) -> None:
        command = [str(python), str(ROOT / "bench/coca_peer.py"), str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def write(self, layers: tuple[int, int], beams: int, images: int) -> None:
        """Captions of so many images; returns when they are written."""
        assert self.process.stdin is not None and self.process.stdout is not None
        request = {"layers": layers, "beams": beams, "images": images, "tokens": TOKENS}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        if not self.process.stdout.readline():
            raise SystemExit("bench/coca_peer.py ended without an answer; call it by hand to see why")


def main() -> None:
    parser = rows.parser(__doc__, images=8, threads=1, repeats=3)
    parser.add_argument("--coca", type=Path, default=ROOT / ".coca", help="the environment's folder")
    args = rows.arguments(parser, images=1, repeats=1)
    python = args.coca / "bin/python"
    if not python.is_file():
        reason = "open_clip's CoCa has no environment here; run `make .coca/.ready && python bench/caption.py`"
        rows.write(
            "caption", [rows.missing(_what(ours), _peer(theirs), reason) for ours, theirs in PAIRS], args.results
        )
        return
    torch.set_num_threads(args.threads)
    shape = (args.images, 3, 224, 224)
    images = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    keys = [str(n) for n in range(args.images)]
    vocabulary = Vocabulary.full()
    masked, causal = (
        Writer(Captioner(B32, vocabulary.size, 77, causal, seed=0), vocabulary, "fp32", torch.device("cpu"))
        for causal in (False, True)
    )
    params = load(ROOT / "params.yaml")
    setup = ModelSetup(params.methods["clip"], B32, params.protocol.pretrain, vocabulary.size, 77, seed=0)
    clip = Similarity(build(setup), "fp32", torch.device("cpu"))
    peer = Peer(python, args.threads)

    def mdc(tokens_per_step: int) -> Callable[[], object]:
        policy = Unmasking(kind="unmask", lengths=[TOKENS], tokens_per_step=tokens_per_step)
        return lambda: masked.unmasked(masked.look(images), policy, keys)

    def ancestral() -> object:
        policy = Unmasking(kind="unmask", lengths=[TOKENS], temperature=1.0, ancestral=100)
        return masked.unmasked(masked.look(images), policy, keys)

    def guided() -> object:
        policy = Unmasking(kind="unmask", lengths=[TOKENS], guide=Guide(weight=10.0))
        return masked.unmasked(masked.look(images), policy, keys, Guiding(clip.read, clip.look(images)))

    def arc(width: int) -> Callable[[], object]:
        policy = Beam(kind="beam", num_beams=width, min_tokens=TOKENS, max_tokens=TOKENS)
        return lambda: causal.searched(causal.look(images), policy)

    def coca(layers: tuple[int, int], beams: int) -> Callable[[], object]:
        return lambda: peer.write(layers, beams, args.images)

    candidates: dict[str, Callable[[], object]] = {
        PLAIN: mdc(1),
        GUIDED: guided,
        ANCESTRAL: ancestral,
        f"MDC, N' = {TOKENS}, 3 a step": mdc(3),
        "ARC, greedy": arc(1),
        "ARC, beam 6": arc(6),
        "CoCa 12 + 12, greedy": coca((12, 12), 1),
        "CoCa 12 + 12, beam 6": coca((12, 12), 6),
        "CoCa 6 + 6, greedy": coca((6, 6), 1),
        "CoCa 6 + 6, beam 6": coca((6, 6), 6),
    }
    speeds = {
        name: [args.images / seconds for seconds in rounds]
        for name, rounds in in_turns(candidates, args.repeats).items()
    }
    peer.process.kill()
    setting = f"fp32, {rows.threads(args.threads)}, {args.images} images"
    rows.write(
        "caption",
        [
            rows.compared(_what(ours), _peer(theirs), "captions/s", speeds[ours], speeds[theirs], setting)
            for ours, theirs in PAIRS
        ]
        + [
            rows.compared(_what(GUIDED), "ours without a guide", "captions/s", speeds[GUIDED], speeds[PLAIN], setting),
            rows.compared(_what(ANCESTRAL), "ours, 1 a step", "captions/s", speeds[ANCESTRAL], speeds[PLAIN], setting),
        ],
        args.results,
    )


def _what(ours: str) -> str:
    return f"writing captions of {TOKENS} pieces, ViT-B/32, {ours}"


def _peer(theirs: str) -> str:
    return f"coca.generate, {theirs.removeprefix('CoCa ')}"


if __name__ == "__main__":
    main()
