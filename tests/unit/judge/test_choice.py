"""Which letter an answer chooses: every clear way of saying it, and none that is not clear."""

from __future__ import annotations

import time

import pytest

from mdc.judge.choice import chosen_letter

CLEAR = {
    "B": "B",
    "b": "B",
    " (C). ": "C",
    "**D**": "D",
    "B. A dog runs": "B",
    "B: because A is wrong": "B",
    "Caption C": "C",
    "The best caption is C.": "C",
    "The answer is: B": "B",
    "Answer: D": "D",
    "I choose option A": "A",
    "A": "A",
    "A\n\nBecause it names the dog.": "A",
    "B - best": "B",
    "B — it is the most coherent": "B",
    "Best: B": "B",
    "The caption that best depicts the image is B.": "B",
    "The best caption is B because caption A repeats words.": "B",
    "The best caption is **B**, since A repeats words.": "B",
    "Caption A repeats words, so the best caption is B.": "B",
    "I would go with caption D.": "D",
    "B is the best caption.": "B",
    "Caption B best depicts the image.": "B",
    "Caption (B) most accurately describes it; B is the best.": "B",
    "My choice is C": "C",
    '{"answer": "B"}': "B",
    "The answer is \\boxed{C}": "C",
    "$\\boxed{C}$": "C",
    "**Answer:** B": "B",
    "Final answer: b": "B",
    "Let me look.\nA repeats words.\n\nB": "B",
    "The best caption is:\n\nB": "B",
    "The best caption is:\n\n**B. a dog runs**": "B",
    "I think caption B is the best": "B",
    "It's B.": "B",
    "Option B": "B",
    "option b.": "B",
    "Best: B, worst: C": "B",
    "A: repeats words\nB: good\nBest: B": "B",
    "Rather than choosing A, I pick B": "B",
    "A is the best": "A",
    "A because it is coherent": "A",
    "B because it is coherent": "B",
    "Caption B: a dog runs": "B",
    "The correct option is (C).": "C",
    "Option C is the most accurate.": "C",
    "Caption B is the best because caption C repeats 'dog'.": "B",
    "C, because it has no duplicates.": "C",
    "I'd say B.": "B",
    "The answer would be option D": "D",
    "The best caption that depicts the image and is also coherent is C": "C",
    "The best caption that depicts the image and is also coherent is:\n\nC. a dog": "C",
    "**B**\n\nCaption A has duplicates.": "B",
    "**Caption B**: it is coherent": "B",
    "A.": "A",
    "A, because": "A",
    "a": "A",
    "The most accurate and coherent caption is D": "D",
    "The image shows A. The best is B.": "B",
    "Answer: A\n\nExplanation: B repeats": "A",
    "I think B. It is coherent": "B",
    "The second best is C and the best is B.": "B",
    "B is the second best, C is the best.": "C",
    "The worst is A; the best is D.": "D",
    "B isn't wrong, but C is the best": "C",
    "The correct answer is A.": "A",
    "<answer>B</answer>": "B",
    "B\n": "B",
    "Answer - B": "B",
    "I pick D over A": "D",
    "`C`": "C",
    "Caption D.": "D",
    "'B'": "B",
    "B!": "B",
}
UNCLEAR = [
    "caption B is better than caption C",
    "A dog runs on the beach",
    "E",
    "",
    "I cannot see the image.",
    "All of them",
    "B or C",
    "the best is a dog",
    "Ä",
    "A, B and C are equally good",
    "A, B",
    "A/B",
    "Best: A and B",
    "I choose A or B",
    "The best captions are B and C.",
    "Both A and B are good",
    "The best caption is B or caption C",
    "Caption A repeats words.",
    "I would not choose B",
    "The best caption is not B",
    "B is not the best",
    "A: repeats words. B: good.",
    "The best caption is A dog runs on sand.",
    "I choose A. No, I choose B.",
    "A. a dog\nB. a dog runs\nC. a dog",
    "C) is wrong.",
    "A and B is the best",
    "A is best. B is the best.",
    "Neither A nor B is the best",
    "best: A, but B is the best",
    "A\nB",
    "A - B",
    "A-D are bad",
    "It is A dog.",
    "I think A dog is shown",
    "B, A",
    "E is the best",
    "The best is E",
    "A B C D",
    "Which caption is best? A, B, C or D?",
    "None of the captions is good",
    "Sorry, I can't choose between A and B.",
    "The caption that depicts best is not A but B.",
    "A. dog? B. cat?",
    "B is better than A and C.",
    "I think B repeats words",
    "I believe caption A has duplicates",
    "The most awkward is C",
    "The best way to tell is: B repeats",
    "Choosing B would be wrong",
    "It is B that repeats words",
    "The dog on the right is A.",
    "The best caption names the dog, and the problem is B",
    "The answer is not C",
    "The answer isn't C.",
    "I don't think B is the best",
    "B: repeats words",
    "B. Has duplicates",
    "Is it B?",
]


@pytest.mark.parametrize("answer", CLEAR, ids=repr)
def test_a_clear_answer_chooses_its_letter(answer: str) -> None:
    assert chosen_letter(answer, "ABCD") == CLEAR[answer]


@pytest.mark.parametrize("answer", UNCLEAR, ids=repr)
def test_what_chooses_no_letter_or_two_is_never_guessed_at(answer: str) -> None:
    """… where a caption is only spoken of, denied, listed with another, or begins with an article."""
    assert chosen_letter(answer, "ABCD") is None


@pytest.mark.parametrize("letter", "ABCDEFGHIJ")
def test_every_letter_can_be_chosen_though_two_are_words(letter: str) -> None:
    for answer in (
        f"{letter}",
        f"{letter}. a dog",
        f"Best: {letter}",
        f"The caption that best depicts the image is {letter}.",
    ):
        assert chosen_letter(answer, "ABCDEFGHIJ") == letter
    assert chosen_letter("I think that none of them is good.", "ABCDEFGHIJ") is None
    assert chosen_letter("I choose B.", "ABCDEFGHIJ") == "B"


def test_a_long_answer_is_read_in_no_time() -> None:
    began = time.process_time()
    for text in (
        "best ",
        "A, B ",
        "caption ",
        "*",
        "not ",
        "A\n",
        "the best is ",
        "most accurate and ",
        "I think that ",
    ):
        for times in (3900 // len(text), 10**6):
            assert chosen_letter(text * times + "E", "BCD") is None
    assert time.process_time() - began < 15
