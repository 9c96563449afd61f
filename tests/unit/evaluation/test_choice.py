"""Which letter an answer chooses: a JSON object's, or one that stands alone."""

import time

import pytest

from mdc.evaluation.judge_endpoint import chosen_letter

CHOSEN = {
    "A": ["A", "a", "A."],
    "B": ['{"caption": "B"}', '\n{\n "caption": "B"\n}', "B", "B\n", "'B'", '"B"', "B!", "**B**", "__B__"],
    "C": [" (C). ", "`C`", "\\(C\\)"],
}
NONE = [
    "",
    "E",
    "Ä",
    "A B",
    "A/B",
    "A\nB",
    "A and B",
    "B or C",
    "B?B",
    "A dog",
    "A dog runs on the beach",
    "Not B",
    "The best is B",
]
NONE += ["B. A dog runs", "AB", "null", "1", "[", '["B"]', '{"answer": "B"}', "[" * 10**5]
NONE += [f'{{"caption": {value}}}' for value in ('"E"', '"AB"', '""', '["B"]', '"b"', 'null, "best": "B"', "1")]


@pytest.mark.parametrize("letter", CHOSEN)
def test_a_letter_is_chosen(letter: str) -> None:
    assert {answer: chosen_letter(answer, "ABCD") for answer in CHOSEN[letter]} == dict.fromkeys(CHOSEN[letter], letter)


def test_no_letter_is_guessed_at() -> None:
    assert {answer: chosen_letter(answer, "ABCD") for answer in NONE} == dict.fromkeys(NONE)


@pytest.mark.parametrize("letter", "ABCDEFGHIJ")
def test_every_letter_can_be_chosen_though_two_are_words(letter: str) -> None:
    for said in ("{}", "({})", '{{"caption": "{}"}}'):
        assert chosen_letter(said.format(letter), "ABCDEFGHIJ") == letter


def test_a_long_answer_is_read_in_no_time() -> None:
    began = time.process_time()
    for text in ("best ", "A, B ", "*", "_", "A\n", "\n"):
        assert chosen_letter(text * 10**6 + "E", "BCD") is None
    assert time.process_time() - began < 15
