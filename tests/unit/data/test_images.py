import io
import struct
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pillow_heif
import pytest
import torch
from bad_input import png
from PIL import Image, ImageCms, PngImagePlugin
from torchvision.transforms import CenterCrop, InterpolationMode, Normalize, RandomResizedCrop, Resize, ToTensor
from torchvision.transforms import functional as F

from mdc.data.formats import images, pixels
from mdc.data.obtain import downloader
from mdc.data.obtain.reasons import NO_IMAGE, NO_MEMORY, UNEXPECTED
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


# what becomes of each kind of image

_PLAIN = Image.fromarray((np.indices((24, 32)).sum(0)[..., None] * np.array([4, 3, 2])).astype(np.uint8))
_GREY = np.asarray(_PLAIN.convert("L"))
_16 = _GREY.astype(np.uint16) * 256 + 77  # of which the high byte is kept


def _saved(image: Image.Image, form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def _png(colour: int, rows: np.ndarray) -> bytes:
    """A PNG of 16 bits a channel, which Pillow does not write."""
    data = b"".join(b"\0" + row.astype(">u2").tobytes() for row in rows)
    return png(rows.shape[1], rows.shape[0], depth=16, colour=colour, rows=data)


def _tiff(bits: int, grey: np.ndarray, form: int = 1) -> bytes:
    """A grey TIFF of so many bits a sample, which Pillow does not write; ``form``: 1 unsigned, 2 signed."""
    rows = np.packbits(grey[..., None] >> np.arange(bits)[::-1] & 1).tobytes()
    tags = {256: grey.shape[1], 257: grey.shape[0], 258: bits, 262: 1, 273: 110, 278: grey.shape[0], 279: len(rows)}
    tags[339] = form
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + entries + bytes(4) + rows


def _lab() -> Image.Image:
    srgb, lab = (ImageCms.createProfile(name) for name in ("sRGB", "LAB"))
    found = ImageCms.profileToProfile(_PLAIN, srgb, lab, outputMode="LAB")
    assert found is not None
    return found


def _chatty(**options: object) -> bytes:
    info = PngImagePlugin.PngInfo()
    info.add_text("Comment", "x" * 2_000_000, zip=True)
    return _saved(_PLAIN, "PNG", pnginfo=info, **options)


def _heic(**options: object) -> bytes:
    pillow_heif.register_heif_opener()
    return _saved(_PLAIN, "HEIF", quality=95, **options)


_KINDS: dict[str, tuple[Callable[[], bytes], str]] = {
    "JPEG": (lambda: _saved(_PLAIN, "JPEG", quality=95), "colour"),
    "JPEG, progressive": (lambda: _saved(_PLAIN, "JPEG", quality=95, progressive=True), "colour"),
    "JPEG, CMYK": (lambda: _saved(_PLAIN.convert("CMYK"), "JPEG", quality=95), "colour"),
    "JPEG, large profile": (lambda: _saved(_PLAIN, "JPEG", quality=95, icc_profile=bytes(500_000)), "colour"),
    "PNG": (lambda: _saved(_PLAIN, "PNG"), "colour"),
    "PNG, alpha": (lambda: _saved(_PLAIN.convert("RGBA"), "PNG"), "colour"),
    "PNG, palette": (lambda: _saved(_PLAIN.convert("P", palette=Image.Palette.ADAPTIVE), "PNG"), "near"),
    "PNG, 16-bit grey": (lambda: _saved(Image.fromarray(_16), "PNG"), "grey"),
    "PNG, 16-bit grey and alpha": (lambda: _png(4, np.stack([_16, np.full_like(_16, 65535)], -1)), "grey"),
    "PNG, 16-bit colour": (lambda: _png(2, np.asarray(_PLAIN).astype(np.uint16) * 257), "colour"),
    "PNG, 2 MB of text": (_chatty, "colour"),
    "PNG, 2 MB of profile": (lambda: _saved(_PLAIN, "PNG", icc_profile=bytes(2_000_000)), "colour"),
    "GIF": (lambda: _saved(_PLAIN.convert("P", palette=Image.Palette.ADAPTIVE), "GIF"), "near"),
    "GIF, two frames": (lambda: _saved(_PLAIN, "GIF", save_all=True, append_images=[_PLAIN.rotate(180)]), "near"),
    "WebP": (lambda: _saved(_PLAIN, "WEBP", lossless=True), "colour"),
    "WebP, large profile": (lambda: _saved(_PLAIN, "WEBP", lossless=True, icc_profile=bytes(3_000_000)), "colour"),
    "AVIF": (lambda: _saved(_PLAIN, "AVIF", quality=95), "colour"),
    "HEIC": (_heic, "colour"),
    "JPEG 2000": (lambda: _saved(_PLAIN, "JPEG2000"), "colour"),
    "PPM": (lambda: _saved(_PLAIN, "PPM"), "colour"),
    "BMP": (lambda: _saved(_PLAIN, "BMP"), "colour"),
    "DIB": (lambda: _saved(_PLAIN, "DIB"), "colour"),
    "TIFF, LZW": (lambda: _saved(_PLAIN, "TIFF", compression="tiff_lzw"), "colour"),
    "TIFF, CMYK": (lambda: _saved(_PLAIN.convert("CMYK"), "TIFF"), "colour"),
    "TIFF, LAB": (lambda: _saved(_lab(), "TIFF"), "colour"),
    "TIFF, 16-bit grey": (lambda: _saved(Image.fromarray(_16.astype(">u2")), "TIFF"), "grey"),
    "TIFF, 12-bit grey": (lambda: _tiff(12, _GREY.astype(int) * 16 + 9), "grey"),
    "TIFF, 32-bit, dark": (lambda: _saved(Image.fromarray(_GREY.astype(np.int32)), "TIFF"), "no known range"),
    "TIFF, 32-bit": (lambda: _saved(Image.fromarray(_16.astype(np.int32) * 300), "TIFF"), "no known range"),
    "TIFF, 16-bit signed": (lambda: _tiff(16, _GREY.astype(int) // 2 * 257, 2), "no known range"),
    "TIFF, 8-bit signed": (lambda: _tiff(8, _GREY.astype(int) // 2, 2), "no known range"),
    "TIFF, floating-point": (lambda: _saved(Image.fromarray(_16.astype(np.float32)), "TIFF"), "no known range"),
}


@pytest.mark.parametrize("kind", _KINDS)
def test_what_becomes_of_each_kind_of_image(kind: str) -> None:
    make, wanted = _KINDS[kind]
    data = make()
    if wanted == "no known range":
        with pytest.raises(images.ImageError, match=wanted):
            images.decode(data)
        return
    found = np.asarray(images.decode(data), dtype=int)
    expected = np.asarray(_PLAIN if wanted != "grey" else Image.fromarray(_GREY).convert("RGB"), dtype=int)
    assert np.abs(found - expected).mean() < (6 if wanted == "near" else 1)
    np.testing.assert_array_equal(np.asarray(images.decode(data + bytes(16))), found)  # what follows is not the image's
    for left in range(1, len(data), max(1, len(data) // 4000)):
        with pytest.raises(images.ImageError):
            images.decode(data[:left])


def test_pixels_beyond_sixteen_bits_do_not_wrap() -> None:
    for value in (100_000, -5):
        with pytest.raises(images.ImageError, match="no known range"):
            images.rgb(Image.fromarray(np.array([[value, 300]], np.int32)))


def test_heic_is_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert images.decode(_heic(exif=exif.tobytes())).size == (24, 32)


def test_every_ending_of_a_format_that_is_read_is_an_image() -> None:
    pillow_heif.register_heif_opener()
    Image.init()
    theirs = {(form, ending[1:]) for ending, form in Image.registered_extensions().items() if form in images.ENDINGS}
    ours = {(form, ending) for form, endings in images.ENDINGS.items() for ending in endings}
    assert theirs - {("PPM", "pfm")} <= ours  # PFM holds floating-point numbers


@pytest.mark.parametrize("form", ["PNG", "GIF"])
def test_a_comment_that_no_jpeg_holds_is_left_out(form: str) -> None:
    """A GIF or PNG with 70 kB of comment made Pillow's writer raise, and its row blocked the download for ever."""
    large = _PLAIN.resize((320, 240))
    info = PngImagePlugin.PngInfo()
    info.add_text("comment", "x" * 70_000)
    data = _saved(large, form, **({"pnginfo": info} if form == "PNG" else {"comment": b"x" * 70_000}))
    encoded, width, height, *_, reason = downloader.Resize(64, 95, 1, 1 << 20, 20)(io.BytesIO(data))
    assert reason is None and (width, height) == (85, 64) and encoded is not None
    assert "comment" not in Image.open(io.BytesIO(encoded)).info


@pytest.mark.parametrize(
    ("error", "reason"),
    [(images.ImageError("broken"), NO_IMAGE), (MemoryError(), NO_MEMORY), (OSError("encoder error"), UNEXPECTED)],
)
def test_whatever_one_image_does_its_row_is_counted(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    data = _KINDS["PNG"][0]()
    monkeypatch.setattr(Image.Image, "save", fail)
    assert downloader.Resize(8, 95, 1, 1 << 20, 20)(io.BytesIO(data)) == (*[None] * 5, reason)


def test_too_little_memory_is_no_fault_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    data = _KINDS["TIFF, LZW"][0]()
    monkeypatch.setattr(images, "_upright", fail)
    with pytest.raises(MemoryError):
        images.decode(data)
