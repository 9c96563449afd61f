"""A run's image encoder as a timm model: its configuration, and its weights under timm's names. transformers reads them too.

Our tower is open_clip's, and timm's vision transformers with ``clip`` in their names compute the same. The pooled feature is the
one that is probed: [CLS] of a CLIP, else the mean of the patch tokens, both after the final norm.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mdc.models.normalise import OPENAI_MEAN, OPENAI_STD
from mdc.models.runs import RunModel
from mdc.plan.config.backbones import ResNet
from mdc.plan.jobs.model import PretrainJob

#: the files that timm and transformers read
CONFIG, WEIGHTS = "config.json", "model.safetensors"
#: norm before the blocks, no bias of the patch embedding, epsilon 1e-5; its sizes are replaced by ours
_ARCHITECTURE = "vit_base_patch16_clip_224"


def cannot(job: PretrainJob) -> str | None:
    """Why timm has no such encoder; None if it has."""
    if isinstance(job.backbone, ResNet):
        return "its encoder is a residual network with norms of groups, which timm builds otherwise"
    return None


def metadata(_: str) -> dict[str, str]:
    """Metadata of the weights file; transformers before 5 needs it. One key, since several have no fixed order."""
    return {"format": "pt"}


def parts(run: RunModel, _: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(timm's configuration, its weights) of a run with a vision transformer."""
    backbone: Any = run.job.backbone
    side, pool = backbone.image_size, "token" if run.job.method.objective == "contrastive" else "avg"
    shape = {
        "img_size": side,
        "patch_size": backbone.patch_size,
        "embed_dim": backbone.width,
        "depth": backbone.layers,
        "num_heads": backbone.heads,
        "global_pool": pool,
        "fc_norm": False,  # by default timm takes the final norm after the mean
    }
    config = {
        "architecture": _ARCHITECTURE,
        "num_classes": 0,
        "num_features": backbone.width,
        "global_pool": pool,
        "model_args": shape,
        "pretrained_cfg": {
            "num_classes": 0,
            "input_size": [3, side, side],
            "fixed_input_size": True,
            "interpolation": "bicubic",
            "crop_pct": 1.0,
            "crop_mode": "center",
            "mean": list(OPENAI_MEAN),
            "std": list(OPENAI_STD),
            "first_conv": "patch_embed.proj",
            "classifier": "head",
        },
    }
    tower = run.load().encoder.tower.state_dict()
    return config, {_renamed(name): _shaped(name, value).float().contiguous() for name, value in tower.items()}


#: a parameter outside the blocks: ours → timm's
_NAMES = {
    "class_embedding": "cls_token",
    "positional_embedding": "pos_embed",
    "conv1.weight": "patch_embed.proj.weight",
    "ln_pre": "norm_pre",
    "ln_post": "norm",
}
#: and within a block
_IN_BLOCK = {
    "ln_1": "norm1",
    "attn.in_proj_": "attn.qkv.",
    "attn.out_proj": "attn.proj",
    "ln_2": "norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}


def _renamed(name: str) -> str:
    names, head = _NAMES, ""
    if name.startswith("transformer.resblocks."):
        number, _, name = name.removeprefix("transformer.resblocks.").partition(".")
        names, head = _IN_BLOCK, f"blocks.{number}."
    ours = next(prefix for prefix in names if name.startswith(prefix))
    return head + names[ours] + name.removeprefix(ours)


def _shaped(name: str, value: Tensor) -> Tensor:
    """timm's token and places have a batch of one before them."""
    if name == "class_embedding":
        return value[None, None]
    return value[None] if name == "positional_embedding" else value
