"""What `mdc demo` shows without anybody's image, and its zero-shot answers, without a browser."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image
from small_project import ARC, CLIP, TUNED, exported

import mdc
from mdc.app.demo.answers import Demo
from mdc.app.demo.examples import examples
from mdc.data.formats.images import decode
from mdc.data.shards.index import ShardReader


def right_for(monkeypatch: pytest.MonkeyPatch, model: Any, corpus: Path, wanted: set[int]) -> dict[bytes, str]:
    """Let ``model`` caption these held-out images as their last reference, otherwise written, and all others wrongly."""
    reader = ShardReader(corpus, "val")
    samples = {number: reader.read(number) for number in range(len(reader))}
    shown = {data: record["captions"][-1] for number, (_, data, record) in samples.items() if number in wanted}
    decoded = {decode(data).tobytes(): text for data, text in shown.items()}

    def caption(images: list[Image.Image]) -> list[SimpleNamespace]:
        return [SimpleNamespace(text=decoded.get(one.tobytes(), "nothing").upper() + ".") for one in images]

    monkeypatch.setattr(model, "caption", caption)
    return shown


def test_examples_are_held_out_images_that_are_captioned_as_a_reference(
    r: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = mdc.load(TUNED, scale=r.name)
    shown = right_for(monkeypatch, model, r / "data/corpora/described", {1, 4, 7})
    found = examples(model, tmp_path)
    assert {file.read_bytes() for file, _ in found.images} == set(shown)
    assert "3 of 16" in found.text
    assert examples(model, tmp_path) == found, "a seed chooses them"
    right_for(monkeypatch, model, r / "data/corpora/described", set(range(16)))
    assert len(examples(model, tmp_path).images) == 4


@pytest.mark.parametrize(
    ("said", "right"), [("a {}", True), ("a {} and a {}", False), ("a {} gnu", False), ("and", False)]
)
def test_of_a_rendered_scene_a_true_caption_is_right(
    r: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, right: bool
) -> None:
    model, reader = mdc.load(TUNED, scale=r.name), ShardReader(r / "data/corpora/described", "val")
    records = [reader.read(number) for number in range(len(reader))]
    shapes = {one["shape"] for _, _, record in records for one in record["truth"]["objects"]}
    texts = {}
    for _, data, record in records:
        there = {one["shape"] for one in record["truth"]["objects"]}
        texts[decode(data).tobytes()] = said.format(min(there), min(shapes - there))
    monkeypatch.setattr(model, "caption", lambda images: [SimpleNamespace(text=texts[one.tobytes()]) for one in images])
    assert len(examples(model, tmp_path).images) == (4 if right else 0)


def test_where_there_are_none_the_page_says_why(r: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = mdc.load(TUNED, scale=r.name)
    right_for(monkeypatch, model, r / "data/corpora/described", set())
    alone = mdc.load(exported(r, TUNED, tmp_path / "hub", "hub"))
    for one, why in (
        (model, "of 16 held-out images"),
        (alone, "without the corpus"),
        (mdc.load(CLIP, scale=r.name), "writes no captions"),
    ):
        found = examples(one, tmp_path)
        assert not found.images and why in found.text
    page = Demo(alone)
    assert (
        page.caption(Image.new("RGB", (40, 40), "red"))[0].text
        == mdc.load(TUNED).caption(Image.new("RGB", (40, 40), "red")).text
    )
    assert not page.can_debias


def test_its_classes_are_those_of_the_model(r: Path) -> None:
    image, names = Image.new("RGB", (40, 40), "red"), ["red", "blue star", "green"]
    for run, debias in ((TUNED, True), (ARC, True), (CLIP, False)):
        model = mdc.load(run, scale=r.name)
        page = Demo(model)
        assert page.can_debias == debias
        wanted = model.classify(image, names, "a {class}", samples=64)
        assert page.classes(image, "red, blue star\n\ngreen,", "a {class}", False) == wanted
    with pytest.raises(mdc.UserError, match="at least two"):
        page.classes(image, "red", "a {class}", False)
