"""A run's image encoder as a timm model: its configuration, and its weights under timm's names. transformers reads them too.

Our tower is open_clip's, and timm's vision transformers with ``clip`` in their names compute the same. The pooled feature is the
one that is probed: [CLS] of a CLIP, else the mean of the patch tokens, both after the final norm.
"""

from typing import Any

from torch import Tensor

from mdc.models.normalise import OPENAI_MEAN, OPENAI_STD
from mdc.models.runs import RunModel
from mdc.plan.config.kinds.backbones import Backbone
from mdc.plan.jobs.model import PretrainJob

#: the files that timm and transformers read
CONFIG, WEIGHTS = "config.json", "model.safetensors"
#: norm before the blocks, no bias of the patch embedding, epsilon 1e-5; its sizes are replaced by ours
_ARCHITECTURE = "vit_base_patch16_clip_224"


def cannot(job: PretrainJob) -> str | None:
    """Why timm has no such encoder; None if it has."""
    return job.backbone.only_here if isinstance(job.backbone, Backbone) else None


def metadata(_: str) -> dict[str, str]:
    """Metadata of the weights file; transformers before 5 needs it. One key, since several have no fixed order."""
    return {"format": "pt"}


def parts(run: RunModel, _: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(timm's configuration, its weights) of a run with a vision transformer."""
    from timm import create_model
    from timm.models.vision_transformer import checkpoint_filter_fn  # timm's names for open_clip's

    backbone: Any = run.job.backbone
    side, pool = backbone.image_size, "token" if run.job.method.embeds_captions else "avg"
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
    net: Any = create_model(_ARCHITECTURE, num_classes=0, **shape)
    ours = run.load().encoder.tower.state_dict()
    net.load_state_dict(checkpoint_filter_fn({f"visual.{name}": value for name, value in ours.items()}, net))
    return config, {name: value.float().contiguous() for name, value in net.state_dict().items()}
