"""A CLIP with untrained weights in a folder, as open_clip reads one."""

import json
from pathlib import Path

import open_clip
import torch
from safetensors.torch import save_file

MODEL = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}


def write_clip(folder: Path) -> Path:
    """Its folder below ``folder``; normalised with mean 0.5 and deviation 0.25."""
    path = folder / "tiny"
    path.mkdir()
    torch.manual_seed(0)
    model = open_clip.CLIP(MODEL["embed_dim"], MODEL["vision_cfg"], MODEL["text_cfg"])
    normal = {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}
    (path / "open_clip_config.json").write_text(json.dumps({"model_cfg": MODEL, "preprocess_cfg": normal}))
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    save_file(weights, path / "open_clip_model.safetensors")
    return path
