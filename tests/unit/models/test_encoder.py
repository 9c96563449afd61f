"""The encoders against OpenCLIP's and torchvision's own models, what every method starts from, and what a decoder reads."""

from typing import Any

import open_clip
import pytest
import torch
import toy
from torch import nn
from torchvision.models import resnet

from mdc.evaluation.predictors.folded import read_images
from mdc.models.captioner import Captioner
from mdc.models.encoder import build_encoder, pool
from mdc.models.pixel_encoder import PixelEncoder
from mdc.models.visual_context import boxed, read
from mdc.plan.config.backbones import Backbone, ResNet


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


@pytest.mark.parametrize("backbone", [toy.BACKBONE, toy.CONVOLUTIONAL], ids=["transformer", "convolutional"])
def test_all_methods_start_from_the_same_encoder_and_from_their_seed_alone(backbone: Any) -> None:
    seed = 5
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


# --- of convolutions --------------------------------------------------------------------------------------------------


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


# --- what a decoder reads of it ---------------------------------------------------------------------------------------


CLS = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))


def patches(side: int) -> torch.Tensor:
    return torch.randn(2, side * side, 6, generator=torch.Generator().manual_seed(side))


def backbone(reads: str, **more: int) -> Backbone:
    return Backbone.model_validate({**toy.BACKBONE.model_dump(mode="json"), "visual_context": reads, **more})


def test_patches_their_mean_and_cls() -> None:
    there = patches(4)
    assert torch.equal(read("patches", CLS, there), there)
    assert torch.allclose(read("mean", CLS, there)[:, 0], sum(there[:, n] for n in range(16)) / 16)  # type: ignore[operator]
    assert torch.equal(read("cls", CLS, there), CLS[:, None])


@pytest.mark.parametrize(("side", "cells"), [(4, 2), (6, 3), (6, 2), (4, 3), (7, 3)])
def test_each_cell_of_a_grid_is_the_mean_of_its_patches(side: int, cells: int) -> None:
    there = patches(side)
    found = read(f"grid_{cells}", CLS, there)  # type: ignore[arg-type]
    assert found.shape == (2, cells**2, 6)
    for row in range(cells):
        for column in range(cells):
            inside = [
                there[:, side * y + x]
                for y in range(row * side // cells, -(-(row + 1) * side // cells))
                for x in range(column * side // cells, -(-(column + 1) * side // cells))
            ]
            assert torch.allclose(found[:, cells * row + column], torch.stack(inside).mean(dim=0), atol=1e-6)


def test_a_box_is_the_mean_of_its_patches_each_by_its_area_in_the_box() -> None:
    """Against pixels: a patch's token at each of its pixels, and the mean over the box."""
    there = patches(4)
    image = there.unflatten(1, (4, 4)).repeat_interleave(12, dim=1).repeat_interleave(12, dim=2)
    boxes = torch.tensor(
        [[[0, 0, 48, 48], [5, 20, 17, 33], [12, 12, 24, 24]], [[47, 0, 48, 1], [1, 2, 47, 3], [30, 30, 48, 48]]]
    )
    found = boxed(there, boxes / 48)
    for sample in range(2):
        for number, (left, top, right, bottom) in enumerate(boxes[sample].tolist()):
            expected = image[sample, top:bottom, left:right].flatten(0, 1).mean(dim=0)
            assert torch.allclose(found[sample, number], expected, atol=1e-5)


def test_objects_are_read_of_their_boxes_and_the_whole_image_in_place_of_those_that_are_not_there() -> None:
    """A dark picture with one bright rectangle, whose pixels the model sees normalised."""
    shape = backbone("objects")
    size = shape.image_size
    images = torch.full((1, 3, size, size), 80, dtype=torch.uint8)
    images[:, 2, 3 : size - 2, 1:6] = 230
    model = Captioner(shape, toy.V, 77, causal=False, seed=0).eval()
    prepared = model.encoder.prepared(images)
    assert isinstance(model.encoder, PixelEncoder)
    assert torch.equal(model.encoder.pixels(prepared), images)
    with torch.no_grad():
        _, there = model.encoder(prepared)
        found = model.visual(prepared)
    whole = there.mean(dim=1)
    one = boxed(there, torch.tensor([[[1 / size, 3 / size, 6 / size, (size - 2) / size]]]))[:, 0]
    assert torch.allclose(found, torch.stack([whole, one, whole, whole, whole], dim=1), atol=1e-5)
    assert not torch.allclose(one, whole, atol=1e-2)


@pytest.mark.parametrize("visual_context", ["patches", "mean", "cls", "grid_2", "objects"])
def test_a_captioner_is_written_with_by_what_it_was_trained_to_read(visual_context: str) -> None:
    """Logits of the whole caption and the writer's hidden states come from the same visual tokens."""
    shape = backbone(visual_context)
    model = Captioner(shape, toy.V, 77, causal=False, seed=0).eval()
    images = torch.randint(0, 256, (2, 3, shape.image_size, shape.image_size), dtype=torch.uint8)
    tokens = torch.randint(0, toy.V, (2, 9), generator=torch.Generator().manual_seed(1))
    memory = read_images(model, images, "fp32")
    patches = (shape.image_size // shape.patch_size) ** 2
    assert (
        memory.layers[0][0].shape[2]
        == {"patches": patches, "mean": 1, "cls": 1, "grid_2": 4, "objects": 5}[visual_context]
    )
    with torch.no_grad():
        expected = model.logits(model.encoder.prepared(images), tokens, torch.tensor([9, 9]))
        assert torch.allclose(model.head(model.hidden_states(tokens[:, None], memory)[:, 0]), expected, atol=1e-4)
        cls, all_patches = model.encoder(model.encoder.prepared(images))
        pixels = images if visual_context == "objects" else None
        assert torch.equal(
            model.visual(model.encoder.prepared(images)), read(shape.visual_context, cls, all_patches, pixels)
        )
    assert all_patches.shape[1] == patches, "what is probed are the patches, whatever the decoder reads"


def test_a_grid_has_no_more_cells_than_patches() -> None:
    with pytest.raises(ValueError, match="fewer than the grid has cells"):
        backbone("grid_3", image_size=2 * toy.BACKBONE.patch_size)
