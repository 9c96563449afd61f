"""What a decoder reads in place of all patches."""

import pytest
import torch
import toy

from mdc.evaluation.predictors.folded import read_images
from mdc.extensions.blog.regions import boxed, read
from mdc.models.captioner import Captioner
from mdc.models.pixel_encoder import PixelEncoder
from mdc.plan.config.kinds.backbones import Backbone, visual_contexts

CLS = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))


def patches(side: int) -> torch.Tensor:
    return torch.randn(2, side * side, 6, generator=torch.Generator().manual_seed(side))


def backbone(reads: str, **more: int) -> Backbone:
    return Backbone.model_validate({**toy.BACKBONE.model_dump(mode="json"), "visual_context": reads, **more})


def no_pixels() -> torch.Tensor:
    raise AssertionError


def test_the_mean_and_cls() -> None:
    there = patches(4)
    assert torch.allclose(read("mean", CLS, there, no_pixels)[:, 0], sum(there[:, n] for n in range(16)) / 16)  # type: ignore[operator]
    assert torch.equal(read("cls", CLS, there, no_pixels), CLS[:, None])


@pytest.mark.parametrize(("side", "cells"), [(4, 2), (6, 3), (6, 2), (4, 3), (7, 3)])
def test_each_cell_of_a_grid_is_the_mean_of_its_patches(side: int, cells: int) -> None:
    there = patches(side)
    found = read(f"grid_{cells}", CLS, there, no_pixels)
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
        named = visual_contexts()[visual_context].load().read
        found = model.visual(model.encoder.prepared(images))
        assert torch.equal(found, named(visual_context, cls, all_patches, lambda: images))
    assert all_patches.shape[1] == patches, "what is probed are the patches, whatever the decoder reads"


def test_a_grid_has_no_more_cells_than_patches() -> None:
    with pytest.raises(ValueError, match="needs 3 patches along a side"):
        backbone("grid_3", image_size=2 * toy.BACKBONE.patch_size)
