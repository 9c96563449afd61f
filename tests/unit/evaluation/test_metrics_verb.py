"""`mdc metrics`: anybody's captions, in COCO's files; and what is said of files that are none."""

import contextlib
import gzip
import json
from pathlib import Path

import open_clip
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from test_caption_metrics import measure
from tiny_clip import write_clip

from mdc.app.cli import main
from mdc.evaluation.metrics import metrics
from mdc.evaluation.metrics.files import image_ids, read_captions, read_file_names, read_references
from mdc.plan.records import UserError

CAPTIONS = {"7": "a dog runs on the beach", "9": "two men ride a horse"}
REFERENCES = {
    "7": ["a brown dog runs along the beach"],
    "9": ["two men are riding horses", "men on a horse"],
    "11": ["a tree"],
}


LONG = "red " + "dog " * 100


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
    assert all(told["metrics"][name] == one.value for name, one in found.items())
    assert told["metrics"]["METEOR"] is None and "its program failed" in told["notes"]["METEOR"]
    assert told["metrics"]["CIDEr"] > 0 and 0 < told["metrics"]["content recall"] < 100
    images = json.loads((tmp_path / "out.json").read_text())["images"]
    assert [(one["image_id"], one["caption"]) for one in images] == [(7, CAPTIONS["7"]), (9, CAPTIONS["9"])]
    assert read_captions(tmp_path / "out.json") == CAPTIONS, "what it writes it can read"
    cider = found["CIDEr"].images
    assert cider is not None and [one["CIDEr"] for one in images] == cider.tolist()
    assert main(["metrics", ours, theirs]) == 0
    said = capsys.readouterr().out
    assert "2 captions; 1 more image has references and no caption" in said and "get_stanford_models" in said


def test_bad_files_end_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, theirs = _files(tmp_path)
    for text, said in (
        ("{", "not valid JSON"),
        ("3", 'must be a list of {"image_id": …, "caption": …}'),
        ("[]", "holds no caption"),
        ('[{"image_id": 7}]', 'entry 0 must have an "image_id" and a "caption"'),
        ('[{"image_id": 7, "caption": 3}]', "entry 0 must have"),
        ('[{"image_id": true, "caption": "a"}]', "entry 0 must have"),
        ('[{"image_id": 7, "caption": "a"}, {"image_id": 7, "caption": "b"}]', "image 7 has two captions"),
        ('[{"image_id": 5, "caption": "a"}]', "1 of 1 captioned images have no reference, the first is 5"),
    ):
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


def test_references_may_be_a_table(tmp_path: Path) -> None:
    """Of rows, or of columns; images by their numbers, or by files' names as in predictions."""
    rows = "".join(f"{image},{caption}\n" for image, some in REFERENCES.items() for caption in some)
    (tmp_path / "rows.csv").write_text(f"image_id,caption\n{rows}")
    (tmp_path / "named.tsv").write_text(
        "image\tcaption\n" + rows.replace(",", "\t").replace("7\t", "pictures/0007.jpg\t")
    )
    lists = [{"image": int(image), "captions": some} for image, some in REFERENCES.items()]
    (tmp_path / "lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lists))
    wide = "".join(f"{image},{some[0]},{some[1] if len(some) > 1 else ''}\n" for image, some in REFERENCES.items())
    (tmp_path / "wide.csv").write_text(f"image,caption_1,caption_2\n{wide}")
    for name in ("rows.csv", "named.tsv", "lists.jsonl", "wide.csv"):
        assert read_references(tmp_path / name) == REFERENCES, name
    (tmp_path / "bad.csv").write_text("image,caption\n7,a dog,on a beach\n")
    with pytest.raises(UserError, match="row 0: row has another number of columns"):
        read_references(tmp_path / "bad.csv")


def test_a_table_measures_as_cocos_files_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = _files(tmp_path)
    rows = "".join(f"{image},{caption}\n" for image in CAPTIONS for caption in REFERENCES[image])
    (tmp_path / "rows.csv").write_text(f"image,caption\n{rows}")
    found = []
    for references in (theirs, str(tmp_path / "rows.csv")):
        assert main(["metrics", ours, references, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["metrics"] == found[1]["metrics"] and found[1]["without_caption"] == 0
    assert main(["metrics", ours, str(tmp_path / "rows.csv")]) == 0
    assert "references" not in capsys.readouterr().out


def test_images_are_known_by_their_numbers_or_names_and_each_by_its_own() -> None:
    names = ["COCO_8.jpg", "dog.jpg", "1_2.png", "²³.png"]
    numbers = ["42.png", "000000000007.jpg", "COCO_val2014_000000000008.jpg"]
    assert image_ids([Path("x") / name for name in [*numbers, *names]]) == [42, 7, 8, *names]
    # "7.png" and "007.png", and files of one name in two folders
    paths = ["a/7.png", "a/007.png", "a/dog.png", "b/dog.png", "a/dog.jpg"]
    assert image_ids([Path(one) for one in paths]) == ["a/7.png", "a/007.png", "a/dog.png", "b/dog.png", "dog.jpg"]


# --- images ---------------------------------------------------------------------------------------------------------------


def _pictures(tmp_path: Path) -> Path:
    """Of image 7 under its number, of image 9 under the name that the references give it."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, colour in (("COCO_val2014_000000000007.png", (200, 10, 10)), ("horses.png", (10, 10, 200))):
        Image.new("RGB", (40, 32), colour).save(folder / name)
    (folder / "notes.txt").write_text("no image")
    entries = [{"image_id": int(i), "caption": c} for i, some in REFERENCES.items() for c in [*some, LONG]]
    listed = [{"id": 9, "file_name": "horses.png"}, {"id": 7}]
    (tmp_path / "named.json").write_text(json.dumps({"images": listed, "annotations": entries}))
    return folder


def _clip(tmp_path: Path) -> Path:
    """A CLIP for which these captions are near these images; untrained, it would place them on the other side."""
    folder = write_clip(tmp_path)
    weights = load_file(folder / "open_clip_model.safetensors")
    save_file(weights | {"visual.proj": -weights["visual.proj"]}, folder / "open_clip_model.safetensors")
    return folder


def test_with_images_it_measures_clip_score_by_a_model_of_open_clip(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """… against open_clip called by hand, and the formulas of Hessel et al. (2021).
    A caption that is too long loses its end, and a reference goes."""
    ours, theirs, out = (str(tmp_path / name) for name in ("ours.json", "named.json", "out.json"))
    folder, clip, captions = _pictures(tmp_path), _clip(tmp_path), {"7": LONG, "9": CAPTIONS["9"]}
    Path(ours).write_text(json.dumps([{"image_id": int(image), "caption": one} for image, one in captions.items()]))
    command = ["metrics", ours, theirs, "--images", str(folder), "--clip", str(clip), "--out", out]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{clip}")
    tokenizer, expected = open_clip.get_tokenizer(f"local-dir:{clip}"), []
    for image, file in (("7", "COCO_val2014_000000000007.png"), ("9", "horses.png")):
        texts = tokenizer([f"A photo depicts {one}" for one in (captions[image], *REFERENCES[image])])
        with torch.no_grad():
            seen = model.eval().encode_image(preprocess(Image.open(folder / file))[None], normalize=True)[0]
            own, *others = model.encode_text(texts, normalize=True)
        score, near = 2.5 * max(float(seen @ own), 0), max(*(float(own @ other) for other in others), 0)
        expected.append((100 * score, 100 * 2 * score * near / (score + near) if score + near else 0))
    assert all(score > 0 and both > 0 for score, both in expected)
    images = json.loads(Path(out).read_text())["images"]
    for place, name in enumerate(("CLIPScore", "RefCLIPScore")):
        values = [one[place] for one in expected]
        assert [one[name] for one in images] == pytest.approx(values, abs=1e-3)
        assert told["metrics"][name] == pytest.approx(sum(values) / 2, abs=1e-3)
    assert told["clip"]["model"] == str(clip) and told["clip"]["weights"].keys() >= {"open_clip_model.safetensors"}
    assert told["clip"]["cut"] == 1
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "RefCLIPScore" in said and f"CLIPScore by {clip}" in said
    # without images nothing is said of it
    assert main(["metrics", ours, theirs, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "CLIPScore" not in told["metrics"] and "clip" not in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--clip", "ViT-B-32"], "--clip, --clip-weights: CLIPScore looks at images"),
        (["--images", "nowhere"], "nowhere: no such folder"),
        (["--images", "empty"], "empty: has no file of 2 of 2 captioned images, the first is 7"),
        (["--images", "pictures", "--clip", "ViT-B-32"], "ViT-B-32 needs weights: a name or a file"),
        (["--images", "pictures", "--clip", "ViT-B-32", "--clip-weights", "openai"], "QuickGELU mismatch"),
        (["--images", "pictures", "--clip", "tiny"], "image horses.png cannot be decoded"),
        (["--images", "pictures", "--clip", "local-dir:nowhere"], "cannot be loaded"),
    ],
)
def test_images_and_models_that_cannot_be_end_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    ours, _ = _files(tmp_path)
    (_pictures(tmp_path) / "horses.png").write_bytes(b"no image")
    (tmp_path / "empty").mkdir()
    write_clip(tmp_path)
    monkeypatch.setattr(open_clip.factory, "download_pretrained", lambda *a, **k: str(tmp_path / "never read"))
    monkeypatch.chdir(tmp_path)
    assert main(["metrics", ours, "named.json", *words]) == 2
    error = capsys.readouterr().err.splitlines()
    assert said in error[-1] and not [line for line in error if line.startswith("Traceback")]


def test_names_of_files_come_from_cocos_annotations_alone(tmp_path: Path) -> None:
    named = json.dumps({"images": [{"id": 1, "file_name": "a.png"}, {"id": 2}, 3], "annotations": []})
    for text in (named, json.dumps(REFERENCES), '{"images": ["a caption"]}', "[]", '{"annotations": [], "images": 3}'):
        (tmp_path / "r.json").write_text(text)
        assert read_file_names(tmp_path / "r.json") == ({"1": "a.png"} if text == named else {})
