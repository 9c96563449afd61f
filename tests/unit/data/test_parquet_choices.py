"""Choice sets of files at hand: SugarCrepe's official files and COCO's captions, with the images of a parquet file."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import evaluation_files as files
import pytest
from data_samples import encoded, iter_choices, write_parquet

from mdc.data.formats.samples import ChoiceSample, Skipped
from mdc.data.sources.choices import orders
from mdc.data.sources.choices.orders import generator, options_of
from mdc.plan.records import UserError

CREPE = {"kind": "sugarcrepe_parquet", "path": "sc", "task": "swap_obj", "images": "images.parquet"}
ORDER = {"kind": "order_parquet", "path": "captions.json.gz", "images": "coco.parquet", "tagger": "textblob"}


def read(source: dict[str, Any], root: Path, skipped: Skipped | None = None) -> list[ChoiceSample]:
    return list(iter_choices(source, root, skipped))


def test_sugarcrepes_items_are_those_whose_image_is_there(tmp_path: Path) -> None:
    files.sugarcrepe(tmp_path / "sc", tmp_path / "elsewhere")
    names = ["000000001004.jpg", "000000009999.jpg", "000000001000.jpg"]
    write_parquet(tmp_path / "images.parquet", {"image": [encoded(n) for n in range(3)], "filename": names})
    skipped = Skipped()
    found = read(CREPE, tmp_path, skipped)
    assert [(s.key, s.id, s.group, s.image, s.image_name) for s in found] == [
        ("00000000", "0", "swap_obj", encoded(2), "coco:1000"),
        ("00000002", "4", "swap_obj", encoded(0), "coco:1004"),
    ]
    assert found[1].options == ("Two dogs and a cat 4.", "Two cats and a dog 4.")
    assert skipped.counts == {"image is missing": 1}
    broken = {"image": [encoded(0)[:40], encoded(2)], "filename": [names[0], names[2]]}
    write_parquet(tmp_path / "images.parquet", broken)
    skipped = Skipped()
    assert [s.id for s in read(CREPE, tmp_path, skipped)] == ["0"]
    assert skipped.counts == {"image is missing": 1, "image cannot be decoded": 1}, "every item is counted once"
    write_parquet(tmp_path / "images.parquet", {"image": [encoded(0)] * 2, "filename": [names[0]] * 2})
    with pytest.raises(UserError, match="two rows have the filename"):
        read(CREPE, tmp_path)
    (tmp_path / "images.parquet").unlink()
    with pytest.raises(UserError, match="no such file; put it there, or set MDC_DATA"):
        read(CREPE, tmp_path)


def _tag(text: str) -> tuple[list[str], list[str]]:
    """Words, and nouns where the tests have some."""
    words = re.findall(r"\w+|[^\w\s]", text)
    return words, ["NN" if word in ("dog", "cat", "car") else "IN" for word in words]


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two images of three, with captions whose ids are in no order."""
    monkeypatch.setattr(orders, "tagger", lambda name: (_tag, {"tagger": name}))
    monkeypatch.setattr(orders, "treebank_words", lambda: (lambda text: _tag(text)[0], {"tokenizer": "nltk"}))
    listed = [(9, 20), (3, 20), (5, 10), (4, 30), (8, 10), (1, 10)]
    told = [{"id": one, "image_id": image, "caption": f"A dog near car {one}, cat {image}."} for one, image in listed]
    (tmp_path / "captions.json.gz").write_bytes(gzip.compress(json.dumps({"annotations": told}).encode()))
    write_parquet(tmp_path / "coco.parquet", {"image": [encoded(1), encoded(2)], "image_id": [10, 20]})
    return tmp_path


def test_every_caption_of_an_image_that_is_there_is_an_item(order: Path) -> None:
    found = read(ORDER, order)
    images = [("1", "coco:10"), ("3", "coco:20"), ("5", "coco:10"), ("8", "coco:10"), ("9", "coco:20")]
    assert [(s.key, s.id, s.image_name) for s in found] == [(f"{n:08d}", *each) for n, each in enumerate(images)]
    for sample in found:
        caption = f"A dog near car {sample.id}, cat {sample.image_name.partition(':')[2]}."
        words = _tag(caption)
        assert list(sample.options) == options_of(caption, words, words[0], generator(0, sample.id), 30)
        assert sample.image == encoded({"coco:10": 1, "coco:20": 2}[sample.image_name])
        assert len(sample.options) == 5 and sample.group == "order"


def test_captions_without_an_image_are_counted(order: Path) -> None:
    """As left out where the file has no such image: it may hold some of them. As skipped where it is broken."""
    write_parquet(order / "coco.parquet", {"image": [encoded(1), encoded(2)[:40]], "image_id": [10, 20]})
    skipped = Skipped()
    assert [s.id for s in read(ORDER, order, skipped)] == ["1", "5", "8"]
    assert skipped.counts == {"image cannot be decoded": 2} and skipped.captions == 1


def test_so_many_captions_an_image_are_the_first_by_their_ids_with_the_same_options(order: Path) -> None:
    every = {s.id: s.options for s in read(ORDER, order)}
    for count, ids in ((1, ["1", "3"]), (2, ["1", "3", "5", "9"])):
        found = read({**ORDER, "per_image": count}, order)
        assert [s.id for s in found] == ids and all(every[s.id] == s.options for s in found)


def test_another_seed_draws_other_options(order: Path) -> None:
    first, second = ([s.options for s in read({**ORDER, "seed": seed}, order)] for seed in (0, 1))
    assert first != second and [one[0] for one in first] == [one[0] for one in second]


def test_files_that_are_not_the_published_ones_are_one_line(order: Path) -> None:
    path = order / "captions.json.gz"
    for told, said in (
        ({"annotations": [{"id": 1, "image_id": 77, "caption": "a dog"}]}, "none of its images is in coco.parquet"),
        ({"annotations": [{"id": "1", "image_id": 10, "caption": "a dog"}]}, "not COCO's captions file"),
        ({"annotations": [{"id": 1, "image_id": 10}]}, "not COCO's captions file"),
        ({"images": []}, "not COCO's captions file"),
    ):
        path.write_bytes(gzip.compress(json.dumps(told).encode()))
        with pytest.raises(UserError, match=said):
            read(ORDER, order)
