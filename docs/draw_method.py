"""docs/method.png: what masked diffusion captioning does in training and in decoding, on one scene of the embedded world.

``python docs/draw_method.py`` writes it. The scene, its caption, the tokens, the masks and their weights are what a training
would use. Decoding is schematic: no trained model is asked, so random numbers replace the decoder's confidence.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image

from mdc.data.loader.draws import sample_rng
from mdc.data.scenes.captions import compose
from mdc.data.scenes.drawing import draw_scene
from mdc.data.scenes.render import render
from mdc.diffusion.corruption import mask_tokens
from mdc.diffusion.sampling import most_confident, unmask
from mdc.diffusion.schedule import MaskSchedule
from mdc.models.text import Vocabulary, clip_pieces, clip_text
from mdc.report.figures.drawing import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEED, SCENE, PIXELS, PATCH = 0, 113, 48, 12
TIMES = (0.5, 0.7, 0.9)  # MDC draws t from [0.5, 1]
WIDTH, HEIGHT, EDGE = 9.9, 7.05, 1.89  # inches, which are the panel's coordinates, too
CHIP, LEFT, ROW = 0.5, 2.55, 0.29  # width of a token's box, where the first stands, distance of rows
SIDE, IMAGE = 1.2, 0.85  # of the image: its side, and its middle
INK, GREY, LINE = "#222222", "#6B737C", "#B9C0C7"
MASK, SHOWN, GIVEN = "#009E73", "#BFE5D9", "#EEF1F4"  # the green that MDC has in every figure


def _write(panel: Axes, x: float, y: float, text: str, **more: Any) -> None:
    panel.text(x, y, text, **{"fontsize": 8.5, "color": INK, "va": "center", **more})


def _arrow(panel: Axes, start: tuple[float, float], end: tuple[float, float], style: str = "-|>") -> None:
    line = {"arrowstyle": style, "color": GREY, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0}
    panel.annotate("", end, start, arrowprops=line)


def _box(
    panel: Axes, middle: tuple[float, float], size: tuple[float, float], colour: str, text: str, **more: Any
) -> None:
    from matplotlib.patches import FancyBboxPatch

    corner = middle[0] - size[0] / 2, middle[1] - size[1] / 2
    look = {"boxstyle": "round,pad=0,rounding_size=0.05", "facecolor": colour, "edgecolor": LINE, "linewidth": 0.7}
    panel.add_patch(FancyBboxPatch(corner, *size, **look))
    _write(panel, middle[0], middle[1] - 0.01, text, ha="center", **more)


def _row(panel: Axes, y: float, label: str, words: Sequence[str], masked: torch.Tensor, new: torch.Tensor) -> None:
    """A row of tokens (N): ``masked`` (N,) bool ones as [M], those that are ``new`` (N,) bool in this row on a colour."""
    _write(panel, LEFT - 0.1, y, label, ha="right")
    for place, word in enumerate(words):
        colour, ink, shown = (MASK, "white", "[M]") if masked[place] else (SHOWN if new[place] else GIVEN, INK, word)
        at = (LEFT + CHIP * (place + 0.5), y)
        _box(panel, at, (CHIP - 0.05, ROW - 0.05), colour, shown, color=ink, fontsize=7.6 if len(shown) < 6 else 6.9)


def _model(panel: Axes, image: np.ndarray, top: float) -> float:
    """The image with its patches, the encoder and the decoder, from ``top`` downwards; the decoder's height."""
    left = IMAGE - SIDE / 2
    panel.imshow(image, extent=(left, left + SIDE, top - SIDE, top), interpolation="nearest", zorder=1)
    for i in range(PIXELS // PATCH + 1):
        step = SIDE * i * PATCH / PIXELS
        panel.plot([left, left + SIDE], [top - step] * 2, color="white", linewidth=0.5, alpha=0.6)
        panel.plot([left + step] * 2, [top, top - SIDE], color="white", linewidth=0.5, alpha=0.6)
    encoder = top - SIDE - 0.38
    decoder = encoder - 0.62
    _arrow(panel, (IMAGE, top - SIDE), (IMAGE, encoder + 0.16))
    _box(panel, (IMAGE, encoder), (1.4, 0.32), "#DCE9F5", "encoder (ViT)")
    _arrow(panel, (IMAGE, encoder - 0.16), (IMAGE, decoder + 0.16))
    _write(panel, IMAGE + 0.07, encoder - 0.3, "patch tokens", fontsize=7, color=GREY)
    _box(panel, (IMAGE, decoder), (1.4, 0.32), "#F7E3D4", "decoder")
    return decoder


def _head(panel: Axes, y: float, name: str, text: str) -> None:
    _write(panel, 0.1, y, name, fontsize=10.5, weight="bold")
    _write(panel, LEFT, y, text)


def _draw(panel: Axes) -> None:
    vocabulary, scene = Vocabulary.full(), draw_scene("caption", "train", SEED, SCENE)
    caption, image = compose(scene, "dense", SEED, SCENE).text, render(scene, PIXELS)
    tokens = torch.tensor([vocabulary.encode(caption)])
    words = ["SOT", *(clip_text([piece]) for piece in clip_pieces(caption)), "EOT"]
    count, mask_id = len(words), vocabulary.mask_id
    none, end = torch.zeros(count, dtype=torch.bool), LEFT + CHIP * count

    top = HEIGHT - 0.2
    said = "A random share t of the caption's tokens becomes [M]. The decoder predicts them."
    _head(panel, top, "(a) Training", said)
    decoder = _model(panel, image, top - 0.25)
    _row(panel, top - 0.42, "caption", words, none, none)
    _write(panel, end + 0.4, top - 0.42, "weight", ha="center")
    for number, time in enumerate(TIMES):
        y = top - 0.87 - 0.36 * number
        uniforms = torch.from_numpy(sample_rng(SEED, number, SCENE).random((1, count), dtype=np.float32))
        masked = mask_tokens(tokens, torch.tensor([count]), uniforms, torch.tensor([time]), mask_id)[1][0]
        _row(panel, y, f"t = {time:g}", words, masked, none)
        weight = float(MaskSchedule(low=0.5, high=1.0).weight(torch.tensor(time)))
        _write(panel, end + 0.4, y, f"1/t = {weight:.2f}", ha="center")
    panel.plot([EDGE] * 2, [top - 0.75, decoder], color=GREY, linewidth=1.1)
    _arrow(panel, (EDGE, decoder), (IMAGE + 0.7, decoder))
    said = "loss = 1/t · cross-entropy at each [M], summed and divided by the number of tokens"
    _write(panel, LEFT, decoder, said)

    top = decoder - 0.62
    panel.plot([0.1, WIDTH - 0.1], [top + 0.28] * 2, color=LINE, linewidth=0.8)
    said = (
        f"From N' = {count - 2} masks: at each of N' steps the token that the decoder is surest of is shown, and stays."
    )
    _head(panel, top, "(b) Decoding", said)
    decoder = _model(panel, image, top - 0.25)
    inner = torch.ones(1, count, dtype=torch.bool)
    inner[0, 0] = inner[0, -1] = False
    surest = torch.from_numpy(sample_rng(SEED, 3, SCENE).random((1, count))).log()
    found = unmask(lambda *_: (tokens, surest, surest), tokens.masked_fill(inner, mask_id), inner, most_confident)
    for step in range(count - 1):
        y = top - 0.4 - ROW * step
        shown = found.step[0]
        _row(panel, y, f"step {step}" if step else "start", words, shown > step, (shown == step) & inner[0])
    panel.plot([EDGE] * 2, [top - 0.28, y - 0.12], color=GREY, linewidth=1.1)
    _arrow(panel, (EDGE, decoder), (IMAGE + 0.7, decoder), "<|-|>")
    _write(panel, IMAGE, decoder - 0.42, "one call per step\n(order schematic)", ha="center", fontsize=7.5, color=GREY)
    panel.set(xlim=(0, WIDTH), ylim=(0, HEIGHT), aspect="equal")
    panel.axis("off")


def draw(path: Path) -> None:
    """Write the picture to ``path``, a png of 96 colours: equal bytes for equal libraries."""
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.png"
        with drawing(WIDTH, HEIGHT, [whole]) as figure:
            figure.set_layout_engine("none")
            _draw(figure.add_axes((0, 0, 1, 1)))
        with Image.open(whole) as opened:
            opened.convert("RGB").quantize(96).save(path, optimize=True)


if __name__ == "__main__":
    draw(Path(__file__).with_name("method.png"))
