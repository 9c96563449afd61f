"""The convolutional encoder: torchvision's own network, its grid, and what params.yaml may say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import toy
from pydantic import TypeAdapter, ValidationError
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models import resnet

from mdc.config import Backbone, ResNet, TrainedBackbone
from mdc.export.open_clip_model import parts
from mdc.models.encoder import build_encoder
from mdc.models.operations import image_encoder, visual_tokens
from mdc.predictors.runs import RunModel
from mdc.records import UserError
from mdc.text import Vocabulary

SHAPE: dict[str, Any] = {
    **{"label": "", "image_size": 64, "embed_dim": 16, "block": "basic", "blocks": [1, 1]},
    "decoder": {"width": 32, "layers": 1, "heads": 2},
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
    assert (one.patch_size, one.width, visual_tokens(one)) == (patch, width, (64 // patch) ** 2)
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


def test_an_image_does_not_depend_on_what_is_shown_beside_it() -> None:
    encoder = build_encoder(network("basic", 1, 1), 0).train()
    images = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(encoder(images)[1][:1], encoder(images[:1])[1], atol=1e-5)
    assert not list(encoder.buffers(recurse=True))[2:]  # nothing but the pixels' scale and shift


@pytest.mark.parametrize(("block", "blocks"), [("basic", (1,)), ("basic", (1, 2, 1)), ("bottleneck", (1, 2, 1, 1))])
def test_its_operations_are_what_pytorch_counts(block: str, blocks: tuple[int, ...]) -> None:
    one = network(block, *blocks)
    encoder = build_encoder(one, 0)
    with FlopCounterMode(display=False) as counter:
        encoder(torch.zeros(3, 3, 64, 64))[1].sum().backward()
    found = image_encoder(one, 3)
    assert found.step(recompute=False).needed == counter.get_total_flops()
    assert found.all == found.of_layers + found.at_input


def test_what_params_yaml_says_of_it_comes_back() -> None:
    written = SHAPE
    adapter: TypeAdapter[Any] = TypeAdapter(TrainedBackbone)
    found = adapter.validate_python(written)
    dumped = adapter.dump_python(found, mode="json")
    assert type(found) is ResNet and dumped == {**dumped, **written}
    assert dumped["patch_size"] == 8 and adapter.validate_python(dumped) == found, "a job has what follows, too"
    assert type(adapter.validate_python(toy.BACKBONE.model_dump(mode="json"))) is Backbone


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"width": 96}, "width follows from blocks; leave it out"),
        ({"patch_size": 16}, "patch_size follows from blocks; leave it out"),
        ({"blocks": []}, "^1 validation error(.|\n)*at least 1 item"),
        ({"blocks": 3}, "^1 validation error(.|\n)*valid list"),
        ({"blocks": [1] * 5}, "at most 4 items"),
        ({"block": "wide"}, "'basic' or 'bottleneck'"),
        ({"image_size": 60}, "image_size 60 must be a multiple of patch_size 8"),
    ],
    ids=str,
)
def test_a_mistake_is_told(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ResNet.model_validate({**SHAPE, **changes})


def test_open_clip_has_no_such_network(tmp_path: Path) -> None:
    """Told before any weights are read."""
    job = toy.job(toy.METHODS["lstm"], toy.recipe(), backbone=network("basic", 1, 1))
    run = RunModel(tmp_path / "none.safetensors", job, Vocabulary("corpus", tuple(range(toy.V - 2))))
    with pytest.raises(
        UserError, match="norms of groups, which open_clip does not have; allowed: runs with a vision transformer"
    ):
        parts(run, {})
