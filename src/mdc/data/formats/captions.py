"""Captions as sources give them, cleaned once on their way into the shards."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from mdc.models.text import clip_pieces, clip_text, has_piece
from mdc.plan.records import UserError

MAX_CHARACTERS = 20_000  # of a caption; no context reads so far, and a megabyte of text is a mistake of its source

# NUL, the other control characters that are no white space, and DEL go, as OpenCLIP's tokenizer has it (ftfy); so do the soft
# hyphen, the zero-width space, the word joiner and the byte order mark, which nobody sees (joiners within words stay)
_CONTROLS = {code: None for code in [*range(32), 127, 0xAD, 0x200B, 0x2060, 0xFEFF] if not chr(code).isspace()}
#: what pandas, numpy and databases write where there is nothing
_NOTHING = {"nan", "none", "null", "n/a", "<na>", "#n/a"}


#: what a field or column of captions is called, whatever the case; the first that is there is taken
_NAMES = (
    "captions",
    "caption",
    "texts",
    "text",
    "alt_text",
    "alt",
    "sentences",
    "sentence",
    "descriptions",
    "description",
)


def caption_name(names: Iterable[str]) -> str | None:
    """The name of the field or column that holds captions; None if none is called so."""
    called = {name.casefold(): name for name in reversed(list(names))}
    return next((called[name] for name in _NAMES if name in called), None)


def decoded_text(data: bytes) -> str:
    """A text file's content: UTF-8, where other bytes become replacement characters, or UTF-16 if its mark says so (as Windows
    PowerShell writes)."""
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if marked else "utf-8", errors="replace")


def clean_caption(caption: str) -> str:
    """``caption`` with single spaces, without control characters or broken surrogates, and of bounded length."""
    text = " ".join(caption[: 4 * MAX_CHARACTERS].translate(_CONTROLS).split())[:MAX_CHARACTERS].rstrip()
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")


def clean_captions(captions: Iterable[str], mode: str = "each", max_pieces: int | None = None) -> tuple[str, ...]:
    """Captions as ``clean_caption`` leaves them, without those that have no CLIP piece or say that there is none ("nan").

    ``mode`` "each" keeps them apart; "join" makes one of them, each ended by a full stop if it ends in no mark;
    "cut" keeps of each the longest run of whole words within ``max_pieces`` CLIP pieces.
    """
    kept = [text for text in map(clean_caption, captions) if has_piece(text) and text.lower() not in _NOTHING]
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
