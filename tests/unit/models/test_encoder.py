"""The encoder against OpenCLIP's own model, and what every method starts from."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
import toy

from mdc.models.encoder import build_encoder, pool


def test_equals_open_clips_tower() -> None:
    """In a process of its own: `import open_clip` is what the package avoids."""
    code = """
import sys; sys.path.insert(0, "tests/support")
import torch, toy, open_clip
from mdc.models.encoder import build_encoder
assert "transformers" in sys.modules
ours = build_encoder(toy.BACKBONE, seed=3)
config = open_clip.CLIPVisionCfg(image_size=16, patch_size=8, width=32, layers=2, head_width=16, output_tokens=True)
theirs = open_clip.model._build_vision_tower(16, config)
theirs.proj = None
assert ours.tower.state_dict().keys() == theirs.state_dict().keys()
theirs.load_state_dict(ours.tower.state_dict())
images = torch.randn(4, 3, 16, 16)
with torch.no_grad():
    cls, patches = ours(images)
    pooled, tokens = theirs(images)
assert patches.shape == (4, 4, 32)
assert torch.allclose(cls, pooled, atol=1e-6) and torch.allclose(patches, tokens, atol=1e-6)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("backbone", [toy.BACKBONE, toy.CONVOLUTIONAL], ids=["transformer", "convolutional"])
@pytest.mark.parametrize("seed", [0, 5])
def test_all_methods_start_from_the_same_encoder_and_from_their_seed_alone(seed: int, backbone: Any) -> None:
    start = build_encoder(backbone, seed).state_dict()
    assert not toy.same_tensors(build_encoder(backbone, seed + 1).state_dict(), start)
    for method in toy.ALL_METHODS:
        torch.manual_seed(seed + 100)
        before = torch.get_rng_state()
        model = toy.model(method, seed, backbone=backbone)
        assert torch.equal(torch.get_rng_state(), before), "the global generator is left alone"
        assert toy.same_tensors(model.encoder.state_dict(), start)
        torch.manual_seed(seed + 200)
        assert toy.same_tensors(model.state_dict(), toy.model(method, seed, backbone=backbone).state_dict())
    other_words = toy.build_model(toy.METHODS["mdc"], backbone, toy.PROTOCOL, toy.V + 9, 77, seed)
    assert toy.same_tensors(other_words.encoder.state_dict(), start)


def test_poolings() -> None:
    cls, patches = torch.randn(2, 5), torch.randn(2, 3, 5)
    assert torch.equal(pool(cls, patches, "cls"), cls)
    assert torch.allclose(pool(cls, patches, "patch_mean"), patches.sum(1) / 3)
    with pytest.raises(ValueError, match="max"):
        pool(cls, patches, "max")
