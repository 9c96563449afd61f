"""`mdc metrics`: anybody's captions, in COCO's files; and what is said of files that are none."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path

import pytest

from mdc.captions import metrics
from mdc.captions.files import image_ids, read_captions, read_references
from mdc.captions.metrics import measure
from mdc.cli import main
from mdc.records import UserError

CAPTIONS = {"7": "a dog runs on the beach", "9": "two men ride a horse"}
REFERENCES = {
    "7": ["a brown dog runs along the beach"],
    "9": ["two men are riding horses", "men on a horse"],
    "11": ["a tree"],
}


@pytest.fixture(autouse=True)
def no_meteor(monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR's program takes ten seconds to start; here it is one that cannot be found."""
    monkeypatch.setattr(metrics, "_meteor", lambda: contextlib.nullcontext(FileNotFoundError("no such program")))


def _files(tmp_path: Path) -> tuple[str, str]:
    results = [{"image_id": int(image), "caption": caption} for image, caption in CAPTIONS.items()]
    (tmp_path / "ours.json").write_text(json.dumps(results))
    entries = [
        {"image_id": int(i), "caption": c, "id": n} for i, some in REFERENCES.items() for n, c in enumerate(some)
    ]
    (tmp_path / "theirs.json.gz").write_bytes(gzip.compress(json.dumps({"annotations": entries}).encode()))
    return str(tmp_path / "ours.json"), str(tmp_path / "theirs.json.gz")


def test_it_measures_files_as_coco_has_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = _files(tmp_path)
    assert read_captions(Path(ours)) == CAPTIONS and read_references(Path(theirs)) == REFERENCES
    assert main(["metrics", ours, theirs, "--json", "--out", str(tmp_path / "out.json")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["captions"], told["without_caption"]) == (2, 1)
    found = measure(CAPTIONS, REFERENCES)
    for name, one in found.items():
        assert told["metrics"][name] == one.value
    assert told["metrics"]["METEOR"] is None and "its program failed" in told["notes"]["METEOR"]
    assert told["metrics"]["CIDEr"] > 0 and 0 < told["metrics"]["content recall"] < 100
    images = json.loads((tmp_path / "out.json").read_text())["images"]
    assert [one["image_id"] for one in images] == ["7", "9"]
    cider = found["CIDEr"].images
    assert cider is not None and [one["CIDEr"] for one in images] == cider.tolist()
    assert main(["metrics", ours, theirs]) == 0
    said = capsys.readouterr().out
    assert (
        "2 captions; 1 images with references have none" in said and "SPICE" in said and "get_stanford_models" in said
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("3", 'must be a list of {"image_id": …, "caption": …}'),
        ("[]", "holds no caption"),
        ('[{"image_id": 7}]', 'entry 0 must have an "image_id" and a "caption"'),
        ('[{"image_id": 7, "caption": 3}]', "entry 0 must have"),
        ('[{"image_id": true, "caption": "a"}]', "entry 0 must have"),
        ('[{"image_id": 7, "caption": "a"}, {"image_id": 7, "caption": "b"}]', "image 7 has two captions"),
        ('[{"image_id": 5, "caption": "a"}]', "1 of 1 captioned images have no reference, the first is 5"),
    ],
)
def test_bad_files_end_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    _, theirs = _files(tmp_path)
    (tmp_path / "bad.json").write_text(text)
    assert main(["metrics", str(tmp_path / "bad.json"), theirs]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert main(["metrics", str(tmp_path / "none.json"), theirs]) == 2


def test_references_may_be_a_plain_mapping(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(REFERENCES))
    assert read_references(tmp_path / "r.json") == REFERENCES
    (tmp_path / "r.json").write_text('{"7": "a dog"}')
    with pytest.raises(UserError, match="the references of image 7 are no list of captions"):
        read_references(tmp_path / "r.json")


def test_images_are_known_by_their_numbers_or_names_and_each_by_its_own() -> None:
    names = [
        "42.png",
        "000000000007.jpg",
        "COCO_val2014_000000000008.jpg",
        "COCO_8.jpg",
        "dog.jpg",
        "1_2.png",
        "²³.png",
    ]
    known = [42, 7, 8, "COCO_8.jpg", "dog.jpg", "1_2.png", "²³.png"]
    assert image_ids([Path("x") / name for name in names]) == known
    # "7.png" and "007.png", and files of one name in two folders
    paths = ["a/7.png", "a/007.png", "a/dog.png", "b/dog.png", "a/dog.jpg"]
    assert image_ids([Path(one) for one in paths]) == ["a/7.png", "a/007.png", "a/dog.png", "b/dog.png", "dog.jpg"]
