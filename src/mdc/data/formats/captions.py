"""Captions as sources give them, cleaned once on their way into the shards."""

from __future__ import annotations

from collections.abc import Iterable

from mdc.models.text import clip_pieces, clip_text, has_piece
from mdc.plan.records import UserError

MAX_CHARACTERS = 20_000  # of a caption; no context reads so far, and a megabyte of text is a mistake of its source

# NUL, the other control characters that are no white space, and DEL go, as OpenCLIP's tokenizer has it (ftfy)
_CONTROLS = {code: None for code in [*range(32), 127] if not chr(code).isspace()}


def clean_caption(caption: str) -> str:
    """``caption`` with single spaces, without control characters or broken surrogates, and of bounded length."""
    text = " ".join(caption[: 4 * MAX_CHARACTERS].translate(_CONTROLS).split())[:MAX_CHARACTERS].rstrip()
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")


def clean_captions(captions: Iterable[str], mode: str = "each", max_pieces: int | None = None) -> tuple[str, ...]:
    """Captions as ``clean_caption`` leaves them, without those that have no CLIP piece.

    ``mode`` "each" keeps them apart; "join" makes one of them, each ended by a full stop if it ends in no mark;
    "cut" keeps of each the longest run of whole words within ``max_pieces`` CLIP pieces.
    """
    kept = [text for text in map(clean_caption, captions) if has_piece(text)]
    if mode == "each" or not kept:
        return tuple(kept)
    if mode == "join":
        return (" ".join(text if text.endswith((".", "!", "?")) else text + " ." for text in kept),)
    if mode == "cut" and max_pieces is not None:
        return tuple(short for text in kept if (short := _cut(text, max_pieces)))
    raise UserError(f"caption_mode is {mode!r}; allowed: each, join, cut (with max_pieces)")


def _cut(text: str, max_pieces: int) -> str:
    shown = ""
    # nearly every word has a piece of its own, so words far beyond max_pieces need no try
    words = text.split(" ")[: 4 * max_pieces + 64]
    for end in range(len(words), 0, -1):
        shown = " ".join(words[:end])
        if len(clip_pieces(shown)) <= max_pieces:
            return shown
    # Even the first word is too long: its first pieces, fewer where the cut word splits anew.
    pieces = clip_pieces(shown)[:max_pieces]
    while len(clip_pieces(clip_text(pieces))) > max_pieces:
        pieces = pieces[:-1]
    return clip_text(pieces)
