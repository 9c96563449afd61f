"""The built-in world's choice sets: right captions hold, wrong ones do not, orders are ARO's."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from data_samples import write_choices
from read_table import read_table

from mdc.data.formats.samples import ChoiceSample, Skipped
from mdc.data.scenes.check import check_caption
from mdc.data.scenes.drawing import OWNED, bucket
from mdc.data.scenes.language import kind_of_word, tags_of, text_of, words_of
from mdc.data.scenes.world import Scene, SceneObject
from mdc.data.scenes.wrong import QUESTIONS
from mdc.data.shards.index import read_index
from mdc.data.sources.choices.perturbations import published_form
from mdc.data.sources.choices.scenes import _outcome
from mdc.data.sources.source import open_choices


def source_of(question: str) -> dict[str, Any]:
    return {"kind": "scenes", "question": question, "items": 60, "seed": 4, "pixels": 48, "max_words": 30}


def choices(question: str) -> tuple[list[ChoiceSample], dict[str, Any]]:
    opened = open_choices(source_of(question), Path())
    return list(opened.samples("test", Skipped())), opened.facts


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_right_caption_holds_and_the_wrong_one_does_not(question: str) -> None:
    found, _ = choices(question)
    assert len(found) == 60 and len({sample.image_name for sample in found}) == 60
    for sample in found:
        assert sample.truth is not None
        scene, (right, wrong) = Scene.from_json(sample.truth), sample.options
        assert check_caption(scene, right) == []
        false = check_caption(scene, wrong)
        assert false and not any(claim.startswith("cannot read") for claim in false)
        assert bucket(scene) in OWNED["choices"]["test"]


def test_each_question_changes_what_it_says() -> None:
    for sample in choices("add_obj")[0]:
        assert sample.options[1].startswith(sample.options[0])
    for question in ("replace_obj", "replace_att", "swap_obj", "swap_att", "relation"):
        for right, wrong in (sample.options for sample in choices(question)[0]):
            same = len(words_of(right)) == len(words_of(wrong))
            assert same and right != wrong
            if question.startswith("swap") or question == "relation":
                drop = {"a", "an"}
                assert Counter(w for w in words_of(right) if w not in drop) == Counter(
                    w for w in words_of(wrong) if w not in drop
                )
    for right, wrong in (sample.options for sample in choices("add_att")[0]):
        assert len(words_of(wrong)) == len(words_of(right)) + 1


@pytest.mark.parametrize("question", ["dense_order", "alt_order"])
def test_orders_are_aros_five_options_and_what_became_of_them_is_counted(question: str, tmp_path: Path) -> None:
    found, facts = choices(question)
    assert sum(facts["perturbed"].values()) == 4 * len(found)
    write_choices("orders", source_of(question), tmp_path, tmp_path)  # its search for shortcuts adds nothing
    assert read_index(tmp_path)["perturbed"] == facts["perturbed"]
    assert set(facts["perturbed"]) <= {"the same", "unreadable", "false", "still true"}
    for sample in found:
        assert sample.truth is not None
        right, *wrong = sample.options
        assert len(sample.options) == 5 and right == published_form(right, 30)
        for one in wrong:
            if len(right.split()) < 30:
                assert Counter(one.split()) == Counter(right.split())


def test_sets_of_a_seed_share_their_scenes() -> None:
    relation = {sample.image_name: sample.image for sample in choices("relation")[0]}
    swapped = {sample.image_name: sample.image for sample in choices("swap_obj")[0]}
    shared = relation.keys() & swapped.keys()
    assert shared and all(relation[name] == swapped[name] for name in shared)


def test_words_and_tags() -> None:
    words = words_of("two small emerald rings: a box is above an orange moon.")
    assert words[:4] == ["two", "small", "emerald", "rings"] and words[-1] == "."
    assert tags_of(words)[:6] == ["XX", "JJ", "JJ", "NNS", "XX", "XX"]
    assert text_of(["a", "orange", "moon", ",", "an", "box", "."]) == "an orange moon, a box."


@pytest.mark.parametrize(("order", "said"), read_table(__file__, "orders"))
def test_what_became_of_a_perturbed_caption(order: str, said: str) -> None:
    """By hand, in a scene with a small red circle on the left and a large blue star on the right."""
    objects = (SceneObject("circle", "red", 48, 40, 90), SceneObject("star", "blue", 76, 150, 90))
    scene, right = Scene("plain", (150, 150, 150), 0, objects), words_of("a red circle left of a blue star.")
    assert check_caption(scene, text_of(right)) == []
    assert _outcome(scene, right, words_of(order), 8) == said


@pytest.mark.parametrize(("kind", "words"), read_table(__file__, "kinds"))
def test_what_kind_of_word_a_word_is(kind: str, words: str) -> None:
    assert {word: kind_of_word(word) for word in words.split()} == dict.fromkeys(words.split(), kind)
