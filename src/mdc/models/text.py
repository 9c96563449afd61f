"""Captions as token ids: CLIP's byte-pair encoding, whole or restricted to the pieces that a set of corpora uses.

A sequence is always ``[SOT, pieces…, EOT]`` with an explicit length. CLIP's own padding id 0 is also a real piece ('!').
Nothing here pads, therefore, and ``ids != 0`` must not be used to find padding.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from mdc.models.open_clip_parts import load
from mdc.plan.records import UserError, read_json, sha256_json

CONTEXT_LENGTH = 77  # paper, section 4.1
CLIP_SIZE = 49_408
CLIP_SOT = 49_406
CLIP_EOT = 49_407
_LONGEST_WORD = 256  # bytes


@cache
def _tokenizer() -> Any:
    # Loaded on first use, because OpenCLIP's module imports torch. The tokenizer remembers every word that it has split.
    return load("tokenizer").SimpleTokenizer()


def clip_pieces(caption: str) -> list[int]:
    """CLIP BPE ids of a caption, without SOT and EOT (``open_clip.SimpleTokenizer.encode``, lower-cased and cleaned).

    There are two differences to OpenCLIP. A caption that spells out a special token, such as ``<end_of_text>``, could end
    its own sequence, so these ids are left out. And a word of more than 256 bytes is split as if it were several words,
    because the time for merging its pairs grows with the square of its length.
    """
    return [piece for _, pieces in pieces_by_word(caption) for piece in pieces]


def pieces_by_word(caption: str) -> list[tuple[str, tuple[int, ...]]]:
    """The words of a caption as CLIP's tokenizer finds them, in lower case, each with its pieces (see ``clip_pieces``)."""
    return [(word, _word_pieces(word)) for word in _tokenizer().pat.findall(_cleaned(caption))]


def has_piece(caption: str) -> bool:
    """Whether ``clip_pieces`` finds any; it looks no further than the first."""
    return any(_word_pieces(match[0]) for match in _tokenizer().pat.finditer(_cleaned(caption)))


def _cleaned(caption: str) -> str:
    # OpenCLIP's repair of encodings and entities leaves plain ASCII unchanged, and it costs more than everything else:
    # without it a caption of known words takes a fifth of the time.
    if caption.isascii() and caption.isprintable() and "&" not in caption:
        return caption.lower()
    return str(_tokenizer().clean_fn(caption))


@lru_cache(1 << 17)
def _word_pieces(word: str) -> tuple[int, ...]:
    tokenizer = _tokenizer()
    # JSON can escape half of a surrogate pair, which UTF-8 cannot encode
    coded = "".join(tokenizer.byte_encoder[byte] for byte in word.encode("utf-8", errors="replace"))
    parts = [coded[start : start + _LONGEST_WORD] for start in range(0, len(coded), _LONGEST_WORD)]
    ids = (tokenizer.encoder[piece] for part in parts for piece in tokenizer.bpe(part).split(" "))
    return tuple(piece for piece in ids if piece < CLIP_SOT)


def clip_text(pieces: Sequence[int]) -> str:
    """The text of CLIP BPE ids, in lower case and with CLIP's spacing, so not always the caption that they came from."""
    return str(_tokenizer().decode(list(pieces))).strip()


@dataclass(frozen=True)
class Vocabulary:
    """The ids that a model reads and predicts.

    ``kind`` "full": CLIP's numbering, 49,408 ids. ``kind`` "corpus": the given CLIP ids, renumbered 0…n−1 in CLIP id
    order, then SOT = n and EOT = n + 1. ``size`` counts the ids that a model can predict. The mask is one more *input* id,
    ``mask_id == size``, so an embedding has ``size + 1`` rows and an output layer ``size``.
    """

    kind: str
    pieces: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind == "full":
            if self.pieces is not None:
                raise ValueError("a full vocabulary lists no pieces")
        elif self.kind == "corpus":
            if self.pieces is None:
                raise ValueError("a corpus vocabulary lists its pieces")
            increasing = all(a < b for a, b in zip(self.pieces, self.pieces[1:], strict=False))
            if not increasing or (self.pieces and not 0 <= self.pieces[0] <= self.pieces[-1] < CLIP_SOT):
                raise ValueError(f"pieces must be increasing CLIP ids from 0 to {CLIP_SOT - 1}")
        else:
            raise ValueError(f"kind is {self.kind!r}, allowed: 'full', 'corpus'")

    @classmethod
    def full(cls) -> "Vocabulary":
        """CLIP's whole vocabulary."""
        return cls("full")

    @classmethod
    def corpus(cls, *pieces: Iterable[int]) -> "Vocabulary":
        """The union of several corpora's CLIP ids (``index.json`` lists them under "pieces")."""
        return cls("corpus", tuple(sorted(set().union(*pieces))))

    @classmethod
    def from_json(cls, obj: dict[str, Any]) -> "Vocabulary":
        """Inverse of ``to_json``; UserError if ``obj`` describes no vocabulary."""
        try:
            pieces = obj.get("pieces")
            return cls(obj["kind"], None if pieces is None else tuple(int(piece) for piece in pieces))
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise UserError(
                f"not a vocabulary: {str(error)[:200]}; needed: kind full, or kind corpus with pieces"
            ) from None

    @classmethod
    def read(cls, path: str | Path) -> "Vocabulary":
        """``from_json`` of a file; UserError names it."""
        try:
            return cls.from_json(read_json(path))
        except UserError as error:
            raise UserError(str(error) if str(path) in str(error) else f"{path}: {error}") from None

    def to_json(self) -> dict[str, Any]:
        """``{"kind": "full"}`` or ``{"kind": "corpus", "pieces": [CLIP ids]}``."""
        return {"kind": self.kind} if self.pieces is None else {"kind": self.kind, "pieces": list(self.pieces)}

    @cached_property
    def sha256(self) -> str:
        """Hash of ``to_json()``; vocabularies with equal numbering have equal hashes."""
        return sha256_json(self.to_json())

    @property
    def size(self) -> int:
        """Number of ids a model can predict (V): pieces, SOT and EOT."""
        return CLIP_SIZE if self.pieces is None else len(self.pieces) + 2

    @property
    def sot(self) -> int:
        """Id of the start of text."""
        return self.size - 2

    @property
    def eot(self) -> int:
        """Id of the end of text."""
        return self.size - 1

    @property
    def mask_id(self) -> int:
        """Input id of the mask; never predicted."""
        return self.size

    @cached_property
    def _number(self) -> dict[int, int]:
        return {piece: number for number, piece in enumerate(self.pieces or ())}

    def encode(self, caption: str, context_length: int = CONTEXT_LENGTH) -> list[int]:
        """``[SOT, pieces…, EOT]``, at most ``context_length`` ids (≥ 2), EOT always kept.

        Equal to ``open_clip.SimpleTokenizer.__call__`` without its padding. A piece outside the vocabulary is a UserError and
        never becomes an "unknown" id: a likelihood under a smaller vocabulary could not be compared with any other.
        """
        return self.encode_pieces(clip_pieces(caption), context_length)

    def encode_pieces(self, pieces: Sequence[int], context_length: int = CONTEXT_LENGTH) -> list[int]:
        """``encode`` for CLIP ids."""
        if context_length < 2:
            raise ValueError("context_length must hold SOT and EOT")
        kept = pieces[: context_length - 2]
        if self.pieces is None:
            return [self.sot, *kept, self.eot]
        try:
            return [self.sot, *[self._number[piece] for piece in kept], self.eot]
        except KeyError as error:
            word = clip_text([error.args[0]])
            raise UserError(
                f"the piece {word!r} of the caption {clip_text(pieces)!r} is outside this vocabulary of "
                f"{len(self.pieces)} pieces; allowed: words of the corpora it was made from (to train with all of CLIP's: "
                "data.vocabularies: {words: full})"
            ) from None

    def known(self, pieces: Iterable[int]) -> list[int]:
        """Those of the CLIP ids that this vocabulary has."""
        return [piece for piece in pieces if self.pieces is None or piece in self._number]

    def unknown(self, caption: str) -> list[str]:
        """The pieces of a caption that this vocabulary does not have, as text."""
        return [clip_text([piece]) for piece in clip_pieces(caption) if not self.known([piece])]

    def clip_ids(self, ids: Iterable[int]) -> list[int]:
        """The CLIP ids of token ids: the inverse of ``encode_pieces``."""
        return [token if self.pieces is None else self.pieces[token] for token in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids up to the first EOT; SOT is skipped, the mask reads ``[mask]``.

        ValueError for an id outside 0…``mask_id``.
        """
        words: list[str] = []
        run: list[int] = []  # pieces between two masks, decoded together because a character can span several pieces
        for token in map(int, ids):
            if not 0 <= token <= self.mask_id:
                raise ValueError(f"token id {token} is outside 0…{self.mask_id}")
            if token == self.eot:
                break
            if token == self.mask_id:
                words += [clip_text(run), "[mask]"]
                run = []
            elif token != self.sot:
                run += self.clip_ids([token])
        return " ".join(word for word in [*words, clip_text(run)] if word)
