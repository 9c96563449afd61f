"""Captions padded to one fixed length, for mask-and-replace diffusion."""

from typing import Any

#: the share of training captions that fit
_HELD = 0.995


def caption_lengths(index: dict[str, Any]) -> dict[int, int]:
    """{number of BPE tokens: training captions}, from a corpus's ``index``."""
    listed = index["captions"]["per_split"]["train"]["histogram"]
    return {int(pieces): int(count) for pieces, count in listed.items()}


def filled_length(lengths: dict[int, int], context: int) -> int:
    """The fixed length: the smallest multiple of 8 that fits the BPE tokens and EOT of 99.5 % of captions, at most ``context``
    − 1. ``lengths``: see :func:`caption_lengths`; not empty."""
    total, held = sum(lengths.values()), 0
    for pieces, count in sorted(lengths.items()):
        held += count
        if held >= _HELD * total:
            return min(-(-(pieces + 1) // 8) * 8, context - 1)
    raise AssertionError("all captions are held by the longest")
