from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import CenterCrop, InterpolationMode, Normalize, RandomResizedCrop, Resize, ToTensor
from torchvision.transforms import functional as F

from mdc.data.formats import images, pixels
from mdc.models.normalise import OPENAI_MEAN, OPENAI_STD, normalise


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.mark.parametrize("shape", [(48, 48), (50, 31), (31, 50), (200, 33), (33, 201), (224, 225), (7, 9)])
@pytest.mark.parametrize("size", [32, 33])
def test_center_resize_equals_torchvision(shape: tuple[int, int], size: int) -> None:
    image = noise(*shape)
    theirs = CenterCrop(size)(Resize(size, InterpolationMode.BICUBIC)(image))
    np.testing.assert_array_equal(images.center_resize(image, size), np.asarray(theirs))


@pytest.mark.parametrize("shape", [(48, 48), (96, 64), (30, 300), (300, 30), (1, 1), (5, 3)])
@pytest.mark.parametrize("scale", [(0.9, 1.0), (0.08, 1.0)])
def test_crop_box_equals_torchvision_on_the_same_draws(
    shape: tuple[int, int], scale: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchvision's own get_params, fed with our uniform numbers in place of torch's generator."""
    ratio = (3 / 4, 4 / 3)
    rng = np.random.default_rng(3)
    for seed in range(30):
        uniforms = rng.random(pixels.CROP_DRAWS).tolist()
        calls = {"area and ratio": 0, "place": 0}

        def uniform(low: float, high: float, uniforms: list = uniforms, calls: dict = calls) -> torch.Tensor:
            attempt, which = divmod(calls["area and ratio"], 2)
            calls["area and ratio"] += 1
            value = float(low) + (float(high) - float(low)) * uniforms[4 * attempt + which]
            return torch.tensor(value, dtype=torch.float64)

        def randint(low: int, high: int, size: tuple, uniforms: list = uniforms, calls: dict = calls) -> torch.Tensor:
            attempt = calls["area and ratio"] // 2 - 1
            calls["place"] += 1
            return torch.tensor(int(uniforms[4 * attempt + 1 + calls["place"]] * high))

        monkeypatch.setattr(torch, "empty", lambda n, draw=uniform: SimpleNamespace(uniform_=draw))
        monkeypatch.setattr(torch, "randint", randint)
        image = noise(*shape, seed)
        top, left, h, w = RandomResizedCrop.get_params(image, list(scale), list(ratio))
        monkeypatch.undo()
        assert pixels.crop_box(*shape, uniforms, scale, ratio) == (left, top, left + w, top + h)
        theirs = F.resized_crop(
            image, top, left, h, w, [h, 24], InterpolationMode.BICUBIC
        )  # its width, then its height
        theirs = F.resize(theirs, [24, 24], InterpolationMode.BICUBIC)
        ours = pixels.random_resized_crop(torch.from_numpy(np.array(image)), 24, uniforms, scale, ratio)
        assert ours.dtype == torch.uint8 and ours.shape == (3, 24, 24)
        assert grey_levels(ours, theirs).max() <= 2


def grey_levels(ours: torch.Tensor, theirs: Image.Image) -> np.ndarray:
    """How far each value of a planar image is from Pillow's."""
    return np.abs(ours.permute(1, 2, 0).numpy().astype(int) - np.asarray(theirs, dtype=int))


@pytest.mark.parametrize("shape", [(341, 256), (256, 256), (640, 480), (1600, 1200), (48, 48), (100, 60), (2000, 11)])
@pytest.mark.parametrize("size", [48, 224])
def test_a_training_crop_is_within_a_grey_level_of_torchvisions(shape: tuple[int, int], size: int) -> None:
    """Of RandomResizedCrop on a PIL image. Pillow 13 resizes the height first where that is less work, and noise, whose
    overshoots are cut off in between, then comes out otherwise; so it is held to the width first, as before 13 and as
    PyTorch does it, and images as smooth as photos to Pillow as it is."""
    smooth = noise(6, 5, 5).resize(shape, Image.Resampling.BICUBIC)
    uniforms = np.random.default_rng(7).random(pixels.CROP_DRAWS).tolist()
    box = pixels.crop_box(*shape, uniforms, (0.9, 1.0), (3 / 4, 4 / 3))
    for image in (noise(*shape, 1), Image.blend(noise(*shape, 2), smooth, 0.7), smooth):
        crop = image.crop(box)
        theirs = crop if image is smooth else crop.resize((size, crop.height), Image.Resampling.BICUBIC)
        theirs = theirs.resize((size, size), Image.Resampling.BICUBIC)
        shown = torch.from_numpy(np.array(image))
        ours = pixels.random_resized_crop(shown, size, uniforms, (0.9, 1.0), (3 / 4, 4 / 3))
        off = grey_levels(ours, theirs)
        assert off.max() <= 2 and (off > 1).mean() < 0.001 and (off > 0).mean() < 0.03
        for threads in (2, 1):
            torch.set_num_threads(threads)
            assert torch.equal(
                pixels.random_resized_crop(shown.clone(), size, uniforms, (0.9, 1.0), (3 / 4, 4 / 3)), ours
            )


def test_normalise_equals_torchvision_for_both_layouts() -> None:
    batch = [noise(20, 20, seed) for seed in range(3)]
    shown = torch.from_numpy(np.stack([np.asarray(image) for image in batch]))
    theirs = torch.stack([Normalize(OPENAI_MEAN, OPENAI_STD)(ToTensor()(image)) for image in batch])
    for layout in (shown, shown.permute(0, 3, 1, 2).contiguous()):
        before = layout.clone()
        ours = normalise(layout)
        assert ours.dtype == torch.float32 and ours.is_contiguous() and torch.equal(layout, before)
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
