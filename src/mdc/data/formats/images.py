"""Images: encoded bytes to RGB, and the central crop of CLIP's evaluation (OpenCLIP ``transform.py``).

Nothing here needs torch, which is slow to import (:mod:`mdc.data.formats.pixels` does).
"""

import io
import warnings
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps, PngImagePlugin, TiffImagePlugin

from mdc.plan.records import UserError

Pixels = np.ndarray[Any, np.dtype[np.uint8]]

MAX_PIXELS = 89_478_485  # Pillow's own limit, at which it only warns: a few kilobytes can unpack to gigabytes
MAX_ASPECT = 200  # longer to shorter side

QUALITY = 95  # of a resized image's JPEG
_DRAFT = 2  # a JPEG may be decoded at a fraction of its size, down to so many times the wanted one

#: the formats that are read, with Pillow's file extensions; the first one is used in shards. Pillow reads thirty more, and starts
#: Ghostscript for PostScript
ENDINGS = {
    "JPEG": ("jpg", "jpeg", "jpe", "jfif"),
    "MPO": ("jpg", "mpo"),  # several JPEGs, opened as one
    "PNG": ("png", "apng"),
    "WEBP": ("webp",),
    "GIF": ("gif",),
    "BMP": ("bmp",),
    "DIB": ("dib",),
    "TIFF": ("tif", "tiff"),
    "PPM": ("ppm", "pgm", "pbm", "pnm"),
    "JPEG2000": ("jp2", "j2k", "jpc", "jpf", "jpx", "j2c"),
    "AVIF": ("avif", "avifs"),
    "HEIF": ("heic", "heics", "heif", "heifs", "hif"),
}
_HUFFMAN = {0xC0, 0xC1, 0xC2}  # a JPEG's frames: baseline, extended, progressive; others fill up their data with zeros
#: in a JPEG's data: one bits alone, which are no Huffman code; so many as a decoder looks ahead
_NO_CODE = b"\xff\x00" * 9
#: for messages
FORMATS = "JPEG, PNG, WebP, GIF, BMP, TIFF, PPM, JPEG 2000, AVIF or HEIC"
_FORMATS = tuple(form for form in ENDINGS if form not in ("MPO", "HEIF"))
_HEIC_BRANDS = {b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"}  # ISO/IEC 23008-12, section 10
_BITS, _SAMPLE_FORMAT = 258, 339  # TIFF's tags; samples of format 1 are unsigned
_ORIENTATION, _ON_ITS_SIDE = 0x0112, range(5, 9)  # EXIF's tag, and its values that swap width and height
_ORIENTATION_KEYS = {"exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif"}

# by default Pillow refuses an image with more than 1 MiB of unpacked text and colour profiles
PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY

warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # `_opened` refuses them
warnings.filterwarnings("ignore", module=r"PIL\.")  # about broken metadata


class ImageError(ValueError):
    """These bytes are no usable image. The message says why; ``reason`` is the kind by which it is counted."""

    def __init__(self, message: str, reason: str = "image cannot be decoded") -> None:
        super().__init__(message)
        self.reason = reason


class Decoded(NamedTuple):
    """``image``: upright RGB. ``size``: (width, height) of the original, upright. ``plain``: the bytes are an equivalent JPEG
    (RGB, one image, not rotated). ``form``: Pillow's name of their format ("JPEG", "PNG", …)."""

    image: Image.Image
    size: tuple[int, int]
    plain: bool
    form: str

    @property
    def smaller(self) -> bool:
        """Whether the image is smaller than the original."""
        return self.image.size != self.size

    def jpeg(self, quality: int = QUALITY) -> bytes:
        """The image as a JPEG without metadata."""
        self.image.info.clear()  # Pillow would write a GIF's or PNG's comment, for which a JPEG has only 64 kB
        return _saved(self.image, "JPEG", quality=quality)


def decode(data: bytes) -> Image.Image:
    """Encoded bytes to an upright RGB image; of several frames or pages the first is taken.

    EXIF orientation is applied, and ignored if unreadable. Grey of 9 to 16 bits keeps its high 8 bits. Transparent images are
    blended with white, as in img2dataset. Palettes, grey, CMYK and LAB are converted; colour profiles are ignored. ImageError for
    bytes that cannot be decoded completely or are truncated, for pixels of no known range (32-bit, signed, floating-point), for
    images of more than ``MAX_PIXELS``, and if one side is more than ``MAX_ASPECT`` times as long as the other.
    """
    return _decoded(data, None).image


def decode_named(data: bytes, name: str) -> Image.Image:
    """As ``decode``; UserError, which begins with ``name``, for an image that cannot be used."""
    try:
        return decode(data)
    except ImageError as error:
        raise UserError(f"{name} {error}") from None


def as_shown(data: bytes) -> tuple[bytes, str]:
    """(bytes, "jpeg" or "png") of the image that ``decode`` gives, for programs that decode otherwise: an upright RGB JPEG stays
    as it is, and everything else becomes a PNG. ImageError as in ``decode``."""
    decoded = _decoded(data, None)
    if decoded.plain:
        return data, "jpeg"
    decoded.image.info.clear()
    return _saved(decoded.image, "PNG"), "png"


def smaller(data: bytes, shorter: int, max_pixels: int = MAX_PIXELS, max_aspect: float = MAX_ASPECT) -> Decoded:
    """Encoded bytes, decoded once and completely, and resized to a shorter side of at most ``shorter`` pixels, like img2dataset's
    keep_ratio.

    ImageError as in ``decode``, with limits that may be stricter than the module's, and for a JPEG that ends too early, which
    ``decode`` fills up with grey.
    """
    decoded = _decoded(data, _DRAFT * shorter, max_pixels, max_aspect, strict=True)
    least = min(decoded.size)
    if least <= shorter:
        return decoded
    width, height = (max(shorter, round(side * shorter / least)) for side in decoded.size)
    return decoded._replace(image=decoded.image.resize((width, height), Image.Resampling.BICUBIC))


def at_most(data: bytes, shorter: int | None) -> tuple[bytes, str]:
    """(encoded bytes, extension): unchanged if the image is small enough, otherwise a resized RGB JPEG. Errors as ``smaller``.
    ``shorter`` None: any size."""
    decoded = _decoded(data, None, strict=True) if shorter is None else smaller(data, shorter)
    return (decoded.jpeg(), "jpg") if decoded.smaller else (data, ENDINGS[decoded.form][0])


def _decoded(
    data: bytes,
    side: int | None,
    max_pixels: int = MAX_PIXELS,
    max_aspect: float = MAX_ASPECT,
    strict: bool = False,
) -> Decoded:
    """As ``decode``, but a JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, with a shorter side of at least ``side`` (None: at
    full size), which is much faster for large photos. ``strict``: a JPEG must not end too early."""
    try:
        image = _opened(data, max_pixels, max_aspect)
        form = str(image.format)
        plain = form == "JPEG" and image.mode == "RGB"
        size, least = image.size, min(image.size)
        if side is not None:
            image.draft(None, (-(-size[0] * side // least), -(-size[1] * side // least)))
        if strict and form in ("JPEG", "MPO"):
            _notice_early_end(image, data)
        image.load()
        _whole(data, form)
        shown = image
        if form == "TIFF" or not _ORIENTATION_KEYS.isdisjoint(image.info):
            shown = _upright(image)
            orientation = 1 if shown is image else image.getexif().get(_ORIENTATION, 1)
            size = size[::-1] if orientation in _ON_ITS_SIDE else size
            plain = plain and orientation == 1
        return Decoded(_to_rgb(shown, _bits(image)), size, plain, form)
    except (ImageError, MemoryError):  # the machine's fault, not the image's
        raise
    except Image.DecompressionBombError as error:
        raise ImageError(str(error), "image too large") from error
    except Exception as error:  # Pillow's plugins raise many kinds on broken bytes
        raise ImageError(f"cannot be decoded ({type(error).__name__})") from error


def _opened(data: bytes, max_pixels: int, max_aspect: float) -> Image.Image:
    """The image with only its header read."""
    size = _webp_size(data)
    if size is not None:  # before version 13, Pillow allocates a WebP's pixels on opening
        _within(size, max_pixels, max_aspect)
    formats = _FORMATS
    if data[4:8] == b"ftyp" and data[8:12] in _HEIC_BRANDS:
        from pillow_heif import register_heif_opener

        register_heif_opener()
        formats = (*_FORMATS, "HEIF")
    image: Image.Image = Image.open(io.BytesIO(data), formats=formats)
    _within(image.size, max_pixels, max_aspect)
    return image


class _Last(bytes):
    """Bytes of a JPEG before which every earlier one has been decoded; Pillow adds them to those that it could not decode yet."""

    def __radd__(self, waiting: bytes) -> bytes:
        if waiting:
            raise ImageError("cut off")
        return bytes(self)


def _notice_early_end(image: Image.Image, data: bytes) -> None:
    """Let ``image.load`` raise ImageError if the JPEG's data end too early. At an end mark libjpeg only warns, which Pillow does
    not pass on; without one it waits for more. So the mark follows once all data before it are decoded."""
    at, kinds = 2, set()
    while (kind := data[at + 1]) != 0xDA:  # of the first scan, in whose data no mark can occur by chance
        kinds.add(kind)
        at += 1 if kind == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4])
    end = data.find(b"\xff\xd9", at)
    if end >= 0 and not kinds.isdisjoint(_HUFFMAN):
        # one code more, for a decoder that stopped exactly at the end of those before; or at the end of an interval, where it
        # waits for the next of the eight marks between them
        more = [_NO_CODE[:2]]
        if 0xDD in kinds:
            scan = data.rfind(b"\xff\xda", 0, end)
            last = max((data.rfind(bytes([0xFF, mark]), scan, end), mark) for mark in range(0xD0, 0xD8))[1]
            more.append(bytes([0xFF, 0xD0 + (last + 1) % 8]) + _NO_CODE[:2])
        parts = iter([data[:end] + _NO_CODE, *map(_Last, more), _Last(b"\xff\xd9")])
        image.load_read = lambda _: next(parts, b"")  # type: ignore[attr-defined]


def _whole(data: bytes, form: str) -> None:
    """ImageError if the file was truncated after its pixels; Pillow itself notices other truncations, and other formats."""
    if form == "PNG":
        at, kind = 8, b""
        while kind != b"IEND" and at < len(data):
            kind = data[at + 4 : at + 8]
            at += 12 + int.from_bytes(data[at : at + 4])
        whole = kind == b"IEND" and at <= len(data)
    elif form == "WEBP":
        whole = 8 + int.from_bytes(data[4:8], "little") <= len(data)
    elif form == "GIF":
        whole = _gif_ends(data)
    elif form == "JPEG2000":  # after its start, these bytes can only be the end of the code stream
        whole = data.find(b"\xff\xd9", data.find(b"\xff\x4f\xff\x51")) >= 0
    else:
        whole = True
    if not whole:
        raise ImageError("cut off")


def _gif_ends(data: bytes) -> bool:
    """Whether the blocks of a GIF (89a, appendix A) end with its trailer."""

    def table(flags: int) -> int:
        return 3 << (flags & 7) + 1 if flags & 0x80 else 0

    try:
        at = 13 + table(data[10])
        while data[at] != 0x3B:
            # an extension has a label; an image has a descriptor, a table of colours and a code size
            at += 2 if data[at] == 0x21 else 11 + table(data[at + 9])
            while data[at]:
                at += 1 + data[at]
            at += 1
    except IndexError:
        return False
    return True


def _within(size: tuple[int, int], max_pixels: int, max_aspect: float) -> None:
    """ImageError for an image with too many pixels or too large an aspect ratio."""
    width, height = size
    if width * height > max_pixels:
        raise ImageError(f"{width} × {height} pixels, at most {max_pixels} allowed", "image too large")
    if max(width, height) > max_aspect * min(width, height):
        raise ImageError(f"{width} × {height} pixels, sides at most 1 : {max_aspect} allowed", "image too narrow")


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) in a WebP's header (RFC 9649, sections 2.5 to 2.7); None for anything else."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return None
    kind, body = data[12:16], data[20:30]
    if kind == b"VP8X":
        return 1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        return int.from_bytes(body[6:8], "little") & 0x3FFF, int.from_bytes(body[8:10], "little") & 0x3FFF
    return None


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # metadata can be broken in many ways; the pixels are still good
        return image


def rgb(image: Image.Image) -> Image.Image:
    """An opened image, upright and in RGB as of ``decode``; ImageError for pixels of no known range."""
    return _to_rgb(_upright(image), _bits(image))


def _bits(image: Image.Image) -> int:
    """The bits of an opened image's samples, where Pillow's mode does not say them: a TIFF's; it makes 16 of other formats'.
    ImageError for a TIFF's signed or floating-point samples."""
    if not isinstance(image, TiffImagePlugin.TiffImageFile):
        return 16
    if set(image.tag_v2.get(_SAMPLE_FORMAT, (1,))) != {1}:
        raise ImageError("signed and floating-point pixels have no known range")
    return int(image.tag_v2.get(_BITS, (1,))[0])


def _to_rgb(image: Image.Image, bits: int) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:  # a PNG may have one transparent colour
        return image
    if image.mode.startswith("I"):  # grey of more than 8 bits; Pillow's own conversion would clip at 255
        grey = np.asarray(image, dtype=np.int64)
        if bits > 16 or grey.min() < 0 or grey.max() >> bits:
            raise ImageError("32-bit and negative pixels have no known range")
        return Image.fromarray((grey >> bits - 8).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ImageError("floating-point pixels have no known range")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")


def png(pixels: Pixels) -> bytes:
    """(height, width) or (height, width, 3) uint8 as the bytes of a PNG; deterministic."""
    return _saved(Image.fromarray(pixels), "PNG", compress_level=6)


def _saved(image: Image.Image, form: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def center_resize(image: Image.Image, size: int) -> Pixels:
    """Resize the shorter side to ``size`` (bicubic) and crop the centre (size, size, 3) uint8, as in CLIP's evaluation.

    Equal to torchvision's ``Resize(size, BICUBIC)`` and ``CenterCrop(size)`` on a PIL image.
    """
    width, height = image.size
    if width <= height:
        width, height = size, int(size * height / width)
    else:
        width, height = int(size * width / height), size
    if (width, height) != image.size:
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return np.array(image.crop((left, top, left + size, top + size)))
