"""The encoder against OpenCLIP's own model, and what every method starts from."""

from __future__ import annotations

import subprocess
import sys

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


def test_importing_the_probe_imports_no_transformers_and_no_compiler() -> None:
    code = (
        "import sys, mdc.evaluation.probe; print({'transformers', 'torchvision', 'torch._dynamo'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("seed", [0, 5])
def test_all_methods_start_from_the_same_encoder(seed: int) -> None:
    start = build_encoder(toy.BACKBONE, seed).state_dict()
    for method in toy.METHODS.values():
        model = toy.build_model(method, toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed)
        assert toy.same_tensors(model.encoder.state_dict(), start)
    other_words = toy.build_model(toy.METHODS["mdc"], toy.BACKBONE, toy.PROTOCOL, toy.V + 9, 77, seed)
    assert toy.same_tensors(other_words.encoder.state_dict(), start)
    assert not toy.same_tensors(build_encoder(toy.BACKBONE, seed + 1).state_dict(), start)


def test_building_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    toy.build_model(toy.METHODS["clip"], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_initial_weights_do_not_depend_on_the_global_generator() -> None:
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        states.append([toy.build_model(m, toy.BACKBONE, toy.PROTOCOL, toy.V, 77, 0) for m in toy.METHODS.values()])
    for left, right in zip(*states, strict=True):
        assert toy.same_tensors(left.state_dict(), right.state_dict())


def test_poolings() -> None:
    cls, patches = torch.randn(2, 5), torch.randn(2, 3, 5)
    assert torch.equal(pool(cls, patches, "cls"), cls)
    assert torch.allclose(pool(cls, patches, "patch_mean"), patches.sum(1) / 3)
    with pytest.raises(ValueError, match="max"):
        pool(cls, patches, "max")
