"""CHAIR as Table 3 has it: objects that captions name, those of an image, and what is shared out, against a loop by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pycocoevalcap.bleu.bleu_scorer import BleuScorer

from mdc.evaluation.captioned import Captioned
from mdc.evaluation.metrics.chair import WORDS, mentioned, read_instances
from mdc.evaluation.metrics.words import content_recall, content_words, distinct, self_bleu
from mdc.evaluation.objects import Objects, objects
from mdc.plan.records import UserError, sha256_file
from mdc.report.measured_captions import MeasuredCaptions

KEYS = ["COCO_val2014_000000000007", "12", "images/000000000003.jpg"]
REFERENCES = {KEYS[0]: ["a dog on a sofa", "a puppy sleeps"], KEYS[1]: ["two cats"], KEYS[2]: ["an empty street"]}
CAPTIONS = ["a dog and a cat on a couch", "a cat and a horse and a horse", "a blue sky"]


def test_there_are_cocos_eighty_categories() -> None:
    assert len(WORDS) == 80 and all(mentioned(f"there is a {category} here") == [category] for category in WORDS)


def test_objects_that_a_caption_names() -> None:
    named = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    assert {caption: mentioned(caption) for caption in named} == named


def _file(folder: Path, images: list[int]) -> Path:
    folder.mkdir(exist_ok=True)
    values = {
        "images": [{"id": one} for one in images],
        "categories": [{"id": 17, "name": "cat"}, {"id": 18, "name": "dog"}, {"id": 3, "name": "car"}],
        "annotations": [{"image_id": i, "category_id": c} for i, c in ((7, 18), (7, 18), (3, 3))],
    }
    path = folder / "instances.json"
    path.write_text(json.dumps(values))
    return path


def _images() -> Any:
    return Captioned(None, KEYS, list(REFERENCES.values()), [None] * 3, [])  # type: ignore[arg-type]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Objects:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    path = _file(tmp_path / "coco", [7, 12, 3])
    found = objects("coco/instances.json", _images(), REFERENCES)
    assert found.metadata == {"file": "instances.json", "sha256": sha256_file(path), "note": ""}
    return found


def test_an_image_has_what_its_file_and_its_references_say(there: Objects) -> None:
    # the number at the end of the name; a couch stands in a reference alone; image 12 has no annotation
    assert there.truths == [{"dog", "couch"}, {"cat"}, {"car"}]
    assert [there.of(place, caption) for place, caption in enumerate(CAPTIONS)] == [[3, 1], [3, 2], [0, 0]]


def test_shares_are_of_all_captions_that_a_resample_has(there: Objects) -> None:
    counts = np.array([there.of(place, caption) for place, caption in enumerate(CAPTIONS)], dtype=np.float64)
    found = MeasuredCaptions(tuple(KEYS), {"objects": counts})
    i, s, number = (found.items(name) for name in ("CHAIRi", "CHAIRs", "objects"))
    assert i is not None and s is not None and number is not None and callable(i.of)
    drawn = np.array([[1, 1, 1], [2, 0, 1], [0, 0, 3], [0, 2, 1]], dtype=np.float64)
    for row, share in zip(drawn, i.of(drawn), strict=True):
        captions = [CAPTIONS[place] for place, times in enumerate(row) for _ in range(int(times))]
        truths = [there.truths[place] for place, times in enumerate(row) for _ in range(int(times))]  # type: ignore[index]
        named = [(one, truth) for caption, truth in zip(captions, truths, strict=True) for one in mentioned(caption)]
        wrong = sum(one not in truth for one, truth in named)
        assert share == pytest.approx(wrong / len(named) if named else 0.0)
    assert not callable(s.of) and s.of.tolist() == [1, 1, 0]


def test_without_the_file_the_note_says_what_to_bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    found = objects("coco/instances.json", _images(), REFERENCES)
    assert found.of(0, CAPTIONS[0]) is None and found.metadata is not None
    assert found.metadata["note"].startswith("not available: MSCOCO's instances.json (")
    assert "annotations_trainval2014.zip" in found.metadata["note"] and "\n" not in found.metadata["note"]
    assert objects(None, _images(), REFERENCES).metadata is None


def test_a_file_of_other_images_is_no_ground_for_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    assert read_instances(_file(tmp_path / "coco", [7, 3])) == {7: {"dog"}, 3: {"car"}}
    found = objects("coco/instances.json", _images(), REFERENCES)
    assert (
        found.truths is None
        and found.metadata is not None
        and "lacks 1 of 3 images, 12 for one" in found.metadata["note"]
    )


def test_a_broken_file_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    no_instances = ("[]", '{"categories": []}', '{"categories": [], "images": [{}], "annotations": []}')
    told = {"{": "not valid JSON"} | dict.fromkeys(no_instances, "is no instances file of COCO")
    for text, said in told.items():
        (tmp_path / "i.json").write_text(text)
        with pytest.raises(UserError, match=rf"i\.json: {said}"):
            objects("i.json", _images(), REFERENCES)
    with pytest.raises(UserError, match="cannot be read"):
        read_instances(tmp_path / "none.json")


# --- how varied and how descriptive captions are ----------------------------------------------------------------------


VARIED = ["a dog runs on the beach", "a dog runs", "two men ride a horse", "a dog runs on the beach", "horse", ""]


def test_content_words_are_those_of_no_closed_class() -> None:
    assert content_words("a dog is n't running on the two beaches") == ["dog", "running", "two", "beaches"]
    assert content_words("") == []


def test_content_recall_is_the_mean_over_references() -> None:
    # of {dog, beach} the dog, of {dog} the dog; a reference without content words does not count
    assert content_recall("the dog sleeps", ["a dog on the beach", "dog", "it is"]) == pytest.approx((1 / 2 + 1) / 2)
    assert content_recall("a dog", ["it is"]) == 0


def test_distinct_counts_n_grams_over_the_whole_set() -> None:
    words = [word for one in VARIED for word in one.split()]
    assert distinct(VARIED, 1) == len(set(words)) / len(words)
    assert distinct(["a a a a"], 2) == 1 / 3
    assert distinct([""], 1) == 0


@pytest.mark.parametrize("order", [1, 2, 4])
def test_self_bleu_is_bleu_against_all_others(order: int) -> None:
    rng = np.random.default_rng(0)
    drawn = [" ".join(rng.choice(["a", "b", "c", "d"], rng.integers(1, 9)).tolist()) for _ in range(20)]
    for captions in (VARIED, drawn, ["a b", "a b"]):
        scorer = BleuScorer(n=4)
        for place, caption in enumerate(captions):
            scorer += caption, [other for n, other in enumerate(captions) if n != place]
        assert self_bleu(captions, order) == pytest.approx(
            scorer.compute_score(option="closest", verbose=0)[0][order - 1], abs=1e-9
        )
    assert self_bleu(["a dog runs on"] * 3) == pytest.approx(1, abs=1e-6)
