"""Batches of captions to train on: COCO's, or, without its file, random pieces in captions that are as long as COCO's."""

import argparse
import gzip
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import rows
import torch

from mdc.data.loader.batch import CaptionBatch
from mdc.models.text import Vocabulary

CONTEXT = 77
#: of a thousand captions of COCO's val2017 so many have so many pieces (5,000 drawn of 25,014; 11.5 pieces in the mean)
LENGTHS = {
    **{7: 2, 8: 41, 9: 146, 10: 202, 11: 193, 12: 155, 13: 96, 14: 64, 15: 36, 16: 23, 17: 14, 18: 10, 19: 6, 20: 5},
    **{21: 1, 22: 1, 24: 1, 25: 2, 26: 1, 27: 1},
}
DEFAULT = Path(os.environ.get("MDC_DATA", "data")) / "coco_captions_val2017.json.gz"


def encoded(path: Path, count: int, vocabulary: Vocabulary, seed: int = 0) -> tuple[list[list[int]], str]:
    """``count`` captions as ids from SOT to EOT, and in words what they are."""
    rng = np.random.default_rng(seed)
    if not path.is_file():
        lengths = rng.choice(list(LENGTHS), count, p=np.array(list(LENGTHS.values())) / sum(LENGTHS.values()))
        pieces = (rng.integers(0, vocabulary.size - 2, length).tolist() for length in lengths)
        random_captions = [[vocabulary.size - 2, *ids, vocabulary.eot] for ids in pieces]
        return random_captions, "random captions of COCO's lengths"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        captions = sorted(a["caption"] for a in json.load(stream)["annotations"])
    chosen = [captions[i] for i in rng.choice(len(captions), count, replace=False)]
    return [vocabulary.encode(caption, CONTEXT) for caption in chosen], "captions of COCO"


def make_batch(captions: list[list[int]], vocabulary: Vocabulary, size: int, seed: int) -> CaptionBatch:
    """A batch as the loader yields it; images are noise, whose content costs nothing."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(map(len, captions))
    width = min(-(-longest // 8) * 8, CONTEXT)
    tokens = torch.full((len(captions), width), vocabulary.eot)
    for row, ids in enumerate(captions):
        tokens[row, : len(ids)] = torch.tensor(ids)
    return CaptionBatch(
        images=torch.randint(0, 256, (len(captions), 3, size, size), generator=generator, dtype=torch.uint8),
        keys=[str(i) for i in range(len(captions))],
        tokens=tokens,
        lengths=torch.tensor([len(ids) for ids in captions]),
        jitter=torch.rand(len(captions), generator=generator),
        uniforms=torch.rand(len(captions), CONTEXT, generator=generator)[:, :width],
        place=torch.arange(len(captions)),
        caption_hash=torch.arange(len(captions)),
    )


# --- what both benches of a step have in common -----------------------------------------------------------------------


def compare(
    what: str,
    peer: str,
    sides: Mapping[str, Callable[..., torch.Tensor]],
    prepare: Callable[[list[list[int]], int], tuple[Any, ...]],
    size: int,
    args: argparse.Namespace,
) -> rows.Row:
    """The row of two ways of a training step on batches of ``size``, ours first; a loss is what a way gives.

    ``prepare``: from captions, and the number of their batch, to what both ways are given, which is not timed. Their first losses
    must be the same, or no comparison is printed.
    """
    ids, source = encoded(args.captions, size * (args.repeats + 1), Vocabulary.full())
    names, times = list(sides), {side: list[float]() for side in sides}
    for repeat in range(args.repeats + 1):
        inputs, losses = prepare(ids[repeat * size :][:size], repeat), dict[str, torch.Tensor]()
        for side in names if repeat % 2 else names[::-1]:
            began = time.perf_counter()
            losses[side] = sides[side](*inputs)
            if args.device.startswith("cuda"):
                torch.cuda.synchronize()
            if repeat:  # the first is a warm-up
                times[side].append(size / (time.perf_counter() - began))
        print(f"repeat {repeat}: loss {', '.join(f'{side} {float(losses[side]):.5f}' for side in names)}", flush=True)
        ours, theirs = (losses[side].float() for side in names)
        close = 1e-4 if args.precision == "fp32" else 1e-2
        if repeat == 0 and not torch.isclose(ours, theirs, rtol=close):
            raise SystemExit("the two do not compute the same loss, so their speeds say nothing")
    setting = f"{args.precision}, {rows.threads(args.threads)}, {source}"
    our_speeds, their_speeds = times.values()
    return rows.compared(f"{what}, batch {size}", peer, "images/s", our_speeds, their_speeds, setting, args.device)


def step_options(what: str) -> argparse.ArgumentParser:
    """The options that a bench of a training step has."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--captions", type=Path, default=DEFAULT, help="COCO annotation file (json.gz)")
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("--scale", help="with --backbone: of which scale; default: paper")
    parser.add_argument("--backbone", help="this one alone, for example ViT-B-16")
    parser.add_argument("--batch", type=int, default=32, help="of mini's backbones it is 128 by default")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    return parser


def configurations(args: argparse.Namespace) -> list[tuple[str, str, int]]:
    """(scale, backbone, batch) of each comparison."""
    if args.backbone:
        return [(args.scale or "paper", args.backbone, args.batch)]
    return [("mini", "ViT-T-12", 16 if args.quick else 128), ("paper", "ViT-B-32", args.batch)]
