"""Objects that captions name: by hand; and a file of instances as COCO writes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from mdc.captions.chair import WORDS, hallucinated, mentioned, read_instances
from mdc.records import UserError


def test_there_are_cocos_eighty_categories() -> None:
    assert len(WORDS) == 80 and all(mentioned(f"there is a {category} here") == [category] for category in WORDS)


def test_objects_that_a_caption_names() -> None:
    named = yaml.safe_load(Path(__file__).with_name("chair.yaml").read_text())
    assert {caption: mentioned(caption) for caption in named} == named


def test_what_the_image_does_not_have_is_hallucinated() -> None:
    found = hallucinated("a dog chases a cat past a dog", {"cat", "car"})
    assert found.named == ["dog", "cat", "dog"] and found.wrong == ["dog", "dog"]


def test_an_instances_file(tmp_path: Path) -> None:
    path = tmp_path / "instances.json"
    values = {
        "images": [{"id": 1}, {"id": 2}, {"id": 3}],
        "categories": [{"id": 17, "name": "cat"}, {"id": 18, "name": "dog"}],
        "annotations": [{"image_id": i, "category_id": c} for i, c in ((1, 17), (1, 17), (1, 18), (3, 18))],
    }
    path.write_text(json.dumps(values))
    assert read_instances(path) == {1: {"cat", "dog"}, 2: set(), 3: {"dog"}}
    for text in ("{", "[]", '{"categories": []}', '{"categories": [], "images": [{}], "annotations": []}'):
        path.write_text(text)
        with pytest.raises(UserError, match="is no instances file of COCO"):
            read_instances(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_instances(tmp_path / "none.json")
