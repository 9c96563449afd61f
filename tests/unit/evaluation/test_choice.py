"""Which letter an answer chooses: every clear way of saying it, and none that is not clear."""

import time
from pathlib import Path

import pytest
import yaml

from mdc.evaluation.judges.endpoint import chosen_letter

ANSWERS = yaml.safe_load(Path(__file__).with_name("answers.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("letter", ANSWERS)
def test_a_clear_answer_chooses_its_letter_and_no_other_is_guessed_at(letter: str) -> None:
    wanted = None if letter == "none" else letter
    wrong = {answer: found for answer in ANSWERS[letter] if (found := chosen_letter(answer, "ABCD")) != wanted}
    assert not wrong


@pytest.mark.parametrize("letter", "ABCDEFGHIJ")
def test_every_letter_can_be_chosen_though_two_are_words(letter: str) -> None:
    for said in ("{}", "{}. a dog", "Best: {}", "The caption that best depicts the image is {}."):
        assert chosen_letter(said.format(letter), "ABCDEFGHIJ") == letter
    assert chosen_letter("I think that none of them is good.", "ABCDEFGHIJ") is None
    assert chosen_letter("I choose B.", "ABCDEFGHIJ") == "B"


def test_a_caption_that_is_repeated_does_not_count() -> None:
    captions = ("a dog", "a red bus with no people", "the bus that has a door, not C")
    for letter, caption in zip("ABC", captions, strict=True):
        for said in ("{}. {}", "{}: {}.", "The best caption is {}. {}"):
            assert chosen_letter(said.format(letter, caption), "ABC", captions) == letter
    assert chosen_letter("B. a red bus with no people is not coherent", "ABC", captions) is None
    assert chosen_letter("B. a red bus with no people", "ABC") is None


def test_a_long_answer_is_read_in_no_time() -> None:
    began = time.process_time()
    words = ("best ", "A, B ", "caption ", "*", "not ", "A\n", "the best is ", "most accurate and ", "I think that ")
    for text in words:
        for times in (3900 // len(text), 10**6):
            assert chosen_letter(text * times + "E", "BCD") is None
    assert time.process_time() - began < 15
