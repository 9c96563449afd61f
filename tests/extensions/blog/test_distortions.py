"""Images made worse: each kind against what it is defined as, and the same for every captioner."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from mdc.extensions.blog.distortions import distort
from mdc.extensions.blog.kinds import LEVELS, Corruption


def picture(width: int = 90, height: int = 60) -> Image.Image:
    rng = np.random.default_rng(1)
    coarse = rng.integers(60, 200, size=(6, 9, 3), dtype=np.uint8)
    return Image.fromarray(np.kron(coarse, np.ones((10, 10, 1), dtype=np.uint8))).resize((width, height))


def done(kind: Any, strength: int, key: str = "a", seed: int = 0, image: Image.Image | None = None) -> np.ndarray:
    found = distort(image or picture(), Corruption.at_all_strengths(kind)[strength - 1], key, seed)
    assert found.mode == "RGB" and found.size == (image or picture()).size
    return np.asarray(found)


@pytest.mark.parametrize("kind", list(LEVELS))
def test_a_stronger_one_leaves_less_of_the_image(kind: Any) -> None:
    before = np.asarray(picture(), dtype=float)
    errors = [((done(kind, strength) - before) ** 2).mean() for strength in range(1, 6)]
    assert errors == sorted(errors) and 0 < errors[0] < errors[-1]
    assert list(LEVELS[kind]) == sorted(LEVELS[kind], reverse=kind == "jpeg") and len(set(LEVELS[kind])) == 5


@pytest.mark.parametrize("kind", list(LEVELS))
def test_the_same_key_and_seed_give_the_same_image(kind: Any) -> None:
    np.testing.assert_array_equal(done(kind, 3), done(kind, 3))
    drawn = kind in ("noise", "cutout")
    assert (not np.array_equal(done(kind, 3), done(kind, 3, key="b"))) is drawn
    assert (not np.array_equal(done(kind, 3), done(kind, 3, seed=1))) is drawn


def test_noise_has_the_deviation_that_is_asked_for_and_grows_in_place() -> None:
    grey = Image.fromarray(np.full((200, 200, 3), 128, dtype=np.uint8))
    one, other = (done("noise", strength, image=grey).astype(float) - 128 for strength in (1, 2))
    for found, std in ((one, 0.08), (other, 0.12)):
        assert found.std() == pytest.approx(255 * std, rel=0.02) and abs(found.mean()) < 0.3
    # the same noise times more, but for rounding, and where it leaves the range
    np.testing.assert_allclose(other, np.clip(one * 0.12 / 0.08, -128, 127), atol=1.3)
    assert abs(np.corrcoef(one[..., 0].ravel(), one[..., 1].ravel())[0, 1]) < 0.02


def test_blur_is_a_gaussian_of_a_share_of_the_shorter_side() -> None:
    image = picture(448, 336)
    sigma = 4.0 * 336 / 224
    wanted = gaussian_filter(np.asarray(image, dtype=float), (sigma, sigma, 0), mode="nearest")
    # Pillow's is three passes of a box, which lie near a Gaussian
    assert np.abs(done("blur", 4, image=image) - wanted)[20:-20, 20:-20].mean() < 1.0
    small, large = (done("blur", 3, image=picture(*size)) for size in ((90, 60), (900, 600)))
    again = np.asarray(Image.fromarray(large).resize((90, 60)), dtype=float)
    assert np.abs(again - small).mean() < 3.0


def test_jpeg_is_that_of_pillow_at_its_quality() -> None:
    coded = io.BytesIO()
    picture().save(coded, "JPEG", quality=15)
    np.testing.assert_array_equal(done("jpeg", 3), np.asarray(Image.open(coded)))


def test_cutout_is_one_grey_square_inside() -> None:
    white = Image.fromarray(np.full((60, 90, 3), 255, dtype=np.uint8))
    for strength, share in enumerate(LEVELS["cutout"], 1):
        places = []
        for key in "abcdefgh":
            cut = (done("cutout", strength, key=key, image=white) == 128).all(axis=2)
            rows, columns = np.flatnonzero(cut.any(axis=1)), np.flatnonzero(cut.any(axis=0))
            side = round((share * 60 * 90) ** 0.5)
            assert len(rows) == len(columns) == side and cut.sum() == side * side
            assert rows[-1] - rows[0] == columns[-1] - columns[0] == side - 1
            places.append((rows[0], columns[0]))
        assert len(set(places)) > 4
    tall = Image.fromarray(np.full((400, 20, 3), 255, dtype=np.uint8))
    assert (done("cutout", 5, image=tall) == 128).all(axis=2).sum() == 20 * 20, "no more than the shorter side"
