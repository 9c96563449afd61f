"""Captions a second: MDC and ARC against open_clip's ``coca.generate``, on one machine in one run.

    make .coca/.ready && python bench/caption.py [--images N] [--threads N] [--repeats N]

All have a ViT-B/32 at 224 pixels, decoders of width 512, untrained weights, fp32, and write 15 word pieces. CoCa's published
towers have 12 + 12 text layers, twice our depth, so it also runs with 6 + 6. Each repeat measures all of them, one after the
other; a ratio is within a repeat, and its median is shown. Images are read once by each, and that is part of the time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import torch
from score import B32

from mdc.config.caption import Beam, Unmasking
from mdc.models.captioner import Captioner
from mdc.predictors.writing import Writer
from mdc.text import Vocabulary

ROOT = Path(__file__).resolve().parents[1]
TOKENS = 15


class Peer:
    """``coca.generate`` in a process of its own environment."""

    def __init__(self, python: Path, threads: int) -> None:
        command = [str(python), str(ROOT / "bench/coca_peer.py"), str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def seconds(self, layers: tuple[int, int], beams: int, images: int) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        asked = {"layers": layers, "beams": beams, "images": images, "tokens": TOKENS}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return float(json.loads(self.process.stdout.readline())["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--coca", type=Path, default=ROOT / ".coca", help="the environment's folder")
    args = parser.parse_args()
    python = args.coca / "bin/python"
    if not python.is_file():
        parser.error(f"{python}: no such Python; `make .coca/.ready` makes it")
    torch.set_num_threads(args.threads)
    shape = (args.images, 3, 224, 224)
    images = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    keys = [str(n) for n in range(args.images)]
    vocabulary = Vocabulary.full()
    masked, causal = (
        Writer(Captioner(B32, vocabulary.size, 77, causal, seed=0), vocabulary, "fp32", torch.device("cpu"))
        for causal in (False, True)
    )
    peer = Peer(python, args.threads)

    def mdc(per_step: int) -> Callable[[], float]:
        how = Unmasking(kind="unmask", lengths=[TOKENS], per_step=per_step)
        return lambda: _timed(lambda: masked.unmasked(masked.look(images), how, keys))

    def arc(width: int) -> Callable[[], float]:
        how = Beam(kind="beam", width=width, least=TOKENS, most=TOKENS)
        return lambda: _timed(lambda: causal.searched(causal.look(images), how))

    def coca(layers: tuple[int, int], beams: int) -> Callable[[], float]:
        return lambda: peer.seconds(layers, beams, args.images)

    ways: dict[str, Callable[[], float]] = {
        f"MDC, N' = {TOKENS}, 1 a step": mdc(1),
        f"MDC, N' = {TOKENS}, 3 a step": mdc(3),
        "ARC, greedy": arc(1),
        "ARC, beam 6": arc(6),
        "CoCa 12 + 12, greedy": coca((12, 12), 1),
        "CoCa 12 + 12, beam 6": coca((12, 12), 6),
        "CoCa 6 + 6, greedy": coca((6, 6), 1),
        "CoCa 6 + 6, beam 6": coca((6, 6), 6),
    }
    for way in ways.values():  # once to warm up
        way()
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.repeats):
        for name, way in ways.items():
            found[name].append(way())
    print(f"{args.images} images, {args.threads} thread(s), median of {args.repeats}")
    for name, seconds in found.items():
        print(f"  {name:24s} {args.images / statistics.median(seconds):6.2f} captions/s")
    for ours, theirs in (
        ("ARC, greedy", "CoCa 6 + 6, greedy"),
        ("ARC, beam 6", "CoCa 6 + 6, beam 6"),
        ("ARC, greedy", "CoCa 12 + 12, greedy"),
        ("ARC, beam 6", "CoCa 12 + 12, beam 6"),
        (f"MDC, N' = {TOKENS}, 1 a step", "CoCa 6 + 6, greedy"),
        (f"MDC, N' = {TOKENS}, 3 a step", "CoCa 6 + 6, greedy"),
        (f"MDC, N' = {TOKENS}, 3 a step", "CoCa 6 + 6, beam 6"),
    ):
        ratio = statistics.median(b / a for a, b in zip(found[ours], found[theirs], strict=True))
        print(f"  {ours} against {theirs}: {ratio:.1f} ×")
    peer.process.kill()


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
