"""Images that a source makes smaller, and images that several threads read: the order and the account of one thread."""

import io
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image
from pydantic import TypeAdapter, ValidationError

from mdc.data.formats.reading import SourceItem, with_images
from mdc.data.formats.samples import LeftOut, RawSample, Skipped, skipped_list
from mdc.data.shards.corpus_job import write_corpus
from mdc.data.sources.source import open_corpus, open_probe
from mdc.plan.config.kinds.known import AnyCorpus
from mdc.plan.config.kinds.sources import BuilderProbe, FolderProbe
from mdc.plan.records import UserError

ORIENTATION = 0x0112


def _encoded(form: str, size: tuple[int, int], orientation: int = 1, seed: int = 0, quality: int = 92) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (6, 8, 3)).astype(np.uint8)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    buffer = io.BytesIO()
    more = {"quality": quality} if form == "JPEG" else {}
    Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC).save(buffer, form, exif=exif, **more)
    return buffer.getvalue()


def _source(values: Mapping[str, Any], data: Path) -> Any:
    adapter: TypeAdapter[Any] = TypeAdapter(AnyCorpus)
    return open_corpus(adapter.validate_python(values).complete(), data)


def _samples(values: Mapping[str, Any], data: Path, split: str = "train") -> list[RawSample]:
    return list(_source(values, data).samples(split, Skipped()))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Large and small images, one on its side, with a table."""
    images = {
        "large.jpg": _encoded("JPEG", (1600, 1200)),
        "turned.jpg": _encoded("JPEG", (1600, 1200), orientation=6),
        "large.png": _encoded("PNG", (300, 200)),
        "small.png": _encoded("PNG", (40, 30)),
        "small.jpg": _encoded("JPEG", (40, 30), orientation=6),
    }
    for name, data in images.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "captions.csv").write_text("image,caption\n" + "".join(f"{name},a photo\n" for name in images))
    return tmp_path


def test_larger_images_become_upright_jpegs_and_smaller_ones_keep_their_bytes(photos: Path) -> None:
    found = _samples({"kind": "caption_table", "path": "captions.csv", "image_size": 64}, photos)
    opened = [Image.open(io.BytesIO(sample.image)) for sample in found]
    assert [(one.format, one.size) for one in opened] == [
        *(("JPEG", (85, 64)), ("JPEG", (64, 85)), ("JPEG", (96, 64)), ("PNG", (40, 30)), ("JPEG", (40, 30)))
    ]
    assert [sample.extension for sample in found] == ["jpg", "jpg", "jpg", "png", "jpg"]
    assert found[3].image == (photos / "small.png").read_bytes()
    assert found[4].image == (photos / "small.jpg").read_bytes()  # as it is: the loader turns it
    assert ORIENTATION not in opened[1].getexif()
    # what it shows, turned by hand: the colours of the corners
    whole = (
        Image.open(photos / "turned.jpg").transpose(Image.Transpose.ROTATE_270).resize((64, 85), Image.Resampling.BOX)
    )
    difference = np.abs(np.asarray(whole, dtype=int) - np.asarray(opened[1], dtype=int))
    assert difference.mean() < 4


def test_without_it_images_keep_their_bytes_and_the_index_says_nothing(photos: Path) -> None:
    values = {"kind": "caption_table", "path": "captions.csv"}
    found = _samples(values, photos)
    assert all(sample.image in {path.read_bytes() for path in photos.iterdir()} for sample in found)
    assert not {"image_size", "delimiter"} & set(_source(values, photos).config)


def test_every_kind_has_it(photos: Path) -> None:
    for name in ("large.jpg", "small.png"):
        (photos / "class" / name.partition(".")[0] / "train").mkdir(parents=True)
        (photos / "class" / name.partition(".")[0] / "test").mkdir()
        for split in ("train", "test"):
            (photos / "class" / name.partition(".")[0] / split / name).write_bytes((photos / name).read_bytes())
    table = pyarrow.table({"image": [(photos / "large.jpg").read_bytes()], "caption": ["a photo"]})
    pyarrow.parquet.write_table(table, photos / "a.parquet")
    probe = open_probe(FolderProbe(kind="class_folder", path="class", image_size=48).complete(), photos)
    parquet = {"kind": "parquet", "path": "a.parquet", "split_column": None, "image_size": 48}
    sizes = [
        Image.open(io.BytesIO(sample.image)).size
        for sample in (*probe.samples("test", Skipped()), *_samples(parquet, photos))
    ]
    assert sizes == [(64, 48), (40, 30), (64, 48)]
    with pytest.raises(ValidationError, match="cifar10 has small images of one size"):
        BuilderProbe.model_validate({"kind": "builder", "dataset": "cifar10", "image_size": 16})


@pytest.mark.parametrize("threads", [1, 3])
def test_several_threads_give_what_one_gives(threads: int, tmp_path: Path) -> None:
    """Also of what is left out, by the source and by the readers, in which split."""

    def items() -> Iterator[SourceItem]:
        for number in range(41):
            read = LeftOut("of the source") if number % 7 == 3 or number == 40 else partial(read_number, number)
            yield SourceItem(str(number), "file", read, split="train" if number % 3 else "val")

    def read_number(number: int, image_size: int | None) -> tuple[bytes, str]:
        if number % 5 == 2:
            raise LeftOut("of the reader")
        return str(number).encode(), "jpg"

    with skipped_list(tmp_path / "skipped.jsonl") as skipped:
        found = []
        for one, image, _ in with_images(items(), skipped, None, threads):
            assert image == one.key.encode() and skipped.split == ("train" if int(one.key) % 3 else "val")
            found.append(int(one.key))
            if one.key == "8":
                skipped.add("of the caller", one.key)
    assert found == [number for number in range(40) if number % 7 != 3 and number % 5 != 2]
    lines = [json.loads(line) for line in (tmp_path / "skipped.jsonl").read_text().splitlines()]
    keys = [int(line["key"]) for line in lines]
    assert keys == sorted(keys) and keys[-1] == 40 and 8 in keys
    assert all(line["split"] == ("train" if int(line["key"]) % 3 else "val") for line in lines)


def test_an_error_of_the_source_ends_the_reading() -> None:
    def items() -> Iterator[SourceItem]:
        yield SourceItem("0", "file", lambda _: (b"", "jpg"))
        raise UserError("no more")

    with pytest.raises(UserError, match="no more"):
        list(with_images(items(), Skipped(), None, 2))


def test_texts_beside_images(tmp_path: Path) -> None:
    for name, text in {
        "a/1.jpg": "a bird\n\n a bird again \n",
        "b/2.png": "a dog",
        "b/3.png": None,
        "b/4.png": " \n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(_encoded("PNG", (20, 20)))
        if text is not None:
            path.with_suffix(".txt").write_text(text)
    skipped = Skipped()
    found = list(_source({"kind": "caption_files", "path": "."}, tmp_path).samples("train", skipped))
    assert [sample.captions for sample in found] == [("a bird", "a bird again"), ("a dog",)]
    assert skipped.counts == {"caption file is missing": 1, "no caption": 1}
    (tmp_path / "a").rename(tmp_path / "training")
    (tmp_path / "b").rename(tmp_path / "valid")
    values = {"kind": "caption_files", "path": "."}
    assert [len(_samples(values, tmp_path, split)) for split in ("train", "val")] == [1, 1]
    # an image beside the splits' folders must not make all of them one pool
    (tmp_path / "cover.png").write_bytes(_encoded("PNG", (20, 20)))
    with pytest.raises(UserError, match=r"cover\.png: named after no split"):
        _source(values, tmp_path)
    (tmp_path / "cover.png").unlink()
    # without val it is held out of train alone
    (tmp_path / "valid").rename(tmp_path / "test")
    held = {**values, "val_fraction": 0.99}
    assert [len(_samples(held, tmp_path, split)) for split in ("train", "val", "test")] == [0, 1, 1]
    (tmp_path / "test").rename(tmp_path / "training/more")
    assert len(_samples(held, tmp_path, "val")) == 2
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="contains no images"):
        _source({"kind": "caption_files", "path": "empty"}, tmp_path)


@pytest.mark.parametrize("sharded", [False, True])
def test_a_share_of_parquet_rows_is_held_out(sharded: bool, tmp_path: Path) -> None:
    image = _encoded("PNG", (20, 20))
    for part in range(2):
        rows = {"image": [image] * 50, "caption": [f"photo {part} {number}" for number in range(50)]}
        pyarrow.parquet.write_table(pyarrow.table(rows), tmp_path / f"{part}.parquet")
    values = {"kind": "parquet", "path": ".", "split_column": None, "val_fraction": 0.2, "sharded": sharded}
    train, val = (_samples(values, tmp_path, split) for split in ("train", "val"))
    assert len({sample.captions for sample in (*train, *val)}) == 100 and 8 <= len(val) <= 32
    for wrong in ({"pairs": 3}, {"split_column": "split"}):
        with pytest.raises(ValidationError, match="val_fraction: goes with split_column: null"):
            _source({**values, **wrong}, tmp_path)
    (tmp_path / "0.parquet").rename(tmp_path / "validation.parquet")
    (tmp_path / "1.parquet").rename(tmp_path / "train.parquet")
    with pytest.raises(
        UserError, match=r"validation\.parquet: named after a split, but val_fraction holds samples out"
    ):
        _source(values, tmp_path)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("7", "holds a JSON int"),
        ('{"images": [{"id": 1}], "annotations": []}', "an entry lacks 'file_name'"),
        ('{"images": 3, "annotations": []}', "its lists hold other things"),
        ('{"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}], "annotations": []}', "duplicate ids"),
        ("{", "not valid JSON"),
    ],
)
def test_a_json_that_is_no_table(value: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "captions.json").write_text(value)
    with pytest.raises(UserError, match=said) as error:
        _source({"kind": "caption_table", "path": "captions.json"}, tmp_path)
    assert "\n" not in str(error.value)


def test_annotations_of_no_image_are_counted(photos: Path) -> None:
    images = [{"id": 1, "file_name": "small.png"}]
    notes = [{"image_id": 1, "caption": "a photo"}, {"image_id": 2, "caption": "of nothing"}]
    (photos / "coco.json").write_text(json.dumps({"images": images, "annotations": notes}))
    source = _source({"kind": "caption_table", "path": "coco.json"}, photos)
    index = write_corpus("own", source, photos / "out", max_skipped=0.5, splits=("train",))
    assert index["splits"]["train"]["samples"] == 1 and index["skipped"] == {"annotation of no image": 1}
