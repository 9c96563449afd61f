"""Values for a first run on a user's own data, chosen by the number of pairs (the table is in docs/own-data.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mdc.app.init.survey import Classes, Survey, held_out_of
from mdc.plan.records import UserError

_LEAST = 16  # images: two batches of two, and some to hold out
_STEPS = 300  # at least so many, by epochs
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
_HELD_OUT, _SHOWN = 64, 12  # images at least, if there are enough; tables of held-out images need ten


@dataclass(frozen=True)
class Size:
    """Defaults from so many ``pairs`` on. ``tower``: a key of ``TOWERS``; ``vocabulary``: words, those of the captions, or full,
    CLIP's."""

    pairs: int
    tower: str
    image_size: int
    batch_size: int
    epochs: int
    vocabulary: str


SIZES = (
    Size(0, "ViT-T-8", 32, 32, 40, "words"),
    Size(20_000, "ViT-S-8", 64, 128, 10, "full"),
    Size(200_000, "ViT-S-16", 112, 256, 10, "full"),
    Size(2_000_000, "ViT-B-32", 224, 1024, 8, "full"),
)
#: key → the tower with its decoder, and the learning rate that goes with it; the last is the paper's
TOWERS: dict[str, tuple[dict[str, Any], float]] = {
    "ViT-T-8": (
        {"patch_size": 8, "width": 64, "layers": 3, "heads": 2, "embed_dim": 64, "decoder": (64, 1, 2)},
        1e-3,
    ),
    "ViT-S-8": (
        {"patch_size": 8, "width": 128, "layers": 4, "heads": 4, "embed_dim": 128, "decoder": (128, 2, 4)},
        1e-3,
    ),
    "ViT-S-16": (
        {"patch_size": 16, "width": 384, "layers": 8, "heads": 6, "embed_dim": 256, "decoder": (256, 4, 4)},
        5e-4,
    ),
    "ViT-B-32": (
        {"patch_size": 32, "width": 768, "layers": 12, "heads": 12, "embed_dim": 512, "decoder": (512, 12, 8)},
        5e-4,
    ),
}


@dataclass(frozen=True)
class Values:
    """``train`` and ``val`` count images; ``val_fraction``: None with splits of the source. ``stored``: the shorter side of
    images in the shards, None: as they are."""

    train: int
    val: int
    val_fraction: float | None
    size: Size
    stored: int | None
    warmup_steps: int
    validate_every: int
    probe_batch: int


def choose(contents: Survey, holds_out: bool, classes: Classes | None, options: Mapping[str, Any]) -> Values:
    """The row of ``SIZES`` for so many images, overridden by ``options``: a batch of at most an eighth of the images, the least
    share that holds out 64 of them and a batch, at least about 300 steps.

    UserError for fewer than 16 training images, or inconsistent ``options``.
    """
    images, val = contents.counts.get("train", 0), contents.counts.get("val", 0)
    if images < _LEAST:
        raise UserError(f"{images} images with captions to train on; at least {_LEAST} are needed")
    row = next(size for size in reversed(SIZES) if images >= size.pairs)
    chosen = {name: value for name, value in options.items() if value is not None}
    for name in ("image_size", "batch_size", "epochs"):
        if chosen.get(name, 1) < 1:
            raise UserError(f"--{name.replace('_', '-')} {chosen[name]}: needed: a positive number")
    batch = chosen.get("batch_size") or _power_of_two(row.batch_size, images // 8, val or row.batch_size)
    if batch > images:
        raise UserError(f"--batch-size {batch}: there are {images} images to train on")
    share = None
    if holds_out:
        share, val = _held_out(contents, images, batch)
    train = images - (val if holds_out else 0)
    a_pass = max(1, train // batch)
    epochs = chosen.get("epochs") or max(row.epochs, -(-_STEPS // a_pass))
    tower = chosen.get("tower") or row.tower
    image_size = chosen.get("image_size")
    if image_size is None:  # of the row, or of the row that has the tower
        image_size = next(size.image_size for size in (row, *SIZES) if size.tower == tower)
    patch = TOWERS[tower][0]["patch_size"]
    if image_size % patch:
        raise UserError(f"--image-size {image_size}: {tower} has patches of {patch} pixels; take a multiple of {patch}")
    size = Size(row.pairs, tower, image_size, batch, epochs, chosen.get("vocabulary") or row.vocabulary)
    stored = max(64, 1 << (-(-8 * image_size // 7) - 1).bit_length())
    steps = epochs * a_pass
    return Values(
        train=train,
        val=val,
        val_fraction=share,
        size=size,
        stored=stored if not contents.sizes or contents.shorter > stored else None,
        warmup_steps=min(steps // 10, 10_000),
        validate_every=max(steps // 8, 1),
        probe_batch=_power_of_two(64, classes.train // 4) if classes is not None else 64,
    )


def _power_of_two(*limits: int) -> int:
    """The largest within the limits, at least 2."""
    limit = min(limits)
    return max(1 << (limit.bit_length() - 1), 2) if limit > 0 else 2


def _held_out(contents: Survey, images: int, batch: int) -> tuple[float, int]:
    """(share, how many images it holds out): one whole batch at least, and 64 or an eighth of them; as many stay."""
    for minimum in (max(batch, min(_HELD_OUT, max(_SHOWN, images // 8))), batch):
        for share in _SHARES:
            number = held_out_of(contents, share)
            if minimum <= number <= images - batch:
                return share, number
    return 0.0, 0
