"""A scene's image: polygons on a low-contrast background, supersampled and averaged."""

import io
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from mdc.data.scenes.shapes import outline
from mdc.data.scenes.world import UNITS, Scene

SUPERSAMPLE = 3
RGB = {
    "red": (220, 45, 45),
    "orange": (240, 130, 30),
    "yellow": (238, 216, 48),
    "green": (45, 175, 75),
    "blue": (50, 100, 230),
    "purple": (150, 60, 190),
    "pink": (245, 140, 190),
    "white": (240, 240, 240),
}
SHADE_STEP = 10  # of 255, added to every channel for each step of shade
CONTRAST = 7  # of 255: the distance of a pattern's two tones from the background's mean


def _shifted(rgb: tuple[int, int, int], by: int) -> tuple[int, int, int]:
    red, green, blue = (min(max(channel + by, 0), 255) for channel in rgb)
    return red, green, blue


@lru_cache(maxsize=256)
def _pattern(background: str, phase: int, side: int) -> Image.Image:
    """The background's light part as an "L" mask of ``side`` x ``side``; ``phase`` moves and turns it."""
    turned, step = phase % 2 == 1, phase // 2  # 8 offsets, two directions
    if background == "gradient":
        ramp = [int(255 * abs(((i / side) + step / 8) % 2 - 1) + 0.5) for i in range(side)]
        mask = Image.frombytes("L", (side, 1), bytes(ramp)).resize((side, side), Image.Resampling.NEAREST)
        return mask.transpose(Image.Transpose.ROTATE_90) if turned else mask
    mask = Image.new("L", (side, side))
    pen = ImageDraw.Draw(mask)
    period = side // 6
    offset = step * period // 8
    starts = range(offset - period, side, period)
    if background == "stripes":
        for a in starts:
            pen.rectangle((a, 0, a + period // 2 - 1, side), fill=255)
        return mask.transpose(Image.Transpose.ROTATE_90) if turned else mask
    for i, a in enumerate(starts):
        for j, b in enumerate(range(-offset, side, period) if turned else starts):
            if background == "dots":
                pen.ellipse((a, b, a + period // 2, b + period // 2), fill=255)
            elif (i + j) % 2 == 0:
                pen.rectangle((a, b, a + period - 1, b + period - 1), fill=255)
    return mask


def render(scene: Scene, pixels: int) -> np.ndarray:
    """The image, uint8 (pixels, pixels, 3); ``pixels`` ≥ 16."""
    side = SUPERSAMPLE * pixels
    if scene.background == "plain":
        canvas = Image.new("RGB", (side, side), scene.ground)
    else:
        canvas = Image.new("RGB", (side, side), _shifted(scene.ground, -CONTRAST))
        canvas.paste(_shifted(scene.ground, CONTRAST), mask=_pattern(scene.background, scene.phase, side))
    pen = ImageDraw.Draw(canvas)
    scale = side / UNITS
    for thing in scene.objects:
        fill = _shifted(RGB[thing.colour], SHADE_STEP * thing.shade)
        # rounded here, so that the image does not depend on a library's rounding
        pen.polygon(
            [
                (int((thing.x + thing.size * px) * scale + 0.5), int((thing.y + thing.size * py) * scale + 0.5))
                for px, py in outline(thing.shape, thing.rotation)
            ],
            fill=fill,
        )
    return np.array(canvas.reduce(SUPERSAMPLE))


def encode_png(image: np.ndarray) -> bytes:
    """The uint8 (H, W, 3) image as PNG without metadata, with a fixed compression level; deterministic."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
