import importlib
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_samples import encoded, iter_corpus, iter_probe, probe_of, write_parquet
from PIL import Image

from mdc.data.formats.captions import clean_captions
from mdc.data.formats.samples import Skipped
from mdc.data.sources.probes import caption_nouns
from mdc.models.text import clip_pieces
from mdc.plan.config.kinds.known import CHOICES, CORPORA, PROBES
from mdc.plan.config.kinds.sources import CaptionList
from mdc.plan.fingerprint import closure
from mdc.plan.records import UserError

NOWHERE = Path("nowhere")


def captioned(path: Path, **columns: list) -> Path:
    rows = len(next(iter(columns.values()))) if columns else 9
    base = {
        "image": [encoded(i, kind="JPEG" if i % 2 else "PNG") for i in range(rows)],
        "captions": [[f"First {i} .", f"a second  {i}"] for i in range(rows)],
        "split": [("train", "dev", "test")[i % 3] for i in range(rows)],
    }
    return write_parquet(path, base | columns)


def test_digits_are_scikit_learns_and_the_split_is_fixed_and_stratified() -> None:
    from sklearn.datasets import load_digits

    data = load_digits()
    source = {"kind": "digits", "seed": 0}
    splits = {split: list(iter_probe(source, split, NOWHERE)) for split in ("train", "test")}
    assert {split: len(samples) for split, samples in splits.items()} == {"train": 1200, "test": 597}
    assert sorted(int(s.key) for samples in splits.values() for s in samples) == list(range(1797))
    for samples in splits.values():
        shares = np.bincount([s.label for s in samples], minlength=10) / len(samples)
        assert np.abs(shares - np.bincount(data.target) / 1797).max() < 0.002
        for sample in samples[::97]:
            pixels = np.asarray(Image.open(io.BytesIO(sample.image)))
            assert pixels.shape == (32, 32) and sample.label == data.target[int(sample.key)]
            np.testing.assert_array_equal(np.rint(pixels[::4, ::4] * (16 / 255)), data.images[int(sample.key)])
            np.testing.assert_array_equal(pixels, np.kron(pixels[::4, ::4], np.ones((4, 4), dtype=np.uint8)))
    assert [s.key for s in iter_probe(source, "test", NOWHERE)] == [s.key for s in splits["test"]]
    other = iter_probe({"kind": "digits", "seed": 1}, "test", NOWHERE)
    assert [s.key for s in other] != [s.key for s in splits["test"]]


def test_parquet_splits_columns_and_keys(tmp_path: Path) -> None:
    captioned(tmp_path / "a.parquet", image_id=[f"x/{i}.jpg" for i in range(9)])
    source = {"kind": "parquet", "path": "a.parquet", "splits": {"val": "dev"}}
    found = list(iter_corpus(source, "val", tmp_path))
    assert [sample.key for sample in found] == ["00000000", "00000001", "00000002"]
    assert [sample.captions for sample in found] == [(f"First {i} .", f"a second {i}") for i in (1, 4, 7)]
    assert [sample.image for sample in found] == [encoded(i, kind="JPEG" if i % 2 else "PNG") for i in (1, 4, 7)]
    assert [sample.extension for sample in found] == ["jpg", "png", "jpg"]
    keyed = list(iter_corpus(source | {"key_column": "image_id"}, "train", tmp_path))
    assert [sample.key for sample in keyed] == ["x_0_jpg", "x_3_jpg", "x_6_jpg"]
    assert not list(iter_corpus(source | {"path": str(tmp_path / "a.parquet")}, "none", tmp_path))


def test_a_folder_is_read_in_sorted_order_and_hugging_face_structs_are_understood(tmp_path: Path) -> None:
    for number in (2, 0, 1):
        struct = [{"bytes": encoded(10 * number + i), "path": None} for i in range(3)]
        columns = {"image": struct, "caption": [f"c {number} {i}" for i in range(3)]}
        write_parquet(tmp_path / "set" / "data" / f"train-0000{number}-of-00003.parquet", columns)
    columns = {"image": [encoded(99)], "caption": ["held out"]}
    write_parquet(tmp_path / "set" / "data" / "validation-00000-of-00001.parquet", columns)
    source = {"kind": "parquet", "path": "set", "split_column": None, "splits": {"val": "validation"}}
    train = list(iter_corpus(source, "train", tmp_path))
    assert [sample.captions for sample in train] == [(f"c {n} {i}",) for n in range(3) for i in range(3)]
    assert train[4].image == encoded(11) and [sample.key for sample in train] == [f"{i:08d}" for i in range(9)]
    assert [sample.captions for sample in iter_corpus(source, "val", tmp_path)] == [("held out",)]
    for path in (tmp_path / "set" / "data").glob("*"):
        path.rename(path.with_name("part" + path.name.partition("-")[2]))
    assert len(list(iter_corpus(source, "train", tmp_path))) == 10
    assert not list(iter_corpus(source, "val", tmp_path))


def test_bad_samples_are_counted_and_keys_still_name_rows(tmp_path: Path) -> None:
    images = [encoded(0), b"not an image", None, encoded(3)[:-40], encoded(4), encoded(5)]
    captions = [["a"], ["b"], ["c"], ["d"], ["  ", None, "\x00"], [" e "]]
    captioned(tmp_path / "a.parquet", image=images, captions=captions, split=["train"] * 6)
    skipped = Skipped()
    found = list(iter_corpus({"kind": "parquet", "path": "a.parquet"}, "train", tmp_path, skipped))
    assert [(sample.key, sample.captions) for sample in found] == [("00000000", ("a",)), ("00000005", ("e",))]
    assert skipped.counts == {"no image": 1, "image cannot be decoded": 2, "no caption": 1}


def test_bad_files_are_user_errors(tmp_path: Path) -> None:
    source = {"kind": "parquet", "path": "a.parquet"}
    with pytest.raises(UserError, match="MDC_DATA"):
        list(iter_corpus(source, "train", tmp_path))
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(UserError, match=r"a\.parquet.*not a readable parquet"):
        list(iter_corpus(source, "train", tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no \.parquet"):
        list(iter_corpus(source | {"path": "empty"}, "train", tmp_path))


def test_caption_modes() -> None:
    captions = ["A  dog runs .", "", "two", "so what ?"]
    assert clean_captions(captions) == ("A dog runs .", "two", "so what ?")
    assert clean_captions(captions, "join") == ("A dog runs . two . so what ?",)
    assert clean_captions(["", " "], "join") == ()


@pytest.mark.parametrize("most", [1, 2, 6])
def test_cut_keeps_the_longest_run_of_whole_words(most: int) -> None:
    captions = ["a child in a pink dress is climbing up a set of stairs", "antidisestablishmentarianism", "short"]
    captions.append("naïve café's \U0001f408\U0001f408 ok")
    for before, after in zip(captions, clean_captions(captions, "cut", most), strict=True):
        pieces = clip_pieces(after)
        assert 1 <= len(pieces) <= most
        runs = [" ".join(before.split()[:end]) for end in range(1, len(before.split()) + 1)]
        fitting = [run for run in runs if len(clip_pieces(run)) <= most]
        if fitting:
            assert after == fitting[-1]
        else:
            assert clip_pieces(before)[: len(pieces) - 1] == pieces[:-1]


def test_integer_and_text_labels(tmp_path: Path) -> None:
    columns = {"image": [encoded(i) for i in range(4)], "split": ["train", "train", "test", "test"]}
    columns |= {"label": [2, 0, 1, 0], "word": ["cat", "ant", "bee", "ant"]}
    write_parquet(tmp_path / "p.parquet", columns)
    source = {"kind": "parquet", "path": "p.parquet"}
    for of_column in ({}, {"label_column": "word"}):
        found = [[s.label for s in iter_probe(source | of_column, split, tmp_path)] for split in ("train", "test")]
        assert found == [[2, 0], [1, 0]]
    assert probe_of(source, tmp_path).classes == ["0", "1", "2"]
    assert probe_of(source | {"class_name_column": "word"}, tmp_path).classes == ["ant", "bee", "cat"]
    assert probe_of(source | {"label_column": "word"}, tmp_path).classes == ["ant", "bee", "cat"]
    write_parquet(tmp_path / "p.parquet", columns | {"word": ["cat", "ant", "bee", "bee"]})
    with pytest.raises(UserError, match="label 0 has several names"):
        probe_of(source | {"class_name_column": "word"}, tmp_path)


@pytest.mark.parametrize(("labels", "classes"), [([0, 1, -1], ["0", "1"]), (["cat", "dog", "eel"], ["cat", "dog"])])
def test_labels_of_other_splits_are_no_classes(tmp_path: Path, labels: list, classes: list[str]) -> None:
    columns = {"image": [encoded(i) for i in range(3)], "label": labels, "split": ["train", "test", "val"]}
    write_parquet(tmp_path / "p.parquet", columns)
    source = {"kind": "parquet", "path": "p.parquet"}
    assert probe_of(source, tmp_path).classes == classes
    assert [s.label for split in ("train", "test") for s in iter_probe(source, split, tmp_path)] == [0, 1]


def test_hugging_face_class_names_are_read_from_the_schema(tmp_path: Path) -> None:
    features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    table = pa.table({"image": [encoded(0)], "label": [1]})
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "p.parquet")
    assert probe_of({"kind": "parquet", "path": "p.parquet", "split_column": None}, tmp_path).classes == ["cat", "dog"]


SENTENCES = [
    ["A big {0} is near two {1} .", "The {0} jumps over a small {2} .", "a black {2} in the {1}"],
    ["two big {1} and a {0}", "A {0} sits by the black {2} , running .", "the small {1} is on a {0}"],
]


def test_nouns_are_found_by_their_places() -> None:
    images = [
        [sentence.format("dog", "boats", "house") for sentence in sentences]
        + [sentence.format("woman", "dogs", "boat") for sentence in sentences]
        + [sentence.format("wug", "women", "wugs") for sentence in sentences]
        for sentences in SENTENCES * 10
    ]
    found = caption_nouns.commonest_nouns(images, 10)
    forms = ("boat boats", "dog dogs", "house", "woman women", "wug wugs")
    assert found == {words.split()[0]: tuple(words.split()) for words in forms}
    assert list(caption_nouns.commonest_nouns(images, 2)) == ["boat", "dog"]
    assert caption_nouns.presence(["Two women.", "a house"], found) == [0, 0, 1, 1, 0]
    assert caption_nouns.presence(["housewomen boating"], found) == [0] * 5


def test_caption_nouns_count_on_train_only_and_label_dev_and_test(tmp_path: Path) -> None:
    fillers = [("dog", "boats", "house"), ("house", "dogs", "boat")]
    train = [[s.format(*fillers[i // 2 % 2]) for s in SENTENCES[i % 2]] for i in range(12)]
    held_out = [["a wug and a dog"], ["the boat"], ["nothing"], [s.format("wug", "wugs", "wug") for s in SENTENCES[0]]]
    split = ["train"] * 12 + ["dev", "dev", "test", "test"]
    captioned(tmp_path / "f.parquet", image=[encoded(i) for i in range(16)], captions=train + held_out, split=split)
    source = {"kind": "caption_nouns", "path": "f.parquet", "count": 60}
    assert probe_of(source, tmp_path).classes == ["boat", "dog", "house"]
    assert probe_of(source, tmp_path).task == "multi"
    assert [s.labels for s in iter_probe(source, "train", tmp_path)] == [(0, 1, 0), (1, 0, 0)]
    assert [s.labels for s in iter_probe(source, "test", tmp_path)] == [(0, 0, 0), (0, 0, 0)]
    # the split that the nouns are counted in may train, too, in any order of the keys
    same = source | {"splits": {"test": "test", "train": "train", "vocabulary": "train"}}
    assert probe_of(same, tmp_path).classes == ["boat", "dog", "house"]
    assert [s.labels for s in iter_probe(same, "train", tmp_path)] == [(1, 1, 1)] * 12


def test_a_kind_is_made_anew_by_what_it_runs_alone() -> None:
    """The writers know no kind, and a kind no other that it is not built on."""
    named = {f"mdc.data.sources.{name}" for name in ("source", "cleaned")}
    writers = ("corpus_job", "probe_set_job", "choice_set_job", "texts_job")
    for module in writers:
        found = set(closure(f"mdc.data.shards.{module}"))
        assert {name for name in found if name.startswith("mdc.data.sources.")} <= named
        assert not found & {f"mdc.data.shards.{name}" for name in writers if name != module}
    assert not [name for name in closure("mdc.data.shards.writer") if name.startswith("mdc.data.sources.")]
    assert "mdc.data.shards.caption_statistics" not in closure("mdc.data.shards.probe_set_job")
    kinds = {one.module for which in (CORPORA, PROBES, CHOICES) for one in which.values()} | {CaptionList.module}
    built_on = {
        # a mirror's tars and parquet files
        "mdc.data.sources.corpora.pairs": {f"mdc.data.sources.corpora.{name}" for name in ("webdataset", "parquet")},
        "mdc.data.sources.probes.builder": {"mdc.data.sources.probes.class_folder"},  # ImageNet
        "mdc.data.sources.choices.caption_order": {"mdc.data.sources.corpora.karpathy"},
    }
    for module in kinds:
        assert callable(importlib.import_module(module).open_source)
        assert (set(closure(module)) - named) & kinds == {module} | built_on.get(module, set())
    styles = {"mdc.data.scenes.captions", "mdc.data.scenes.language"}
    assert styles <= set(closure("mdc.data.sources.corpora.scenes"))
    assert not styles & set(closure("mdc.data.sources.probes.scenes"))
