"""A run as an open_clip model: its configuration, and its weights under open_clip's names.

CLIP fits whole: our text tower is open_clip's transformer. Its embedding gets a row for every piece of CLIP's vocabulary, because
open_clip's tokenizer knows no other; a piece that the run's corpora never use has zeros. A captioner has no text embedding. Its
encoder becomes the image tower, whose feature is the one that is probed (paper, section 4.2: the mean of the patch tokens after
the final norm), and since open_clip cannot do without a text tower, a small one of zeros stands beside it: all texts are alike to
it, so nothing can be mistaken for a zero-shot result.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mdc.models.contrastive import Contrastive
from mdc.models.decoder import TextTransformer
from mdc.models.normalise import OPENAI_MEAN, OPENAI_STD
from mdc.models.runs import RunModel
from mdc.models.text import CLIP_EOT, CLIP_SIZE, CLIP_SOT, Vocabulary
from mdc.plan.config.backbones import Backbone, Decoder, OnTokens, ResNet
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.records import UserError

#: the file that open_clip reads first, and the weights beside it
CONFIG, WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"
#: what ``text_tower`` of our part of the configuration says
TRAINED, NONE = "trained", "none"
_SMALLEST = Decoder(width=8, layers=1, heads=1)


def parts(run: RunModel, told: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(open_clip's configuration, its weights) of a run. ``told``: what the configuration says of the run besides, under "mdc".

    UserError for a run whose encoder is not its own, and for a CLIP whose text tower open_clip cannot run.
    """
    job = run.job
    if isinstance(job.backbone, OnTokens):
        raise UserError(
            f"{job.job}: uses the frozen encoder {job.backbone.frozen.job} and has none of its own to export; "
            "allowed: runs that train their encoder"
        )
    if isinstance(job.backbone, ResNet):
        raise UserError(
            f"{job.job}: its encoder is a residual network with norms of groups, which open_clip does not have; allowed: runs "
            "with a vision transformer"
        )
    clip = job.method.objective == "contrastive"
    if clip and job.protocol.pretrain.clip_text_attention != "causal":
        raise UserError(
            f"{job.job}: its text tower looks at whole captions without padding, which open_clip's cannot; "
            "allowed: protocol.pretrain.clip_text_attention: causal"
        )
    model = run.load()
    shape = job.backbone.decoder if clip else _SMALLEST
    embedded = job.backbone.embed_dim if clip else job.backbone.width
    config = {
        "model_cfg": {
            "embed_dim": embedded,
            "vision_cfg": _vision(job.backbone, "tok" if clip else "avg"),
            "text_cfg": {
                "context_length": job.protocol.data.context_length,
                "vocab_size": CLIP_SIZE,
                "width": shape.width,
                "heads": shape.heads,
                "layers": shape.layers,
            },
        },
        "preprocess_cfg": {
            "mean": list(OPENAI_MEAN),
            "std": list(OPENAI_STD),
            "interpolation": "bicubic",
            "resize_mode": "shortest",
        },
        "mdc": {**told, "feature": _FEATURE[clip], "text_tower": TRAINED if clip else NONE},
    }
    weights = {f"visual.{name}": value for name, value in model.encoder.tower.state_dict().items()}
    if clip:
        weights |= {"visual.proj": model.image_projection.weight.T, **_texts(model, run.vocabulary)}
    else:
        weights |= {"visual.proj": torch.eye(embedded), **_no_texts(job, embedded)}
    return config, {name: value.detach().float().contiguous() for name, value in weights.items()}


_FEATURE = {
    True: "[CLS] after the final norm, projected",
    False: "the mean of the patch tokens after the final norm, which is what the linear probe sees",
}


def _vision(backbone: Backbone, pool: str) -> dict[str, Any]:
    return {
        "image_size": backbone.image_size,
        "patch_size": backbone.patch_size,
        "width": backbone.width,
        "layers": backbone.layers,
        "head_width": backbone.width // backbone.heads,
        "mlp_ratio": 4.0,
        "pool_type": pool,
    }


def _texts(model: Contrastive, vocabulary: Vocabulary) -> dict[str, Tensor]:
    """CLIP's text tower with all of CLIP's word pieces."""
    return {
        **_transformer(model.text, _all_pieces(model.text.token_embedding.weight, vocabulary)),
        "text_projection": model.text_projection.weight.T,
        "logit_scale": model.logit_scale,
    }


def _no_texts(job: PretrainJob, embedded: int) -> dict[str, Tensor]:
    text = TextTransformer(_SMALLEST, 1, job.protocol.data.context_length, causal=True, seed=0)
    found = _transformer(text, torch.zeros(CLIP_SIZE, _SMALLEST.width))
    found |= {"text_projection": torch.zeros(_SMALLEST.width, embedded), "logit_scale": torch.zeros(())}
    return {name: torch.zeros_like(value) for name, value in found.items()}


def _transformer(text: TextTransformer, embedding: Tensor) -> dict[str, Tensor]:
    found = {
        "token_embedding.weight": embedding,
        "positional_embedding": text.positional_embedding,
        "ln_final.weight": text.norm.weight,
        "ln_final.bias": text.norm.bias,
    }
    for number, block in enumerate(text.blocks):
        for name, value in block.state_dict().items():
            found[f"transformer.resblocks.{number}.{_NAMES[name]}"] = value
    return found


#: a layer's parameters: ours → open_clip's
_NAMES = {
    "norm_self.weight": "ln_1.weight",
    "norm_self.bias": "ln_1.bias",
    "self_attention.qkv.weight": "attn.in_proj_weight",
    "self_attention.qkv.bias": "attn.in_proj_bias",
    "self_attention.out.weight": "attn.out_proj.weight",
    "self_attention.out.bias": "attn.out_proj.bias",
    "norm_mlp.weight": "ln_2.weight",
    "norm_mlp.bias": "ln_2.bias",
    "mlp.0.weight": "mlp.c_fc.weight",
    "mlp.0.bias": "mlp.c_fc.bias",
    "mlp.2.weight": "mlp.c_proj.weight",
    "mlp.2.bias": "mlp.c_proj.bias",
}


def _all_pieces(embedding: Tensor, vocabulary: Vocabulary) -> Tensor:
    """Rows in CLIP's numbering; the last one of ours, [MASK]'s, is of no use to CLIP."""
    if vocabulary.pieces is None:
        return embedding[:CLIP_SIZE]
    found = torch.zeros(CLIP_SIZE, embedding.shape[1])
    found[[*vocabulary.pieces, CLIP_SOT, CLIP_EOT]] = embedding[: vocabulary.size].detach()
    return found
