"""Captions that are all filled up to one number of places, as mask-and-replace diffusion has them."""

from __future__ import annotations

from typing import Any

#: the share of training captions that their places hold
_HELD = 0.995


def caption_lengths(index: dict[str, Any]) -> dict[int, int]:
    """How many training captions have so many pieces, as a corpus's ``index`` has it."""
    listed = index["captions"]["per_split"]["train"]["histogram"]
    return {int(pieces): int(count) for pieces, count in listed.items()}


def filled_length(lengths: dict[int, int], context: int) -> int:
    """How many places all captions are filled up to: the smallest multiple of 8 that holds the pieces and EOT of 99.5 % of them,
    and what the ``context`` leaves beside SOT at most. ``lengths``: see :func:`caption_lengths`; at least one."""
    total, held = sum(lengths.values()), 0
    for pieces, count in sorted(lengths.items()):
        held += count
        if held >= _HELD * total:
            return min(-(-(pieces + 1) // 8) * 8, context - 1)
    raise AssertionError("all captions are held by the longest")
