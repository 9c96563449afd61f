"""Cleaning of a source's captions on their way into the shards."""

import codecs
from collections.abc import Callable, Iterable, Sequence

from mdc.data.formats.samples import Skipped
from mdc.models.text import clip_pieces, clip_text, has_piece

MAX_CHARACTERS = 20_000  # of a caption; longer than any context

# removed: control characters that are no white space, and DEL, as in OpenCLIP's tokenizer (ftfy); the invisible soft hyphen,
# zero-width space, word joiner and byte order mark (joiners within words stay)
_CONTROLS = {code: None for code in [*range(32), 127, 0xAD, 0x200B, 0x2060, 0xFEFF] if not chr(code).isspace()}
#: missing values as pandas, numpy and databases write them
_NOTHING = {"nan", "none", "null", "n/a", "<na>", "#n/a"}
#: names → the chosen one, None if none is
Choice = Callable[[Iterable[str]], str | None]


def first_of(*usual: str) -> Choice:
    """Chooses the first of ``usual`` that is among the names, in any case; of names that differ in case alone, the first one."""

    def chosen(names: Iterable[str]) -> str | None:
        called = {name.casefold(): name for name in reversed(list(names))}
        return next((called[name] for name in usual if name in called), None)

    chosen.__doc__ = ", ".join(usual[:4])  # shown in a message
    return chosen


#: the field or column of captions
caption_name = first_of(
    *("captions", "caption", "texts", "text", "alt_text", "alt", "sentences", "sentence", "descriptions", "description")
)


def decoded_text(data: bytes) -> str:
    """A text file's content: UTF-16 with a byte order mark (as Windows PowerShell writes), otherwise UTF-8, in which invalid
    bytes become replacement characters."""
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if marked else "utf-8", errors="replace")


def clean_caption(caption: str) -> str:
    """``caption`` with single spaces, without control characters or broken surrogates, and of bounded length."""
    text = " ".join(caption[: 4 * MAX_CHARACTERS].translate(_CONTROLS).split())[:MAX_CHARACTERS].rstrip()
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")


def clean_captions(
    captions: Sequence[str], mode: str = "each", max_pieces: int | None = None, skipped: Skipped | None = None
) -> tuple[str, ...]:
    """The captions after ``clean_caption``, without those that have no CLIP token or mean a missing value ("nan").

    ``mode`` "each" keeps them separate; "join" makes one caption of them, each with a full stop if it has no end mark;
    "cut" keeps of each the longest prefix of whole words within ``max_pieces`` CLIP tokens. ``skipped`` counts the captions
    that are left out, if one stays.
    """
    kept = [text for text in map(clean_caption, captions) if has_piece(text) and text.lower() not in _NOTHING]
    if mode == "cut" and max_pieces is not None:
        kept = [short for text in kept if (short := _cut(text, max_pieces))]
    if kept and skipped is not None:
        skipped.captions += len(captions) - len(kept)
    if mode == "join" and kept:
        return (" ".join(text if text.endswith((".", "!", "?")) else text + " ." for text in kept),)
    return tuple(kept)


def _cut(text: str, max_pieces: int) -> str:
    shown = ""
    # nearly every word is at least one token, so words far beyond max_pieces need no try
    words = text.split(" ")[: 4 * max_pieces + 64]
    for end in range(len(words), 0, -1):
        shown = " ".join(words[:end])
        if len(clip_pieces(shown)) <= max_pieces:
            return shown
    # even the first word is too long: its first tokens, fewer if the cut word is tokenised differently
    pieces = clip_pieces(shown)[:max_pieces]
    while len(clip_pieces(clip_text(pieces))) > max_pieces:
        pieces = pieces[:-1]
    return clip_text(pieces)
