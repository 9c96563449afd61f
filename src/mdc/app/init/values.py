"""Values for a first run on a user's own data, chosen by how much there is of it."""

from __future__ import annotations

from dataclasses import dataclass

from mdc.app.init.classes import Classes
from mdc.app.init.table import Table
from mdc.data.formats.samples import held_out
from mdc.plan.records import UserError

_LEAST = 16  # images: two batches of two, and some to hold out
_LARGEST_BATCH = 64
_STEPS = 300  # at least so many, by epochs
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


@dataclass(frozen=True)
class Values:
    """``train`` and ``val`` count images; ``val_share`` is None where the table's own splits say what is held out."""

    train: int
    val: int
    val_share: float | None
    batch_size: int
    epochs: int
    warmup_steps: int
    validate_every: int
    probe_batch: int


def choose(table: Table, classes: Classes | None) -> Values:
    """A batch of at most an eighth of the images, the least share that holds out one whole batch, some 300 steps or more.

    UserError if there are fewer than 16 images to train on.
    """
    names, val_names = table.names["train"], table.names.get("val", [])
    if len(names) < _LEAST:
        raise UserError(f"the table names {len(names)} images with captions to train on; at least {_LEAST} are needed")
    batch = _power_of_two(len(names) // 8, len(val_names) or _LARGEST_BATCH)
    share, val = None, len(val_names)
    if table.split is None:
        share, val = _held_out(names, batch)
    train = len(names) - (val if table.split is None else 0)
    steps_an_epoch = train // batch
    epochs = -(-_STEPS // steps_an_epoch)
    steps = epochs * steps_an_epoch
    return Values(
        train=train,
        val=val,
        val_share=share,
        batch_size=batch,
        epochs=epochs,
        warmup_steps=min(steps // 10, 500),
        validate_every=max(steps // 4, 1),
        probe_batch=_power_of_two(classes.train // 4) if classes is not None else _LARGEST_BATCH,
    )


def _power_of_two(*limits: int) -> int:
    """The largest that is within the limits, from 2 to the largest batch."""
    most = min(_LARGEST_BATCH, *limits)
    return max(1 << (most.bit_length() - 1), 2) if most > 0 else 2


def _held_out(names: list[str], batch: int) -> tuple[float, int]:
    """(share, how many of ``names`` it holds out): one whole batch at least, and as many stay."""
    for share in _SHARES:
        number = sum(held_out(name, share) for name in names)
        if batch <= number <= len(names) - batch:
            return share, number
    return 0.0, 0
