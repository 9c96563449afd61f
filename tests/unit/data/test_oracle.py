"""The oracle of generated captions: by hand, on true captions, and on planted falsehoods."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from read_table import read_table

from mdc.scenes.captions import compose
from mdc.scenes.drawing import draw_scene
from mdc.scenes.language import ARRANGEMENT_WORDS, COLOUR_WORDS, NUMBER_WORDS, RELATION_WORDS, SHAPE_WORDS
from mdc.scenes.oracle import KINDS, Tally, judge
from mdc.scenes.world import COLOURS, SHAPES, Scene, SceneObject

#: a small red circle left of two large blue stars, one above the other
SCENE = Scene(
    "plain",
    (0, 0, 0),
    0,
    (
        SceneObject("circle", "red", 40, 30, 96),
        SceneObject("star", "blue", 70, 150, 40),
        SceneObject("star", "blue", 70, 150, 150),
    ),
)


@pytest.mark.parametrize(
    ("caption", "objects", "attributes", "counts", "relations", "unreadable"), read_table(__file__, "captions")
)
def test_by_hand(
    caption: str,
    objects: tuple[int, ...],
    attributes: tuple[int, ...],
    counts: tuple[int, ...],
    relations: tuple[int, ...],
    unreadable: int,
) -> None:
    found = judge(SCENE, caption)
    expected = dict(zip(KINDS, (Tally(*four) for four in (objects, attributes, counts, relations)), strict=True))
    assert found.kinds == expected
    assert found.unreadable == unreadable


def test_true_and_complete_captions_are_found_so() -> None:
    """2,500 dense captions: everything stated is true, and everything is told."""
    for index in range(2500):
        scene = draw_scene("caption", "train", 77, index)
        found = judge(scene, compose(scene, "dense", 77, index).text)
        for kind, tally in found.kinds.items():
            assert tally.true == tally.stated and tally.told == tally.facts, (kind, index, tally)
        assert found.unreadable == 0


def test_planted_falsehoods_are_found() -> None:
    """A colour or a shape that nothing in the scene has, in place of one that is there."""
    rng, planted = random.Random(0), 0
    usual = {words[0]: key for table in (COLOUR_WORDS, SHAPE_WORDS) for key, words in table.items()}
    for index in range(600):
        scene = draw_scene("caption", "train", 78, index)
        words = re.findall(r"[a-z0-9]+|[^\sa-z0-9]", compose(scene, "dense", 78, index).text)
        places = [n for n, word in enumerate(words) if word in usual]
        if not places:
            continue
        place = rng.choice(places)
        colour = words[place] in COLOUR_WORDS
        there = {one.colour if colour else one.shape for one in scene.objects}
        words[place] = rng.choice([word for word in (COLOURS if colour else SHAPES) if word not in there])
        found = judge(scene, " ".join(words))
        kind = found.kinds["attributes" if colour else "objects"]
        assert kind.true < kind.stated, (words, kind)
        planted += 1
    assert planted > 500


def _plain_words(caption: str) -> list[str]:
    return re.findall(r"[a-z0-9]+|[^\sa-z0-9]", caption)


def _all_but_one(scene: Scene, caption: list[str], wrong: list[str], kind: str) -> None:
    """``wrong`` states one thing of ``kind`` that is false, and all else of it is as true as in ``caption``."""
    before, found = judge(scene, " ".join(caption)), judge(scene, " ".join(wrong))
    for name in KINDS:
        assert before.kinds[name].true == before.kinds[name].stated
        false = found.kinds[name].stated - found.kinds[name].true
        assert false == (name == kind), (name, wrong, found.kinds)
        assert found.kinds[name].told <= before.kinds[name].told
    for name in set(KINDS) - {kind}:
        assert found.kinds[name] == before.kinds[name], (name, wrong)
    assert found.unreadable == 0


def test_planted_wrong_counts_are_found_and_the_rest_stays_true() -> None:
    rng, planted = random.Random(1), Counter[str]()
    several = [NUMBER_WORDS[n] for n in (2, 3, 4)]
    for index in range(1500):
        scene = draw_scene("caption", "train", 80, index)
        words = _plain_words(compose(scene, "dense", 80, index).text)
        places = [n for n, word in enumerate(words) if word in several]
        if not places:
            continue
        place = rng.choice(places)
        other = rng.choice([word for word in several if word != words[place]])
        wrong = [*words[:place], other, *words[place + 1 :]]
        _all_but_one(scene, words, wrong, "counts")
        planted[f"{words[place]}: {other}"] += 1
    # each number for each other one
    assert sum(planted.values()) > 500 and len(planted) == 3 * 2, planted


def test_planted_wrong_relations_are_found_and_the_rest_stays_true() -> None:
    """Another direction between two things, or another way that two like things stand."""
    rng, planted = random.Random(2), Counter[str]()
    phrases = {
        tuple(phrase.split()): (table, name)
        for table in (ARRANGEMENT_WORDS, RELATION_WORDS)
        for name, some in table.items()
        for phrase in some
    }
    longest_first = sorted(phrases, key=len, reverse=True)
    for index in range(1500):
        scene = draw_scene("caption", "train", 81, index)
        words = _plain_words(compose(scene, "dense", 81, index).text)
        found: list[tuple[int, tuple[str, ...]]] = []
        place = 0
        while place < len(words):
            here = next((one for one in longest_first if tuple(words[place : place + len(one)]) == one), None)
            found += [(place, here)] if here else []
            place += len(here) if here else 1
        if not found:
            continue
        place, phrase = rng.choice(found)
        table, name = phrases[phrase]
        other = rng.choice([one for one in table if one != name])
        wrong = [*words[:place], *rng.choice(table[other]).split(), *words[place + len(phrase) :]]
        _all_but_one(scene, words, wrong, "relations")
        planted[f"{name}: {other}"] += 1
    # each direction for each other one, and both ways to stand
    assert sum(planted.values()) > 700 and len(planted) == 4 * 3 + 2, planted


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
