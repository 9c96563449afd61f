"""What a judge is asked, and how its vote is shared."""

from collections import Counter

import pytest

from mdc.evaluation.judge_endpoint import PROMPT, question, votes

SYSTEMS = ("arc", "mdc_10", "mdc_15", "mdc_20")
CAPTIONS = ("a dog", "a dog runs", "a dog", "a dog runs on the sand")


def test_the_prompt_is_the_papers_and_the_captions_are_appended() -> None:
    assert PROMPT == (
        "Which caption best depicts the image and is also coherent (no duplicate words or awkward phrasing)?"
    )
    one = question("image 3", SYSTEMS, CAPTIONS, seed=0)
    first, *rest = one.text.split("\n")
    assert first == PROMPT
    assert rest == [f"{letter}. {caption}" for letter, caption in zip("ABCD", one.captions, strict=True)]
    assert dict(zip(one.systems, one.captions, strict=True)) == dict(zip(SYSTEMS, CAPTIONS, strict=True))


def test_letters_are_drawn_anew_for_each_image_and_follow_from_it() -> None:
    orders = [question(f"{n}", SYSTEMS, CAPTIONS, seed=0).systems for n in range(4000)]
    assert orders == [question(f"{n}", SYSTEMS, CAPTIONS, seed=0).systems for n in range(4000)]
    assert orders != [question(f"{n}", SYSTEMS, CAPTIONS, seed=1).systems for n in range(4000)]
    counts = Counter(orders)
    # 24 orders, each 167 times in the mean with a standard deviation of 13
    assert len(counts) == 24 and max(abs(count - 4000 / 24) for count in counts.values()) < 5 * 13


def test_each_training_seed_has_letters_of_its_own() -> None:
    """… so that a judge that prefers a letter prefers another system with each."""
    orders = [[question(f"{n}", SYSTEMS, CAPTIONS, 0, seed).systems for n in range(2400)] for seed in range(3)]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        alike = sum(a == b for a, b in zip(orders[one], orders[other], strict=True))
        # as often as two orders of 24: 100 times in the mean, with a standard deviation of 10
        assert abs(alike - 100) < 50
    assert orders[0] == [question(f"{n}", SYSTEMS, CAPTIONS, seed=0).systems for n in range(2400)]


def test_identical_captions_share_the_vote() -> None:
    one = question("image", SYSTEMS, CAPTIONS, seed=0)
    for letter, system in zip(one.letters, one.systems, strict=True):
        found = votes(one, letter)
        assert sum(found.values()) == pytest.approx(1)
        expected = {"arc": 0.5, "mdc_15": 0.5} if system in ("arc", "mdc_15") else {system: 1.0}
        assert {name: share for name, share in found.items() if share} == expected
