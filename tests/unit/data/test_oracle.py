"""The oracles of generated captions and of their words: by hand, on true captions, and on planted falsehoods."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from read_table import read_table

from mdc.data.scenes.captions import compose
from mdc.data.scenes.drawing import draw_scene
from mdc.data.scenes.language import WORDS
from mdc.data.scenes.oracle import KINDS, WORD_KINDS, Tally, judge, true_words
from mdc.data.scenes.world import COLOURS, SHAPES, Scene, SceneObject

#: a small red circle left of two large blue stars, one above the other
SHOWN = (("circle", "red", 40, 30, 96), ("star", "blue", 70, 150, 40), ("star", "blue", 70, 150, 150))
SCENE = Scene("plain", (0, 0, 0), 0, tuple(SceneObject(*one) for one in SHOWN))


@pytest.mark.parametrize("case", read_table(__file__, "captions"))
def test_by_hand(case: list[Any]) -> None:
    """Of each caption the tallies of objects, attributes, counts and relations, and how much cannot be read."""
    caption, *tallies, unreadable = case
    found = judge(SCENE, caption)
    assert found.kinds == dict(zip(KINDS, (Tally(*four) for four in tallies), strict=True))
    assert found.unreadable == unreadable


def test_true_and_complete_captions_are_found_so() -> None:
    """Dense captions: everything stated is true, and everything is told."""
    for index in range(1500):
        scene = draw_scene("caption", "train", 77, index)
        found = judge(scene, compose(scene, "dense", 77, index).text)
        for kind, tally in found.kinds.items():
            assert tally.true == tally.stated and tally.told == tally.facts, (kind, index, tally)
        assert found.unreadable == 0


def plain_words(caption: str) -> list[str]:
    return re.findall(r"[a-z0-9]+|[^\sa-z0-9]", caption)


Phrases = dict[tuple[str, ...], tuple[Any, str]]


def planted(
    seed: int, scenes: int, phrases: Phrases, other: Callable[..., str]
) -> Iterator[tuple[Scene, Any, Any, str]]:
    """Dense captions, each with one of ``phrases`` drawn and another in its place: the words, those with the wrong phrase,
    and what was replaced by what."""
    rng, longest_first = random.Random(seed), sorted(phrases, key=len, reverse=True)
    for index in range(scenes):
        scene = draw_scene("caption", "train", 78 + seed, index)
        words = plain_words(compose(scene, "dense", 78 + seed, index).text)
        found, place = [], 0
        while place < len(words):
            here = next((one for one in longest_first if tuple(words[place : place + len(one)]) == one), None)
            found += [(place, here)] if here else []
            place += len(here) if here else 1
        if found:
            place, phrase = rng.choice(found)
            new = other(rng, scene, *phrases[phrase])
            wrong = [*words[:place], *new.split(), *words[place + len(phrase) :]]
            yield scene, words, wrong, f"{phrases[phrase][1]}: {new}"


def table_of(*tables: Any) -> Phrases:
    """Every phrase of some tables, with its table and what it stands for."""
    return {tuple(str(p).split()): (t, name) for t in tables for name, some in t.items() for p in some}


def test_planted_falsehoods_are_found() -> None:
    """A colour or a shape that nothing in the scene has, in place of one that is there."""

    def absent(rng: random.Random, scene: Scene, table: Any, name: str) -> str:
        there = {one.colour if table is WORDS["colour"] else one.shape for one in scene.objects}
        return rng.choice([word for word in (COLOURS if table is WORDS["colour"] else SHAPES) if word not in there])

    count = 0
    usual = {tuple(w[0].split()): (t, name) for t in (WORDS["colour"], WORDS["shape"]) for name, w in t.items()}
    for scene, words, wrong, _ in planted(0, 600, usual, absent):
        (new,) = (b for a, b in zip(words, wrong, strict=True) if a != b)
        kind = judge(scene, " ".join(wrong)).kinds["attributes" if new in COLOURS else "objects"]
        assert kind.true < kind.stated, (wrong, kind)
        count += 1
    assert count > 500


def all_but_one(scene: Scene, caption: list[str], wrong: list[str], kind: str) -> None:
    """``wrong`` states one thing of ``kind`` that is false, and all else of it is as true as in ``caption``."""
    before, found = judge(scene, " ".join(caption)), judge(scene, " ".join(wrong))
    for name in KINDS:
        assert before.kinds[name].true == before.kinds[name].stated
        false = found.kinds[name].stated - found.kinds[name].true
        assert false == (name == kind), (name, wrong, found.kinds)
        assert found.kinds[name].told <= before.kinds[name].told
        assert name == kind or found.kinds[name] == before.kinds[name], (name, wrong)
    assert found.unreadable == 0


def test_planted_wrong_counts_and_relations_are_found_and_the_rest_stays_true() -> None:
    """Another number; another direction between two things, or another way that two like things stand."""

    def other(rng: random.Random, scene: Scene, table: Any, name: str) -> str:
        return rng.choice(table[rng.choice([one for one in table if one != name])])

    several = table_of({n: WORDS["count"][n][:1] for n in (2, 3, 4)})
    meanings = table_of(WORDS["arrangement"], WORDS["relation"])
    for kind, phrases, least, pairs in (("counts", several, 500, 3 * 2), ("relations", meanings, 700, 4 * 3 + 2)):
        seen = Counter[Any]()
        for scene, words, wrong, told in planted(2 + (kind == "relations"), 1500, phrases, other):
            all_but_one(scene, words, wrong, kind)
            name, _, new = told.partition(": ")
            seen[name, phrases[tuple(new.split())][1]] += 1
        # each number and each direction for each other one, and both ways to stand
        assert sum(seen.values()) > least and len(seen) == pairs, seen


def test_alt_captions_are_wrong_where_they_say_so() -> None:
    for index in range(1000):
        scene = draw_scene("caption", "train", 79, index)
        caption = compose(scene, "alt", 79, index)
        found = judge(scene, caption.text).all
        if not caption.errors:
            assert found.true == found.stated, caption
        else:
            assert found.true < found.stated, caption


def test_tallies_add_up() -> None:
    assert sum([Tally(1, 2, 3, 4), Tally(1, 1, 1, 1)], Tally()) == Tally(2, 3, 4, 5)
    found = judge(SCENE, "three blue stars")
    assert found.all == Tally(2, 3, 2, 10)


# --- single words -----------------------------------------------------------------------------------------------------

ONES = (("circle", "red"), ("circle", "red"), ("star", "blue"))
CIRCLES = Scene("plain", (10, 10, 10), 0, tuple(SceneObject(*one, 30, 48 * n, 48) for n, one in enumerate(ONES, 1)))


def test_words_count_whatever_stands_around_them() -> None:
    assert WORD_KINDS == ("colour", "shape", "count")
    # red is there and green is not; circles and star are there and square is not; two circles, three in all, not four
    assert true_words(CIRCLES, "Red green circles star square two 3 four") == [1, 2, 2, 3, 2, 3]
    assert true_words(CIRCLES, "") == [0] * 6
    assert true_words(CIRCLES, "red red redden") == [2, 2, 0, 0, 0, 0], (
        "twice counts twice, a part of a word not at all"
    )
    assert true_words(CIRCLES, "one star, one thing") == [0, 0, 1, 1, 2, 2]


def test_all_words_of_a_dense_caption_are_true() -> None:
    for index in range(300):
        scene = draw_scene("caption", "train", 5, index)
        counts = true_words(scene, compose(scene, "dense", 5, index).text)
        assert counts[0] == counts[1] and counts[2] == counts[3] > 0
