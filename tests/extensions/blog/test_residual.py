"""The residual network against torchvision's own models."""

from typing import Any

import pytest
import torch
import toy
from torch import nn
from torchvision.models import resnet

from mdc.extensions.blog.kinds import ResNet
from mdc.models.encoder import build_encoder

SHAPE: dict[str, Any] = {
    **{"label": "", "image_size": 64, "embed_dim": 16, "block": "basic", "blocks": [1, 1]},
    "decoder": {"width": 32, "layers": 2, "heads": 2},
}


def network(block: str, *blocks: int, **more: Any) -> ResNet:
    return ResNet.model_validate({**SHAPE, "block": block, "blocks": list(blocks), **more})


@pytest.mark.parametrize(
    ("block", "blocks", "theirs"),
    [
        ("basic", (2, 2, 2, 2), resnet.resnet18),
        ("basic", (3, 4, 6, 3), resnet.resnet34),
        ("bottleneck", (3, 4, 6, 3), resnet.resnet50),
    ],
)
def test_it_is_torchvisions_network_up_to_its_pooling(block: str, blocks: tuple[int, ...], theirs: Any) -> None:
    """With norms of groups; the mean of its grid is what theirs classifies."""
    one = network(block, *blocks)
    ours, other = build_encoder(one, seed=3), theirs(norm_layer=lambda channels: nn.GroupNorm(32, channels))
    other.fc = nn.Identity()
    weights = list(ours.tower.state_dict().values())
    other.load_state_dict(dict(zip(other.state_dict(), weights, strict=True)))
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        mean, places = ours(images)
        assert torch.allclose(mean, other(images), atol=1e-5)
    assert places.shape == (2, 4, one.width) and torch.allclose(places.mean(dim=1), mean, atol=1e-6)


@pytest.mark.parametrize(("blocks", "patch", "width"), [((1,), 4, 64), ((1, 1), 8, 128), ((1, 1, 1), 16, 256)])
def test_fewer_stages_leave_a_finer_grid(blocks: tuple[int, ...], patch: int, width: int) -> None:
    one = network("basic", *blocks)
    assert (one.patch_size, one.width) == (patch, width)
    _, places = build_encoder(one, 0)(torch.zeros(1, 3, 64, 64))
    assert places.shape == (1, (64 // patch) ** 2, width)


def test_places_stand_row_by_row() -> None:
    """What is drawn at one corner is seen in the place of that corner."""
    encoder = build_encoder(network("basic", 1), 0)
    images = torch.zeros(1, 3, 64, 64)
    images[:, :, 2, 60] = 9.0  # the last place of the first row
    with torch.no_grad():
        change = (encoder(images)[1] - encoder(torch.zeros(1, 3, 64, 64))[1]).abs().sum(dim=2)[0]
    row, column = divmod(int(change.argmax()), 16)
    assert row <= 1 and column >= 14


def test_all_methods_start_from_the_same_encoder_and_from_their_seed_alone() -> None:
    toy.assert_same_start(network("basic", 1, 1, image_size=16))
