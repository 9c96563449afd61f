"""One MDC training step with CLIP's full vocabulary, against Algorithm 1 of the paper as written.

The plain form pads every caption to 77 tokens, computes all logits, then picks the masked ones. Both do the same
optimisation on the same batches (forward, backward, fused AdamW), from the same initial weights, and take turns at going first.
Their first losses must agree, or the bench fails. By default ViT-B/32 at 224 px, and mini's ViT-T/12 at 48 px.

    python bench/step.py --captions data/coco_captions_val2017.json.gz
"""

import argparse
from collections.abc import Callable

import rows
import torch
import torch.nn.functional as F
import training_batches
from torch import Tensor
from torch.utils._pytree import tree_map_only

from mdc.data.loader.batch import CaptionBatch
from mdc.methods.masked.loss import build_objective
from mdc.models.build import ModelSetup, build
from mdc.models.captioner import Captioner
from mdc.models.precision import autocast
from mdc.models.text import Vocabulary
from mdc.plan.config.kinds.backbones import Backbone
from mdc.plan.config.method import Method
from mdc.plan.config.params import ProtocolPretrain
from mdc.plan.config.read import load
from mdc.training.objectives.objective import Setup

CONTEXT = training_batches.CONTEXT


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
        logits = model.logits(model.encoder.prepared(batch.images), masked_caps, batch.lengths)
        weight = (1 / t).expand_as(p)[p < t]
        entropy = F.cross_entropy(logits[p < t].float(), caps[p < t], reduction="none")
        loss = (weight * entropy).sum() / (batch.lengths - 1).sum()
    loss.backward()
    return loss.detach()


def compare(args: argparse.Namespace, scale: str, name: str, size: int) -> rows.Row:
    """Both sides on batches of ``size``, of one backbone of a scale."""
    params = load(args.params, scale)
    backbone = params.training.backbones[name]
    assert isinstance(backbone, Backbone)
    method, protocol = params.methods["mdc"], params.protocol.pretrain
    vocabulary = Vocabulary.full()
    sides = {side: _side(side, method, backbone, protocol, vocabulary, size, args) for side in ("ours", "plain")}

    def prepare(captions: list[list[int]], number: int) -> tuple[CaptionBatch, CaptionBatch]:
        host = training_batches.make_batch(captions, vocabulary, backbone.image_size, number)
        return host, host.to(torch.device(args.device))

    what = f"training step of MDC, {backbone.label} at {backbone.image_size} px"
    return training_batches.compare(what, "Algorithm 1 as written", sides, prepare, size, args)


def _side(
    side: str,
    method: Method,
    backbone: Backbone,
    protocol: ProtocolPretrain,
    vocabulary: Vocabulary,
    size: int,
    args: argparse.Namespace,
) -> Callable[[CaptionBatch, CaptionBatch], torch.Tensor]:
    """A step (batch on the host, the same on the device) → its loss; with weights and an optimiser of its own."""
    model = build(ModelSetup(method, backbone, protocol, vocabulary.size, CONTEXT, seed=0)).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    objective = build_objective(model, Setup(method, protocol, vocabulary.mask_id, size, args.precision))

    def step(host: CaptionBatch, batch: CaptionBatch) -> torch.Tensor:
        if side == "ours":
            prepared = tree_map_only(Tensor, lambda tensor: tensor.to(args.device), objective.prepare(host))
            loss = objective.backward(prepared)["loss"]
        else:
            loss = plain_backward(model, batch, vocabulary.mask_id, vocabulary.eot, args.precision)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def main() -> None:
    parser = training_batches.step_options(__doc__.splitlines()[0])
    args = rows.arguments(parser, batch=4, repeats=2)
    torch.set_num_threads(args.threads)
    for scale, name, size in training_batches.configurations(args):
        rows.write("step", [compare(args, scale, name, size)], args.results)


if __name__ == "__main__":
    main()
