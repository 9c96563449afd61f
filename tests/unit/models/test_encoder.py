"""The encoder against OpenCLIP's own model, what every method starts from, and what a decoder reads."""

import open_clip
import pytest
import torch
import toy

from mdc.models.encoder import build_encoder, pool


def test_equals_open_clips_tower() -> None:
    ours = build_encoder(toy.BACKBONE, seed=3)
    config = open_clip.CLIPVisionCfg(image_size=16, patch_size=8, width=32, layers=2, head_width=16, output_tokens=True)
    theirs = open_clip.model._build_vision_tower(16, config)
    theirs.proj = None
    assert ours.tower.state_dict().keys() == theirs.state_dict().keys()
    theirs.load_state_dict(ours.tower.state_dict())
    images = torch.randn(4, 3, 16, 16)
    with torch.no_grad():
        (cls, patches), (pooled, tokens) = ours(images), theirs(images)
    assert patches.shape == (4, 4, 32)
    assert torch.allclose(cls, pooled, atol=1e-6) and torch.allclose(patches, tokens, atol=1e-6)


def test_all_methods_start_from_the_same_encoder_and_from_their_seed_alone() -> None:
    toy.assert_same_start(toy.BACKBONE)


def test_poolings() -> None:
    cls, patches = torch.randn(2, 5), torch.randn(2, 3, 5)
    assert torch.equal(pool(cls, patches, "cls"), cls)
    assert torch.allclose(pool(cls, patches, "patch_mean"), patches.sum(1) / 3)
    with pytest.raises(ValueError, match="max"):
        pool(cls, patches, "max")
