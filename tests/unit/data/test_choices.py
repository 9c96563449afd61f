"""Choice sets: SugarCrepe, ARO, and the order sets with their perturbations."""

import builtins
import re
import sys
from collections import Counter
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import Mock

import evaluation_files as files
import numpy as np
import pytest
from data_samples import iter_choices, write_choices
from read_table import read_table

from mdc.data.formats.samples import ChoiceSample, Skipped
from mdc.data.shards.index import ShardReader, read_index
from mdc.data.sources.choices import perturbations, tagging
from mdc.data.sources.choices.orders import generator, options_of
from mdc.plan.records import UserError

SUGARCREPE = {"kind": "sugarcrepe", "dataset": "sugarcrepe", "path": "sc", "images": "coco/val2017", "task": "swap_obj"}
ARO = {"kind": "aro", "dataset": "aro", "path": "aro", "task": "relation"}
ORDER = {"kind": "caption_order", "dataset": "mscoco", "path": "coco"}
# of the words in evaluation_files' captions
TAGS = {"dog": "NN", "car": "NN", "number": "NN", "brown": "JJ", "red": "JJ", "runs": "VBZ"}


def choices(source: dict[str, Any], root: Path, skipped: Skipped | None = None) -> list[ChoiceSample]:
    return list(iter_choices(source, root, skipped))


@pytest.fixture
def spacy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package in spaCy's place that tags by a list of words; it shows the interface, the words are the tests'."""

    class Pipeline:
        meta: ClassVar = {"version": "3.8.0"}

        def __init__(self, name: str, exclude: list[str]) -> None:
            assert name == "en_core_web_sm" and "tagger" not in exclude and "tok2vec" not in exclude

        def __call__(self, text: str) -> list[SimpleNamespace]:
            words = re.findall(r"\w+|[^\w\s]", text)
            return [SimpleNamespace(text=word, tag_=TAGS.get(word, "IN")) for word in words]

    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(__version__="3.8.0", load=Pipeline))


# --- SugarCrepe and ARO -----------------------------------------------------------------------------------------------


def test_sugarcrepe(tmp_path: Path) -> None:
    files.sugarcrepe(tmp_path / "sc", tmp_path / "coco/val2017")
    found = choices(SUGARCREPE, tmp_path)
    assert [(s.key, s.id) for s in found] == [("00000000", "0"), ("00000001", "1"), ("00000002", "4")]
    assert {(s.group, s.box) for s in found} == {("swap_obj", None)}
    assert found[2].options == ("Two dogs and a cat 4.", "Two cats and a dog 4.")
    assert found[2].image == (tmp_path / "coco/val2017/000000001004.jpg").read_bytes()
    (tmp_path / "coco/val2017/000000001001.jpg").unlink()
    skipped = Skipped()
    assert choices(SUGARCREPE, tmp_path, skipped) == [found[0], found[2]]
    assert skipped.counts == {"image file is missing": 1}


@pytest.mark.parametrize("task", ["relation", "attribution"])
def test_aro(task: str, tmp_path: Path) -> None:
    files.aro(tmp_path / "aro")
    found = choices(ARO | {"task": task}, tmp_path)
    groups = ["to the left of", "on", "on"] if task == "relation" else ["white_paved"] * 3
    assert [s.group for s in found] == groups and [s.id for s in found] == ["0", "1", "2"]
    assert {s.box for s in found} == {(3, 2, 11, 9)}
    right = "the door is on the bus" if task == "relation" else "the white crosswalk and the paved road"
    assert found[1].options[0] == right and len(set(found[1].options)) == 2
    assert found[2].image == (tmp_path / "aro/images/2416218.jpg").read_bytes()
    assert found[0].image == found[1].image != found[2].image


def test_a_choice_set_on_disk(tmp_path: Path) -> None:
    files.aro(tmp_path / "aro")
    for out in ("out", "again"):
        write_choices("aro", ARO, tmp_path / out, tmp_path, samples_per_shard=2, max_skipped=0.0)
    index = read_index(tmp_path / "out", verify=True, kind="choices")
    told = {"kind": "choices", "name": "aro", "source": ARO, "skipped": {}, "same_as_answer": {"any": 0}}
    told |= {"options": {"2": 3}, "chance": 0.5, "groups": {"on": 2, "to the left of": 1}}
    assert told.items() <= index.items()
    assert [shard["samples"] for shard in index["splits"]["test"]["shards"]] == [2, 1]
    key, image, record = ShardReader(tmp_path / "out", "test").read(2)
    assert key == "00000002" and image == (tmp_path / "aro/images/2416218.jpg").read_bytes()
    wanted = {"options": ["the door is on the bus", "the bus is on the door"], "answer": 0, "group": "on", "id": "2"}
    assert record == {**wanted, "image": "vg:2416218.jpg", "box": [3, 2, 11, 9]}
    there, again = ({p.name: p.read_bytes() for p in (tmp_path / out).iterdir()} for out in ("out", "again"))
    assert there == again
    with pytest.raises(UserError, match="describes a choice set, a probe is expected"):
        read_index(tmp_path / "out", kind="probe")


SOURCES: dict[str, dict[str, Any]] = {"sugarcrepe": SUGARCREPE, "aro": ARO}


@pytest.mark.parametrize(
    ("kind", "changes", "said", "edit"),
    [(*row[:3], row[3:]) for row in read_table(__file__, "sources")]
    + [("aro", {}, r"\[2\]\.bbox_x: must be a number, not 1000*\.\.\.", ("2.bbox_x", 10**400))],
)
def test_bad_sources_are_one_line(kind: str, changes: dict[str, Any], said: str, edit: Any, tmp_path: Path) -> None:
    files.sugarcrepe(tmp_path / "sc", tmp_path / "coco/val2017")
    files.aro(tmp_path / "aro")
    source = SOURCES[kind] | changes
    if edit:
        name = "swap_obj" if kind == "sugarcrepe" else f"visual_genome_{source['task']}"
        files.damage(tmp_path / source["path"] / f"{name}.json", *edit)
    with pytest.raises(UserError, match=said):
        choices(source, tmp_path)


def test_items_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    files.aro(tmp_path / "aro")
    files.put(tmp_path / "secret.jpg", files.jpeg(0))
    for place, value in {"0.bbox_h": 0, "1.image_path": "../../secret.jpg", "2.false_caption": " \n"}.items():
        files.damage(tmp_path / "aro/visual_genome_relation.json", place, value)
    skipped = Skipped()
    assert not choices(ARO, tmp_path, skipped)
    assert skipped.counts == {"box is empty": 1, "image outside the folder": 1, "no caption": 1}
    with pytest.raises(UserError, match="3 of 3 samples were skipped"):
        write_choices("aro", ARO, tmp_path / "out", tmp_path)
    assert not (tmp_path / "out/index.json").exists()


def test_a_group_that_is_no_text_can_be_written(tmp_path: Path) -> None:
    files.aro(tmp_path / "aro")
    files.damage(tmp_path / "aro/visual_genome_relation.json", "0.relation_name", "on\ud800")
    assert "on?" in write_choices("aro", ARO, tmp_path / "out", tmp_path)["groups"]


# --- perturbations ----------------------------------------------------------------------------------------------------

SENTENCE = "A brown dog runs , number 3 , near the red car and the old bus ."
WORDS = SENTENCE.split()
TAGGED = ["DT", "JJ", "NN", "VBZ", ",", "NN", "CD", ",", "IN", "DT", "JJ", "NN", "CC", "DT", "JJ", "NN", "."]


def described(name: str, words: list[str], tags: list[str], rng: np.random.Generator) -> list[str]:
    """The paper's words for each perturbation, done step by step with the generator's draws in the same order."""
    if name in ("nouns and adjectives", "all others"):
        noun, adjective = ("NN", "NNS", "NNP", "NNPS"), ("JJ", "JJR", "JJS")
        text = np.array(words, dtype=object)
        for kind in [noun, adjective] if name == "nouns and adjectives" else [None]:
            mask = [t in kind if kind else t not in noun + adjective for t in tags]
            text[mask] = rng.permutation(text[mask])
        return text.tolist()
    groups = [words[place : place + 3] for place in range(0, len(words), 3)]
    if name == "within trigrams":
        groups = [rng.permutation(np.array(group, dtype=object)).tolist() for group in groups]
    else:
        groups = [groups[place] for place in rng.permutation(len(groups))]
    return [word for group in groups for word in group]


RULES: dict[str, Callable[[list[str], list[str], np.random.Generator], list[str]]] = {
    "nouns and adjectives": perturbations.permute_nouns_and_adjectives,
    "all others": perturbations.permute_other_words,
    "within trigrams": lambda words, tags, rng: perturbations.permute_within_trigrams(words, rng),
    "trigrams": lambda words, tags, rng: perturbations.permute_trigrams(words, rng),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, len(WORDS)])
def test_perturbations_are_the_described_ones_and_keep_the_words(name: str, length: int) -> None:
    words, tags = WORDS[:length], TAGGED[:length]
    seen = set()
    for seed in range(40):
        found = RULES[name](words, tags, np.random.default_rng(seed))
        assert found == described(name, words, tags, np.random.default_rng(seed))
        assert Counter(found) == Counter(words)
        seen.add(tuple(found))
    assert len(seen) > (1 if length >= 7 else 0)


def test_each_order_is_as_likely_as_any_other() -> None:
    words, rng = list("abc"), np.random.default_rng(0)
    counts = Counter("".join(perturbations.permute_within_trigrams(words, rng)) for _ in range(3000))
    assert len(counts) == 6 and max(abs(count - 500) for count in counts.values()) < 90  # 4.4 standard deviations
    moved = Counter("".join(RULES["all others"](words, ["IN", "NN", "IN"], rng)) for _ in range(600))
    assert set(moved) == {"abc", "cba"} and abs(moved["abc"] - 300) < 54


def test_the_published_form() -> None:
    text = '  The "old" man\'s dog (brown) , well-fed ; sat.Down!  \n 9:30 #1 *~ end?'
    assert perturbations.published_form(text, 30) == "the old man's dog brown , well-fed sat down 9 30 1 end?"
    assert perturbations.published_form(text, 3) == "the old man's"


@pytest.mark.parametrize(("text", "words"), read_table(__file__, "words"))
def test_treebank_words(text: str, words: str) -> None:
    assert tagging.treebank_words()[0](text) == words.split()


# --- the order sets ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spacy")
def test_order_sets_have_five_options_for_every_caption(tmp_path: Path) -> None:
    files.karpathy(tmp_path / "coco")
    found = choices(ORDER, tmp_path)
    assert [(s.key, s.id, s.group) for s in found] == [("00000000", "30", "order"), ("00000001", "31", "order")]
    for sample in found:
        right, *wrong = sample.options
        # commas stand at their words in the caption, and alone in what was made of its words; both as published
        assert right == "a brown dog runs, number 3, near the red car"
        words = sorted(["a", "brown", "dog", "runs", ",", "number", "3", ",", "near", "the", "red", "car"])
        assert len(wrong) == 4 and all(sorted(option.split()) == words for option in wrong)
        nouns = [wrong[0].split()[place] for place in (2, 5, 11)]
        assert sorted(nouns) == ["car", "dog", "number"] and wrong[0].split()[3] == "runs"
        kept = [word for word in wrong[1].split() if TAGS.get(word) in ("NN", "JJ")]
        assert kept == ["brown", "dog", "number", "red", "car"]
        assert sample.image == found[0].image
    # two captions with the same words, each with draws of its own; and the same draws again
    assert found[0].options != found[1].options and choices(ORDER, tmp_path) == found
    assert choices(ORDER | {"seed": 1}, tmp_path) != found
    assert all(len(o.split()) == 4 for s in choices(ORDER | {"max_words": 4}, tmp_path) for o in s.options)
    assert [s.id for s in choices(ORDER | {"split": "val"}, tmp_path)] == ["20", "21"]
    with pytest.raises(UserError, match="is in split 'train2014'"):
        choices(ORDER | {"split": "train2014"}, tmp_path)


@pytest.mark.usefixtures("spacy")
def test_a_caption_keeps_its_options_whatever_stands_beside_it(tmp_path: Path) -> None:
    files.karpathy(tmp_path / "coco")
    before = choices(ORDER, tmp_path)
    files.damage(tmp_path / "coco/dataset_coco.json", "images.3.sentences.0")
    assert [s.options for s in choices(ORDER, tmp_path)] == [before[1].options]


@pytest.mark.usefixtures("spacy")
def test_perturbations_without_effect_are_kept_and_counted(tmp_path: Path) -> None:
    files.karpathy(tmp_path / "coco")
    for number, text in enumerate(("Dog.", "the dog")):
        files.damage(tmp_path / "coco/dataset_coco.json", f"images.3.sentences.{number}.raw", text)
    index = write_choices("order", ORDER, tmp_path / "out", tmp_path)
    assert index["options"] == {"5": 2} and index["chance"] == pytest.approx(0.2)
    # one noun and one other word: only an order of both can change anything, and whole trigrams never
    same = index["same_as_answer"]
    assert set(same) == {"1", "2", "3", "4", "any"} and same["3"] in (1, 2)
    assert (same["1"], same["2"], same["4"], same["any"]) == (2, 2, 2, 2)
    assert index["tagger"] == {"tagger": "spacy", "version": "3.8.0", "model": "en_core_web_sm 3.8.0"}
    assert index["tokenizer"] == {"tokenizer": "nltk", "version": metadata.version("nltk")}
    assert read_index(tmp_path / "out", verify=True, kind="choices") == index


def test_tags_go_with_the_taggers_words_and_trigrams_with_treebanks() -> None:
    tagged = (["A", "well", "-", "fed", "dog", "."], ["DT", "RB", "HYPH", "VBN", "NN", "."])
    words = ["A", "well-fed", "dog", "."]
    _, nouns, others, within, whole = options_of("A well-fed dog.", tagged, words, generator(0, "1"), 30)
    assert sorted(nouns.split()) == sorted(others.split()) == ["-", "a", "dog", "fed", "well"]
    assert sorted(within.split()) == sorted(whole.split()) == ["a", "dog", "well-fed"]


def test_generators_are_apart_and_the_same_everywhere() -> None:
    drawn = {(seed, id_): generator(seed, id_).random() for seed in (0, 1) for id_ in ("1", "01", "11")}
    assert len(set(drawn.values())) == 6
    assert drawn[0, "1"] == generator(0, "1").random() == pytest.approx(0.9576226571429748)


@pytest.mark.parametrize("name", ["spacy", "textblob", "nltk"])
def test_a_tagger_that_is_not_installed_is_one_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.karpathy(tmp_path / "coco")
    usual = builtins.__import__

    def missing(module: str, *args: Any, **named: Any) -> Any:
        if module.partition(".")[0] == name:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return usual(module, *args, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UserError, match="pip install") as error:
        choices(ORDER | {"tagger": name}, tmp_path) if name != "nltk" else tagging.treebank_words()
    assert name != "spacy" or "spacy download en_core_web_sm" in str(error.value)


def test_textblob_gets_treebank_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def tag(text: str, tokenize: bool = True) -> list[tuple[str, str]]:
        assert not tokenize  # or it would cut the words anew
        return [(word, TAGS.get(word, "IN")) for word in text.split(" ")]

    monkeypatch.setitem(sys.modules, "textblob", ModuleType("textblob"))
    monkeypatch.setitem(sys.modules, "textblob.en", SimpleNamespace(tag=tag))
    monkeypatch.setattr(tagging, "metadata", SimpleNamespace(version=lambda name: f"version of {name}"))
    found, facts = tagging.tagger("textblob")
    assert found("A brown dog's car.") == (
        ["A", "brown", "dog", "'s", "car", "."],
        ["IN", "JJ", "NN", "IN", "NN", "IN"],
    )
    assert found("") == ([], []) and facts == {"tagger": "textblob", "version": "version of textblob"}


def test_a_model_that_spacy_does_not_have_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Mock(side_effect=OSError("[E050] Can't find model 'en_core_web_sm'."))
    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=load))
    with pytest.raises(UserError, match="tagger of ARO's order sets is missing"):
        tagging.tagger("spacy")
