"""One MDC training step of ViT-B/32 at 224 px with CLIP's full vocabulary, against Algorithm 1 of the paper as written.

The plain form pads every caption to 77 tokens, computes all logits, then picks the masked ones. Both do the same
optimisation on the same batches (forward, backward, fused AdamW), take turns at going first, and the ratio is of medians.

    python bench/step.py --captions data/coco_captions_val2017.json.gz
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from mdc.config import load
from mdc.formats.pixels import normalise
from mdc.loader.batch import CaptionBatch
from mdc.models.captioner import Captioner
from mdc.models.precision import autocast
from mdc.objectives.masked import build_model, build_objective
from mdc.objectives.micro_batches import each_tensor
from mdc.text import Vocabulary

CONTEXT = 77


def coco_captions(path: Path, count: int, seed: int) -> list[str]:
    """``count`` random captions of a COCO annotation file."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        captions = sorted(a["caption"] for a in json.load(stream)["annotations"])
    rng = np.random.default_rng(seed)
    return [captions[i] for i in rng.choice(len(captions), count, replace=False)]


def make_batch(captions: list[str], vocabulary: Vocabulary, size: int, seed: int) -> CaptionBatch:
    """A batch as the loader yields it; images are noise, whose content costs nothing."""
    generator = torch.Generator().manual_seed(seed)
    encoded = [vocabulary.encode(c, CONTEXT) for c in captions]
    longest = max(map(len, encoded))
    width = min(-(-longest // 8) * 8, CONTEXT)
    tokens = torch.full((len(encoded), width), vocabulary.eot)
    for row, ids in enumerate(encoded):
        tokens[row, : len(ids)] = torch.tensor(ids)
    return CaptionBatch(
        images=torch.randint(0, 256, (len(encoded), 3, size, size), generator=generator, dtype=torch.uint8),
        keys=[str(i) for i in range(len(encoded))],
        tokens=tokens,
        lengths=torch.tensor([len(ids) for ids in encoded]),
        jitter=torch.rand(len(encoded), generator=generator),
        uniforms=torch.rand(len(encoded), CONTEXT, generator=generator)[:, :width],
        place=torch.arange(len(encoded)),
        caption_hash=torch.arange(len(encoded)),
    )


def plain_backward(model: Captioner, batch: CaptionBatch, mask_id: int, pad_id: int, precision: str) -> torch.Tensor:
    """Algorithm 1, line by line, on captions padded to 77."""
    size, width = batch.tokens.shape
    device = batch.tokens.device
    caps = F.pad(batch.tokens, (0, CONTEXT - width), value=pad_id)
    p = F.pad(batch.uniforms, (0, CONTEXT - width), value=2.0)
    positions = torch.arange(CONTEXT, device=device)
    p = torch.where((positions > 0) & (positions < batch.lengths[:, None]), p, 2.0)
    t = (0.5 + 0.5 * (batch.place + batch.jitter) / size)[:, None]
    masked_caps = caps.clone()
    masked_caps[p < t] = mask_id
    with autocast(device, precision):
        logits = model.logits(normalise(batch.images), masked_caps, batch.lengths)
        weight = (1 / t).expand_as(p)[p < t]
        entropy = F.cross_entropy(logits[p < t].float(), caps[p < t], reduction="none")
        loss = (weight * entropy).sum() / (batch.lengths - 1).sum()
    loss.backward()
    return loss.detach()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(os.environ.get("MDC_DATA", "data")) / "coco_captions_val2017.json.gz"
    parser.add_argument("--captions", type=Path, default=default, help="COCO annotation file (json.gz)")
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("--backbone", default="ViT-B-32", help="a backbone of scale paper")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if not args.captions.exists():
        parser.error(f"{args.captions}: no such file; give COCO's caption annotations with --captions or MDC_DATA")
    torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    params = load(args.params, "paper")
    backbone = params.current().pretrain.backbones[args.backbone]
    method, protocol = params.methods["mdc"], params.protocol.pretrain
    vocabulary = Vocabulary.full()
    captions = coco_captions(args.captions, args.batch * (args.repeats + 1), seed=0)

    def sides() -> dict[str, Any]:
        made = {}
        for name in ("ours", "plain"):
            model = build_model(method, backbone, protocol, vocabulary.size, CONTEXT, seed=0).to(device)
            optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
            objective = build_objective(model, method, protocol, vocabulary.mask_id, args.batch, args.precision)
            made[name] = (model, optimizer, objective)
        return made

    times: dict[str, list[float]] = {"ours": [], "plain": []}
    both = sides()
    for repeat in range(args.repeats + 1):
        chunk = captions[repeat * args.batch : (repeat + 1) * args.batch]
        host = make_batch(chunk, vocabulary, backbone.image_size, repeat)
        batch = host.to(device)
        losses = {}
        turns = list(both.items())
        for name, (model, optimizer, objective) in turns if repeat % 2 else turns[::-1]:
            began = time.perf_counter()
            if name == "ours":
                prepared = each_tensor(objective.prepare(host), lambda tensor: tensor.to(device))
                losses[name] = objective.backward(prepared)["loss"]
            else:
                losses[name] = plain_backward(model, batch, vocabulary.mask_id, vocabulary.eot, args.precision)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if device.type == "cuda":
                torch.cuda.synchronize()
            if repeat:  # the first is a warm-up
                times[name].append(time.perf_counter() - began)
        print(f"repeat {repeat}: loss ours {float(losses['ours']):.5f}, plain {float(losses['plain']):.5f}", flush=True)
    speed = {name: args.batch / statistics.median(values) for name, values in times.items()}
    print(
        f"{args.backbone}, batch {args.batch}, {args.precision}, {args.device}, {args.threads} threads: "
        f"ours {speed['ours']:.2f} images/s, plain {speed['plain']:.2f} images/s, ratio {speed['ours'] / speed['plain']:.2f}"
    )


if __name__ == "__main__":
    main()
