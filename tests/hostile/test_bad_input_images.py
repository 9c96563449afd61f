"""Every kind of image that goes wrong somewhere: what is seen of it, or the reason it is left out for."""

import io
import os
import resource
import struct
import subprocess
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import corpus_config, png, png_chunk, told
from confined import forked
from data_samples import encoded, saved, write_parquet
from PIL import Image, PngImagePlugin

from mdc.app.cli import main
from mdc.data.formats import images
from mdc.data.formats.images import ImageError, as_shown, decode
from mdc.data.formats.samples import MAX_FILE, Skipped, counted, read_file, read_image
from mdc.plan.records import read_json, read_json_lines, sha256_file


def said_to_be_huge(kind: str, place: int, sides: bytes, **options: Any) -> bytes:
    """A small image in whose header, at ``place``, other sides stand."""
    data = bytearray(saved(Image.new("P" if kind == "GIF" else "RGB", (16, 16)), kind, **options))
    data[place : place + len(sides)] = sides
    return bytes(data)


def tiff_of(width: int, height: int) -> bytes:
    data = bytearray(saved(Image.new("RGB", (4, 4)), "TIFF"))
    offset = struct.unpack_from("<I", data, 4)[0]
    for entry in range(offset + 2, offset + 2 + 12 * struct.unpack_from("<H", data, offset)[0], 12):
        tag, kind = struct.unpack_from("<HH", data, entry)
        if tag in (256, 257):
            struct.pack_into("<I" if kind == 4 else "<H", data, entry + 8, width if tag == 256 else height)
    return bytes(data)


SIDE = 60_000
TWO_FRAMES = {"save_all": True, "append_images": [Image.new("RGB", (16, 16), "blue")]}
BOMBS = {
    "png": png(SIDE, SIDE),
    "gif": said_to_be_huge("GIF", 6, struct.pack("<HH", SIDE, SIDE)),
    "webp": said_to_be_huge("WEBP", 24, 2 * (SIDE - 1).to_bytes(3, "little"), **TWO_FRAMES),
    "tiff": tiff_of(SIDE, SIDE),
    "bmp": said_to_be_huge("BMP", 18, struct.pack("<ii", SIDE, SIDE)),
    "large png": png(10_000, 10_000),  # above our limit and below twice that, where Pillow itself refuses
}
FRAMES = [Image.fromarray(np.random.default_rng(i).integers(0, 256, (20, 20, 3), dtype=np.uint8)) for i in range(3)]
NOISE = np.random.default_rng(7).integers(60, 200, (100, 125, 3), dtype=np.uint8)
WHOLE = encoded(3, 64, 64, "JPEG")

TEXT_BOMB = zlib.compress(b"\0" * 80_000_000, 9)

UNUSABLE = {
    "zero_bytes": (b"", "no image"),
    "none": (None, "no image"),
    "text": (b"<html>404 not found</html>", "image cannot be decoded"),
    "corrupt_png": (encoded(1)[:60] + b"\xff" * 40 + encoded(1)[100:], "image cannot be decoded"),
    "corrupt_header": (b"\xff\xd8\xff\xe0" + b"\0" * 300, "image cannot be decoded"),
    "truncated_jpeg": (WHOLE[: len(WHOLE) // 2], "image cannot be decoded"),
    "truncated_png": (encoded(1)[:-40], "image cannot be decoded"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "image cannot be decoded"),
    "float_tiff": (saved(Image.new("F", (9, 9)), "TIFF"), "image cannot be decoded"),
    "text_bomb": (png(4, 4, png_chunk(b"zTXt", b"k\0\0" + TEXT_BOMB)), "image cannot be decoded"),
    "narrow": (saved(Image.new("RGB", (1, 4_000)), "PNG"), "image too narrow"),
    **{f"{name} bomb": (data, "image too large") for name, data in BOMBS.items()},
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_image_is_left_out_for_its_reason(name: str) -> None:
    data, reason = UNUSABLE[name]
    skipped = Skipped()
    assert counted(partial(read_image, data), skipped, "k", "f") is None
    assert skipped.counts == {reason: 1}


JPEGS: dict[str, dict[str, Any]] = {
    "baseline": {},
    "optimised": {"optimize": True, "subsampling": 0},
    "progressive": {"progressive": True},
    "restarts": {"restart_marker_blocks": 1},
    "progressive restarts": {"progressive": True, "restart_marker_blocks": 2},
    "comment with an end mark": {"comment": b"\xff\xd9\xff\xda"},
}


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("kind", JPEGS)
def test_a_jpeg_cut_anywhere_is_left_out_though_closed_by_an_end_mark(kind: str, mode: str) -> None:
    """libjpeg fills it up with grey. Missed is what costs at most the last block, and a progressive one cut between its scans."""
    whole = saved(Image.fromarray(NOISE).convert(mode), "JPEG", quality=90, **JPEGS[kind])
    for data in (whole, whole + b"\xff\xd9 and more"):
        small = images.smaller(data, 20)
        assert images.at_most(data, 400) == (data, "jpg") and np.array_equal(
            images.smaller(data, 400).image, np.asarray(decode(data))
        )
        assert small.image.size == (25, 20) and small.size == (125, 100)
    scan, skipped = whole.rindex(b"\xff\xda") if "pro" not in kind else whole.index(b"\xff\xda"), Skipped()
    cuts = range(scan + 20, len(whole) - 60, 61)
    for cut in cuts:
        counted(partial(read_image, whole[:cut] + b"\xff\xd9"), skipped, "k", "f")
    assert skipped.counts["image cannot be decoded"] >= len(cuts) * (0.95 if "progressive" in kind else 1) > 40


def test_the_first_of_several_jpegs_in_a_file_is_whole() -> None:
    whole = saved(Image.fromarray(NOISE), "MPO", save_all=True, append_images=[Image.fromarray(NOISE[::-1])])
    assert images.at_most(whole, 400) == (whole, "jpg")
    second = whole.index(b"\xff\xd8", 2)
    cut = (whole.index(b"\xff\xda") + second) // 2
    broken = whole[:cut] + b"\xff\xd9" + bytes(second - cut - 2) + whole[second:]
    assert Image.open(io.BytesIO(broken)).format == "MPO"
    with pytest.raises(ImageError):
        images.at_most(broken, 400)


@pytest.mark.parametrize(
    "how", [{"lossless": False}, {"lossless": True}, {"save_all": True, "append_images": FRAMES[1:]}]
)
@pytest.mark.parametrize("size", [(20, 20), (37, 2000), (16383, 30)])
def test_a_webps_size_is_read_from_its_header(how: dict[str, Any], size: tuple[int, int]) -> None:
    """Of all three kinds of WebP, as Pillow finds it; a header that is cut off tells none."""
    if "save_all" in how:
        how = {**how, "append_images": [frame.resize(size) for frame in FRAMES[1:]]}
    data = saved(FRAMES[0].resize(size), "WEBP", **how)
    assert images._webp_size(data) == Image.open(io.BytesIO(data)).size == size
    assert images._webp_size(data[:29]) is images._webp_size(encoded(1)) is None


def test_bombs_cost_no_memory() -> None:
    """In a process that may have 1 GiB more than it has now, all bombs are refused for their size, none for memory."""

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def work() -> None:
        now = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (now + 2**30,) * 2)
        for data in BOMBS.values():
            with pytest.raises(ImageError) as error:
                decode(data)
            assert error.value.reason == "image too large"
        before = peak()
        with pytest.raises(ImageError):
            decode(UNUSABLE["text_bomb"][0])
        assert (peak() - before) // 2**10 < 128

    assert forked(work) == 0


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_an_animated_image_the_first_frame_is_seen(kind: str) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    data = saved(FRAMES[0], kind, save_all=True, append_images=FRAMES[1:], **options)
    alone = saved(FRAMES[0], kind, **options)
    assert Image.open(io.BytesIO(data)).n_frames == 3
    np.testing.assert_array_equal(np.asarray(decode(data)), np.asarray(decode(alone)))


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_palette_with_and_without_transparency(kind: str) -> None:
    few = FRAMES[0].quantize(16)
    np.testing.assert_array_equal(np.asarray(decode(saved(few, kind))), np.asarray(few.convert("RGB")))
    hole = int(np.asarray(few)[0, 0])
    seen = np.asarray(decode(saved(few, kind, transparency=hole)))
    assert (seen[np.asarray(few) == hole] == 255).all()
    clear = FRAMES[0].copy()
    clear.putalpha(0)
    assert (np.asarray(decode(saved(clear, "PNG"))) == 255).all()
    one_colour = saved(Image.new("RGB", (8, 8), (10, 20, 30)), "PNG", transparency=(10, 20, 30))
    assert (np.asarray(decode(one_colour)) == 255).all()


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_exif_rotated(kind: str) -> None:
    image = FRAMES[0].crop((0, 0, 12, 20))
    for orientation, quarter in {1: 0, 3: 2, 6: -1, 8: 1}.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        data = saved(image, kind, exif=exif.tobytes())
        np.testing.assert_array_equal(np.asarray(decode(data)), np.rot90(np.asarray(image), quarter))
        assert images.at_most(data, 400)[0] == data, "the loader turns it"
        shown, form = as_shown(data)  # what a program that does not rotate gets
        plain = Image.open(io.BytesIO(shown))
        assert (plain.mode, plain.format) == ("RGB", form.upper())
        np.testing.assert_array_equal(np.asarray(plain), np.asarray(decode(data)))


def test_what_is_broken_beside_the_pixels_is_ignored() -> None:
    info = PngImagePlugin.PngInfo()
    info.add_text("Raw profile type exif", "\n  exif\n   999\nzz")
    exifs = (b"Exif\0\0", b"Exif\0\0MM\0*\xff\xff\xff\xff", b"Exif\0\0" + b"\xff" * 40)
    for how in (*({"exif": exif} for exif in exifs), {"icc_profile": b"nonsense" * 10}, {"pnginfo": info}):
        np.testing.assert_array_equal(np.asarray(decode(saved(FRAMES[0], "PNG", **how))), np.asarray(FRAMES[0]))


def test_oversized_files_and_what_is_no_file(tmp_path: Path) -> None:
    with (tmp_path / "large.jpg").open("wb") as file:
        file.truncate(MAX_FILE + 1)  # takes no room on disk
    os.mkfifo(tmp_path / "pipe.jpg")  # reading it would wait for ever
    (tmp_path / "folder.jpg").mkdir()
    skipped = Skipped()
    for name in ("large.jpg", "pipe.jpg", "folder.jpg", "none.jpg", "n\0l.jpg", "n" * 300):
        assert counted(partial(read_file, tmp_path / name), skipped, name, name) is None
    assert skipped.counts == {"image too large": 1, "image file cannot be read": 4, "image file is missing": 1}


def test_the_widest_images_still_allowed_are_cheap_to_resize() -> None:
    image = decode(saved(Image.new("RGB", (1, images.MAX_ASPECT)), "PNG"))
    assert images.center_resize(image, 32).shape == (32, 32, 3)


def test_bad_images_are_skipped_counted_and_listed_and_the_run_goes_on(tmp_path: Path) -> None:
    data = [value[0] for value in UNUSABLE.values()] + [encoded(i) for i in range(30)]
    columns = {"image": data, "caption": ["a b"] * len(data), "split": ["train"] * len(data)}
    write_parquet(tmp_path / "c.parquet", columns)
    source = {"kind": "parquet", "path": str(tmp_path / "c.parquet")}
    assert main(["corpus", corpus_config(tmp_path / "config.json", source), "--out", str(tmp_path / "out")]) == 0
    index = read_json(tmp_path / "out/index.json")
    assert index["splits"]["train"]["samples"] == 30 and sum(index["skipped"].values()) == len(UNUSABLE)
    listed = read_json_lines(tmp_path / "out/skipped.jsonl")
    assert [row["reason"] for row in listed] == [reason for _, reason in UNUSABLE.values()]
    assert [row["key"] for row in listed] == [f"{i:08d}" for i in range(len(UNUSABLE))]
    assert all(row["file"] == "c.parquet" and row["split"] == "train" for row in listed)
    assert index["skipped_list"]["sha256"] == sha256_file(tmp_path / "out/skipped.jsonl")


def test_over_the_allowed_share_the_run_stops_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"image": [encoded(0), b"", b"no", b"no"], "caption": ["a b"] * 4, "split": ["train"] * 4}
    write_parquet(tmp_path / "c.parquet", columns)
    config = corpus_config(tmp_path / "config.json", {"kind": "parquet", "path": str(tmp_path / "c.parquet")})
    said = told(["corpus", config, "--out", str(tmp_path / "out")], capsys)
    assert "3 of 4 samples were skipped, max_skipped allows a fraction of 0.5" in said
    assert "image cannot be decoded: 2 (first: split train, key 00000002, file c.parquet); no image: 1" in said
    assert len(read_json_lines(tmp_path / "out/skipped.jsonl")) == 3 and not (tmp_path / "out/index.json").exists()


def test_pillow_starts_no_other_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left to itself, Pillow hands PostScript to Ghostscript."""
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a program was started"))
    with pytest.raises(ImageError):
        decode(UNUSABLE["postscript"][0])
