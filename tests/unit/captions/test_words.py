"""How varied and how descriptive captions are: against sums written out, and the library's BLEU with all others as references."""

from __future__ import annotations

import numpy as np
import pytest
from pycocoevalcap.bleu.bleu_scorer import BleuScorer

from mdc.captions.words import content_recall, content_words, distinct, self_bleu

CAPTIONS = ["a dog runs on the beach", "a dog runs", "two men ride a horse", "a dog runs on the beach", "horse", ""]


def test_content_words_are_those_of_no_closed_class() -> None:
    assert content_words("a dog is n't running on the two beaches") == ["dog", "running", "two", "beaches"]
    assert content_words("") == []


def test_content_recall_is_the_mean_over_references() -> None:
    # of {dog, beach} the dog, of {dog} the dog; a reference without content words does not count
    assert content_recall("the dog sleeps", ["a dog on the beach", "dog", "it is"]) == pytest.approx((1 / 2 + 1) / 2)
    assert content_recall("a dog", ["it is"]) == 0


def test_distinct_counts_n_grams_over_the_whole_set() -> None:
    words = [word for one in CAPTIONS for word in one.split()]
    assert distinct(CAPTIONS, 1) == len(set(words)) / len(words)
    assert distinct(["a a a a"], 2) == 1 / 3
    assert distinct([""], 1) == 0


@pytest.mark.parametrize("order", [1, 2, 4])
def test_self_bleu_is_bleu_against_all_others(order: int) -> None:
    rng = np.random.default_rng(0)
    drawn = [" ".join(rng.choice(["a", "b", "c", "d"], rng.integers(1, 9)).tolist()) for _ in range(20)]
    for captions in (CAPTIONS, drawn, ["a b", "a b"]):
        scorer = BleuScorer(n=4)
        for place, caption in enumerate(captions):
            scorer += caption, [other for n, other in enumerate(captions) if n != place]
        assert self_bleu(captions, order) == pytest.approx(
            scorer.compute_score(option="closest", verbose=0)[0][order - 1], abs=1e-9
        )
    assert self_bleu(["a dog runs on"] * 3) == pytest.approx(1, abs=1e-6)
