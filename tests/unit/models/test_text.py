import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdc.models.open_clip_parts import load
from mdc.models.text import CLIP_EOT, CLIP_SIZE, CLIP_SOT, Vocabulary, clip_pieces, has_piece
from mdc.plan.records import UserError

ODD_CAPTIONS = [
    "",
    "   ",
    "!",
    "! ! !!",
    "A dog — 2 cats & a caf\u00e9",
    "emoji \U0001f408\u200d\u2b1b \U0001f3f4\U000e0067\U000e0062",
    "日本語 Ελληνικά ﬁ",
    "Tom &amp;amp; Jerry's <b>",
    " ".join(f"word{i}" for i in range(200)),
    "a " * 75,
    "a " * 76,
    "\x00\t\n",
]


def open_clip_ids(caption: str, context_length: int = 77) -> list[int]:
    """The peer: OpenCLIP's padded row, cut after its EOT (its largest id)."""
    row = load("tokenizer").SimpleTokenizer()([caption], context_length)[0].tolist()
    return row[: row.index(CLIP_EOT) + 1]


@pytest.mark.parametrize("caption", ODD_CAPTIONS)
@pytest.mark.parametrize("context_length", [77, 8])
def test_full_vocabulary_equals_open_clip(caption: str, context_length: int) -> None:
    ids = Vocabulary.full().encode(caption, context_length)
    assert ids == open_clip_ids(caption, context_length)
    assert len(ids) <= context_length and ids[0] == CLIP_SOT and ids[-1] == CLIP_EOT


ASCII = st.text(st.characters(max_codepoint=127), max_size=60)
ENTITIES = st.lists(st.sampled_from(["&amp;", "&#39;", "\x1b[0m", "<end_of_text>", "'S", "a1b", "``", "  "]) | ASCII)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40) | ENTITIES.map("".join))
def test_the_short_way_for_plain_text_equals_open_clip(caption: str) -> None:
    theirs = load("tokenizer").tokenize.__globals__["_tokenizer"].encode(caption)
    assert clip_pieces(caption) == [piece for piece in theirs if piece < CLIP_SOT]
    assert has_piece(caption) == bool(clip_pieces(caption))


def test_the_exclamation_mark_is_id_zero_and_is_kept() -> None:
    assert clip_pieces("!")[0] == 256 and 0 in clip_pieces("!?#!x!y") + clip_pieces("!¡")
    ids = Vocabulary.corpus([0, 5]).encode_pieces([0, 5, 0])
    assert ids == [2, 0, 1, 0, 3]


def test_a_caption_cannot_end_its_own_sequence() -> None:
    for kind in (Vocabulary.full(), Vocabulary.corpus(clip_pieces("a cat"))):
        ids = kind.encode("a <end_of_text> cat <start_of_text>")
        assert ids == kind.encode("a cat")
        assert ids.count(kind.eot) == 1 and ids.count(kind.sot) == 1


def test_sizes_and_special_ids() -> None:
    full = Vocabulary.full()
    assert (full.size, full.sot, full.eot, full.mask_id) == (CLIP_SIZE, CLIP_SOT, CLIP_EOT, CLIP_SIZE)
    assert load("tokenizer").SimpleTokenizer().vocab_size == CLIP_SIZE
    small = Vocabulary.corpus([7, 300], [300, 12])
    assert small.pieces == (7, 12, 300)
    assert (small.size, small.sot, small.eot, small.mask_id) == (5, 3, 4, 5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, CLIP_SOT - 1), max_size=40), st.integers(2, 20))
def test_renumbering_is_a_bijection_in_clip_order(pieces: list[int], context_length: int) -> None:
    small, full = Vocabulary.corpus(pieces), Vocabulary.full()
    ours = small.encode_pieces(pieces, context_length)
    theirs = full.encode_pieces(pieces, context_length)
    number = {piece: sum(other < piece for other in set(pieces)) for piece in pieces}
    number |= {CLIP_SOT: len(number), CLIP_EOT: len(number) + 1}
    assert ours == [number[token] for token in theirs]
    assert sorted(number.values()) == list(range(small.size))
    assert small.decode(ours) == full.decode(theirs)
    assert len(ours) == min(len(pieces), context_length - 2) + 2


def test_decode_stops_at_eot_and_shows_masks() -> None:
    assert Vocabulary.full().decode(Vocabulary.full().encode("café 2 - three .")) == "café 2 - three ."
    words = Vocabulary.corpus(clip_pieces("a red circle"))
    ids = words.encode("a red circle")
    ids[2] = words.mask_id
    assert words.decode([*ids, words.eot, ids[1]]) == "a [mask] circle"
    with pytest.raises(ValueError, match="outside"):
        words.decode([words.mask_id + 1])


def test_a_piece_outside_the_vocabulary_names_piece_and_caption() -> None:
    small = Vocabulary.corpus(clip_pieces("a cat"))
    with pytest.raises(UserError) as caught:
        small.encode("A zebra")
    assert "'zebra'" in str(caught.value) and "'a zebra'" in str(caught.value) and "\n" not in str(caught.value)
    assert small.encode("a zebra", 3) == small.encode("a")


def test_json_round_trip_and_hash() -> None:
    vocabularies = [Vocabulary.full(), Vocabulary.corpus([]), Vocabulary.corpus([3, 1]), Vocabulary.corpus([1, 4])]
    for vocabulary in vocabularies:
        assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary
    assert len({vocabulary.sha256 for vocabulary in vocabularies}) == len(vocabularies)
    for wrong in ({}, {"kind": "corpus"}, *({"kind": "corpus", "pieces": pieces} for pieces in ([2, 1], [CLIP_SOT]))):
        with pytest.raises(UserError, match="not a vocabulary"):
            Vocabulary.from_json(wrong)
