"""CHAIR as Table 3 has it: which image has which objects, and what is shared out of captions, against a loop by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdc.captions.chair import mentioned
from mdc.evaluation.captioned import Captioned
from mdc.evaluation.objects import Objects, objects
from mdc.records import UserError, sha256_file
from mdc.report.measured_captions import MeasuredCaptions

KEYS = ["COCO_val2014_000000000007", "12", "images/000000000003.jpg"]
REFERENCES = {KEYS[0]: ["a dog on a sofa", "a puppy sleeps"], KEYS[1]: ["two cats"], KEYS[2]: ["an empty street"]}
CAPTIONS = ["a dog and a cat on a couch", "a cat and a cat and a horse", "a blue sky"]


def _file(folder: Path, images: list[int]) -> Path:
    folder.mkdir(exist_ok=True)
    values = {
        "images": [{"id": one} for one in images],
        "categories": [{"id": 17, "name": "cat"}, {"id": 18, "name": "dog"}, {"id": 3, "name": "car"}],
        "annotations": [{"image_id": 7, "category_id": 18}, {"image_id": 3, "category_id": 3}],
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
    assert found.told == {"file": "instances.json", "sha256": sha256_file(path), "note": ""}
    return found


def test_an_image_has_what_its_file_and_its_references_say(there: Objects) -> None:
    # the number at the end of the name; a couch stands in a reference alone; image 12 has no annotation
    assert there.truths == [{"dog", "couch"}, {"cat"}, {"car"}]
    assert [there.of(place, caption) for place, caption in enumerate(CAPTIONS)] == [[3, 1], [3, 1], [0, 0]]


def test_shares_are_of_all_captions_that_a_resample_has(there: Objects) -> None:
    counts = np.array([there.of(place, caption) for place, caption in enumerate(CAPTIONS)], dtype=np.float64)
    found = MeasuredCaptions(tuple(KEYS), {}, None, None, None, counts)
    i, s, number = (found.items(name) for name in ("CHAIRi", "CHAIRs", "objects"))
    assert i is not None and s is not None and number is not None and i.statistic is not None
    drawn = np.array([[1, 1, 1], [2, 0, 1], [0, 0, 3], [0, 2, 1]], dtype=np.float64)
    for row, share in zip(drawn, i.statistic(drawn), strict=True):
        captions = [CAPTIONS[place] for place, times in enumerate(row) for _ in range(int(times))]
        truths = [there.truths[place] for place, times in enumerate(row) for _ in range(int(times))]  # type: ignore[index]
        named = [(one, truth) for caption, truth in zip(captions, truths, strict=True) for one in mentioned(caption)]
        wrong = sum(one not in truth for one, truth in named)
        assert share == pytest.approx(wrong / len(named) if named else 0.0)
    assert s.value is not None and s.value.tolist() == [1, 1, 0]


def test_without_the_file_the_note_says_what_to_bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    found = objects("coco/instances.json", _images(), REFERENCES)
    assert found.of(0, CAPTIONS[0]) is None and found.told is not None
    assert found.told["note"].startswith("not available: MSCOCO's instances.json (")
    assert "annotations_trainval2014.zip" in found.told["note"] and "\n" not in found.told["note"]
    assert objects(None, _images(), REFERENCES).told is None


def test_a_file_of_other_images_is_no_ground_for_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    _file(tmp_path / "coco", [7, 3])
    found = objects("coco/instances.json", _images(), REFERENCES)
    assert found.truths is None and found.told is not None and "lacks 1 of 3 images, 12 for one" in found.told["note"]


def test_a_broken_file_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    (tmp_path / "i.json").write_text('{"images": [')
    with pytest.raises(UserError, match=r"i\.json: is no instances file of COCO"):
        objects("i.json", _images(), REFERENCES)
