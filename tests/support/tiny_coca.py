"""A CoCa of open_clip with drawn weights that do not depend on torch's generator, and images for it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import torch
from safetensors.torch import save_file
from torch import Tensor

SOT, EOT, WORDS = 49406, 49407, 60
_TEXT = {"context_length": 76, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
_VISION = {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8}
_VISION |= {"attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True}
MODEL: dict[str, Any] = {"embed_dim": 32, "vision_cfg": _VISION, "custom_text": True}
MODEL |= {"text_cfg": {**_TEXT, "embed_cls": True, "output_tokens": True}}
MODEL |= {"multimodal_cfg": {**_TEXT, "attn_pooler_heads": 2}}


@torch.no_grad()
def tiny_coca(seed: int = 0) -> Any:
    """It writes sixty words and an end; no other token is likely."""
    model = open_clip.CoCa(MODEL["embed_dim"], MODEL["multimodal_cfg"], MODEL["text_cfg"], _VISION)
    rng = np.random.Generator(np.random.Philox(seed))
    for name, weights in sorted(model.named_parameters()):
        if weights.ndim > 1 or name.endswith(("class_embedding", "cls_emb")):
            drawn = torch.from_numpy(rng.normal(size=tuple(weights.shape)).astype(np.float32))
            weights.copy_(drawn * weights.shape[-1] ** -0.5)
        elif name.endswith("bias"):
            weights.zero_()
    projection = model.text_decoder.text_projection  # (width, vocabulary)
    scale = torch.full((projection.shape[1],), 0.3)
    scale[torch.from_numpy(rng.permutation(SOT)[:WORDS])] = 6.0
    scale[EOT] = 12.0
    projection.mul_(scale)
    return model.eval()


def write_coca(folder: Path, seed: int = 0) -> Path:
    """Its folder below ``folder``, as open_clip reads one."""
    path = folder / "coca"
    path.mkdir(exist_ok=True)
    tensors = {name: value.contiguous().clone() for name, value in tiny_coca(seed).state_dict().items()}
    save_file(tensors, path / "open_clip_model.safetensors")
    (path / "open_clip_config.json").write_text(json.dumps({"model_cfg": MODEL, "preprocess_cfg": {}}))
    return path


def pixels(count: int) -> Tensor:
    """(count, 3, 32, 32), as preprocessed."""
    rng = np.random.Generator(np.random.Philox(1))
    return torch.from_numpy(2 * rng.normal(size=(count, 3, 32, 32)).astype(np.float32))
