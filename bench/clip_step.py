"""One CLIP training step against open_clip's own: its model, its ``ClipLoss`` and its ``train_one_epoch``, on the same batches.

open_clip's loop is unchanged, an epoch of one batch per turn. It gets the output of its own loader, normalised float images and
captions padded to 77, which is not timed. Ours gets uint8 images and tokens, whose preparation is timed. Both start from the same
weights, and their first losses must agree, or the bench fails. Both use their own AdamW: ours fused, open_clip's as in its
main.py.

    python bench/clip_step.py --captions data/coco_captions_val2017.json.gz
"""

import argparse
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import rows
import torch
import torch.nn.functional as F
import training_batches
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from mdc.data.loader.batch import CaptionBatch
from mdc.methods.contrastive.loss import build_objective
from mdc.methods.contrastive.model import Contrastive
from mdc.models.build import ModelSetup, build
from mdc.models.encoder import Encoder
from mdc.models.normalise import normalise
from mdc.models.text import Vocabulary
from mdc.plan.config.kinds.backbones import Backbone
from mdc.plan.config.params import ProtocolPretrain
from mdc.plan.config.read import load
from mdc.training.objectives.objective import Setup
from mdc.training.trainer import build_optimizer

CONTEXT = training_batches.CONTEXT


class Peer:
    """open_clip's model of the same size, with the loop and the optimiser of ``open_clip_train``."""

    def __init__(
        self, backbone: Backbone, ours: Contrastive, recipe: Any, eps: float, args: argparse.Namespace
    ) -> None:
        import open_clip
        from open_clip_train.train import train_one_epoch

        self._epoch, self._count, self.losses = train_one_epoch, 0, _Kept(open_clip.ClipLoss())
        self.model = open_clip.CLIP(
            embed_dim=backbone.embed_dim,
            vision_cfg=open_clip.CLIPVisionCfg(
                layers=backbone.layers,
                width=backbone.width,
                head_width=backbone.width // backbone.heads,
                patch_size=backbone.patch_size,
                image_size=backbone.image_size,
            ),
            text_cfg=open_clip.CLIPTextCfg(
                context_length=CONTEXT,
                vocab_size=ours.text.token_embedding.weight.shape[0] - 1,  # without [MASK]
                width=backbone.decoder.width,
                heads=backbone.decoder.heads,
                layers=backbone.decoder.layers,
            ),
            output_dict=True,
        ).to(args.device)
        same_weights(self.model, ours)
        # as open_clip_train/main.py does it
        named = list(self.model.named_parameters())

        def exclude(name: str, p: nn.Parameter) -> bool:
            return p.ndim < 2 or "bn" in name or "ln" in name or "bias" in name or "logit_scale" in name

        groups = [
            {"params": [p for name, p in named if exclude(name, p)], "weight_decay": 0.0},
            {"params": [p for name, p in named if not exclude(name, p)], "weight_decay": recipe.weight_decay},
        ]
        betas = (recipe.beta1, recipe.beta2)
        self._optimizer = torch.optim.AdamW(groups, lr=recipe.lr, betas=betas, eps=eps)
        # what the loop asks of its command line
        self._args = SimpleNamespace(
            **{"device": args.device, "precision": {"bf16": "amp_bf16"}.get(args.precision, args.precision)},
            **{"distill": False, "accum_freq": 1, "skip_scheduler": True, "grad_clip_norm": None, "horovod": False},
            **{"rank": 0, "local_rank": 0, "log_local": False, "log_every_n_steps": 1 << 30, "wandb": False},
            **{"batch_size": 1, "world_size": 1},
        )

    def step(self, images: Tensor, tokens: Tensor) -> Tensor:
        """One batch through open_clip's ``train_one_epoch``."""
        self.epoch([(images, tokens)])
        return self.losses.last

    def epoch(self, batches: list[tuple[Tensor, Tensor]]) -> None:
        """These batches, images and tokens, through open_clip's ``train_one_epoch``."""
        data = {"train": SimpleNamespace(set_epoch=lambda epoch: None, dataloader=_Batches(batches))}
        self._epoch(self.model, data, self.losses, 0, self._optimizer, None, None, None, self._args)


class _Kept(nn.Module):
    """A loss that remembers what it said last."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss, self.last = loss, torch.zeros(())

    def forward(self, **inputs: Any) -> dict[str, Tensor]:
        loss: dict[str, Tensor] = self.loss(**inputs)
        self.last = loss["contrastive_loss"].detach()
        return loss


class _Batches:
    """An epoch of these batches, as open_clip's loader gives it."""

    def __init__(self, batches: list[tuple[Tensor, Tensor]]) -> None:
        self._batches, self.num_batches = batches, len(batches)
        self.num_samples = sum(len(images) for images, _ in batches)

    def __iter__(self) -> Any:
        return iter(self._batches)


@torch.no_grad()
def same_weights(peer: Any, ours: Contrastive) -> None:
    """Give open_clip's model our initial weights."""
    assert isinstance(ours.encoder, Encoder)
    tower = ours.encoder.tower.state_dict()
    peer.visual.load_state_dict({**tower, "proj": ours.image_projection.weight.t()})
    peer.token_embedding.weight.copy_(ours.text.token_embedding.weight[:-1])  # ours has a row for [MASK]
    peer.positional_embedding.copy_(ours.text.positional_embedding)
    for theirs, block in zip(peer.transformer.resblocks, ours.text.blocks, strict=True):
        state: Any = block
        theirs.ln_1.load_state_dict(state.norm_self.state_dict())
        theirs.attn.in_proj_weight.copy_(state.self_attention.qkv.weight)
        theirs.attn.in_proj_bias.copy_(state.self_attention.qkv.bias)
        theirs.attn.out_proj.load_state_dict(state.self_attention.out.state_dict())
        theirs.ln_2.load_state_dict(state.norm_mlp.state_dict())
        theirs.mlp.c_fc.load_state_dict(state.mlp[0].state_dict())
        theirs.mlp.c_proj.load_state_dict(state.mlp[2].state_dict())
    peer.ln_final.load_state_dict(ours.text.norm.state_dict())
    peer.text_projection.copy_(ours.text_projection.weight.t())
    peer.logit_scale.copy_(ours.logit_scale)


def compare(args: argparse.Namespace, scale: str, name: str, size: int) -> rows.Row:
    """Both on batches of ``size``, of one backbone of a scale."""
    params = load(args.params, scale)
    training = params.training
    backbone, recipe = training.backbones[name], training.recipe
    protocol: ProtocolPretrain = params.protocol.pretrain
    assert isinstance(backbone, Backbone)
    vocabulary = Vocabulary.full()
    method = params.methods["clip"]
    model = build(ModelSetup(method, backbone, protocol, vocabulary.size, CONTEXT, seed=0)).to(args.device)
    peer = Peer(backbone, model, recipe, protocol.adam_eps, args)
    optimizer = build_optimizer(model, recipe, protocol)
    objective = build_objective(model, Setup(method, protocol, vocabulary.mask_id, size, args.precision))

    def prepare(captions: list[list[int]], number: int) -> tuple[CaptionBatch, Tensor, Tensor]:
        batch = training_batches.make_batch(captions, vocabulary, backbone.image_size, number)
        return batch, normalise(batch.images), padded(batch)

    def ours(batch: CaptionBatch, *_: Tensor) -> Tensor:
        prepared = tree_map_only(Tensor, lambda tensor: tensor.to(args.device), objective.prepare(batch))
        loss = objective.backward(prepared)["loss"]
        optimizer.step()
        optimizer.zero_grad()
        objective.after_step()
        return loss

    def theirs(_: CaptionBatch, images: Tensor, tokens: Tensor) -> Tensor:
        return peer.step(images, tokens)

    what = f"training step of CLIP, {backbone.label} at {backbone.image_size} px"
    sides: dict[str, Callable[..., Tensor]] = {"ours": ours, "open_clip": theirs}
    return training_batches.compare(what, "open_clip's training loop", sides, prepare, size, args)


def padded(batch: CaptionBatch) -> Tensor:
    """Captions as open_clip's tokenizer pads them, with zeros behind EOT."""
    tokens = batch.tokens * (torch.arange(batch.tokens.shape[1]) < batch.lengths[:, None])
    return F.pad(tokens, (0, CONTEXT - tokens.shape[1]))


def main() -> None:
    parser = training_batches.step_options(__doc__.splitlines()[0])
    args = rows.arguments(parser, batch=4, repeats=2)
    torch.set_num_threads(args.threads)
    for scale, name, size in training_batches.configurations(args):
        rows.write("clip_step", [compare(args, scale, name, size)], args.results)


if __name__ == "__main__":
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    main()
