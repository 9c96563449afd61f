"""Captions that are empty, missing, no text, far too long, or full of control characters; tables that are broken."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from bad_input import WRONG, corpus_config, downloaded, tar_of, told
from data_samples import encoded, iter_corpus, write_parquet
from hypothesis import given, settings
from hypothesis import strategies as st

from mdc.data.formats.captions import MAX_CHARACTERS, clean_caption, clean_captions
from mdc.data.formats.folders import read_named
from mdc.data.formats.samples import LeftOut, Skipped, texts_of
from mdc.models.text import Vocabulary, clip_pieces
from mdc.plan.records import UserError


def parquet(folder: Path, captions: Any) -> dict[str, Any]:
    columns = {"image": [encoded(i) for i in range(len(captions))], "caption": captions}
    write_parquet(folder / "c.parquet", {**columns, "split": ["train"] * len(captions)})
    return {"kind": "parquet", "path": "c.parquet"}


def read(source: dict[str, Any], folder: Path) -> tuple[list[tuple[str, ...]], dict[str, int]]:
    skipped = Skipped()
    return [sample.captions for sample in iter_corpus(source, "train", folder, skipped)], dict(skipped.counts)


def test_empty_and_missing_captions(tmp_path: Path) -> None:
    found = read(parquet(tmp_path, ["a dog", "", None, " \t\n ", "\x00\x01", "<end_of_text>", "!"]), tmp_path)
    assert found == ([("a dog",), ("!",)], {"no caption": 5})
    lists = [["a", None, ""], [], None, ["", None], ["b", "c"]]
    assert read(parquet(tmp_path, lists), tmp_path) == ([("a",), ("b", "c")], {"no caption": 3})


@pytest.mark.parametrize("value", [None, 3, 2.5, True, b"bytes", {"en": "a"}, [["nested"]], [1, None, {"a": "b"}]])
def test_values_that_are_no_text_are_no_caption(value: Any) -> None:
    assert not any(texts_of(value))


def test_captions_that_are_no_text_in_json_lines_and_in_a_shards_json(tmp_path: Path) -> None:
    values = [None, 3, {"en": "a"}, [["x"]], ["a", 1], "b"]
    (tmp_path / "c.jsonl").write_text(
        "\n".join(json.dumps({"image": f"{i}.png", "caption": v}) for i, v in enumerate(values))
    )
    for i in range(len(values)):
        (tmp_path / f"{i}.png").write_bytes(encoded(i))
    expected = ([("a",), ("b",)], {"no caption": 4})
    assert read({"kind": "caption_table", "path": "c.jsonl"}, tmp_path) == expected
    records = [json.dumps({"long": value}).encode() for value in values] + [b"no json", b"[1]"]
    members = [(f"{i}.{end}", data) for i, r in enumerate(records) for end, data in (("jpg", encoded(i)), ("json", r))]
    (tmp_path / "s.tar").write_bytes(tar_of(members))
    source = {"kind": "webdataset", "path": "s.tar", "caption_field": "long"}
    assert read(source, tmp_path) == (expected[0], {"no caption": 6})


LONG = {
    "words": "a small dog runs " * 600,
    "one word": "x" * 10_000,
    "a word of random letters": "".join(chr(97 + (i * i * 7 + i // 3) % 26) for i in range(10_000)),
    "marks": "!?#" * 3_400,
    "emoji": "\U0001f408" * 10_000,
    "entities": "&amp;" * 2_000,
    "a megabyte": "qwertzuiop" * 100_000,
    "a megabyte of spaces": " " * 1_000_000 + "end",
    "a megabyte of mojibake": "Ã©" * 500_000,
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("mode", ["each", "cut"])
def test_captions_of_10000_characters_are_kept_and_cut_by_the_context_in_no_time(name: str, mode: str) -> None:
    began = time.process_time()
    cleaned = clean_captions([LONG[name]], mode, 20 if mode == "cut" else None)
    ids = [Vocabulary.full().encode(caption) for caption in cleaned]
    assert time.process_time() - began < 3
    if name != "a megabyte of spaces":
        assert len(cleaned) == 1 and len(ids[0]) == (77 if mode == "each" else len(clip_pieces(cleaned[0])) + 2)
        assert len(LONG[name]) > MAX_CHARACTERS or mode == "cut" or cleaned[0] == LONG[name].strip()


def test_nul_and_control_characters_go_and_the_words_stay(tmp_path: Path) -> None:
    assert clean_caption("a\x00 b\x07c\x7f\x1b d\te\r\nf\x0cg") == "a bc d e f g"
    assert clean_caption("half \ud83d a pair") == "half ? a pair"
    source = parquet(tmp_path, ["a \x00\x01 small\x00 dog \x1b"])
    assert read(source, tmp_path)[0] == [("a small dog",)]
    assert clip_pieces("a \x00\x01 small\x00 dog \x1b") == clip_pieces("a small dog")


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(st.characters(), max_size=60))
def test_cleaning_is_stable_and_changes_no_piece(caption: str) -> None:
    cleaned = clean_caption(caption)
    assert clean_caption(cleaned) == cleaned == cleaned.strip()
    cleaned.encode("utf-8")
    if caption.isprintable():
        assert clip_pieces(cleaned) == clip_pieces(caption)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.text(max_size=40), max_size=3), st.integers(1, 8))
def test_cutting_leaves_no_empty_caption(captions: list[str], most: int) -> None:
    assert all(1 <= len(clip_pieces(text)) <= most for text in clean_captions(captions, "cut", most))


# --- tables ----------------------------------------------------------------------------------------------------------


def table_folder(tmp_path: Path, text: str | bytes, name: str = "t.csv") -> dict[str, Any]:
    folder = tmp_path / "images"
    folder.mkdir()
    (tmp_path / "outside.png").write_bytes(encoded(8))
    for number in (0, 1):
        (folder / f"{number}.png").write_bytes(encoded(number))
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return {"kind": "caption_table", "path": f"images/{name}"}


@pytest.mark.parametrize("name", WRONG["rows"])
def test_a_bad_row_is_left_out_for_its_reason(tmp_path: Path, name: str) -> None:
    row, reason = WRONG["rows"][name]
    source = table_folder(tmp_path, "image,caption\n" + row + "\n1.png,a cat\n")
    assert read(source, tmp_path) == ([("a cat",)], {reason: 1})


def test_a_link_out_of_the_folder_is_followed_in_a_persons_own_data_alone(tmp_path: Path) -> None:
    source = table_folder(tmp_path, "image,caption\nlink.png,a dog\n1.png,a cat\n")
    (tmp_path / "images/link.png").symlink_to(tmp_path / "outside.png")
    assert read(source, tmp_path) == ([("a dog",), ("a cat",)], {})
    with pytest.raises(LeftOut, match="outside the folder"):  # as the sources of published datasets read it
        read_named((tmp_path / "images").resolve(), "link.png")


def test_json_lines_that_are_no_objects_are_left_out(tmp_path: Path) -> None:
    lines = ["[1]", "3", '"text"', '{"image": "0.png", "caption": "cut sho', "[" * 100_000, '{"image": 3}', "{}", ""]
    source = table_folder(tmp_path, "\n".join([*lines, '{"image": "1.png", "caption": "a cat"}']), "t.jsonl")
    assert read(source, tmp_path) == ([("a cat",)], {"row is no JSON object": 5, "row names no image": 2})


FILES = {
    "latin-1": ("image,caption\n1.png,ok\n0.png,caf\xe9\n".encode("latin-1"), "line 3: not UTF-8"),
    "UTF-16": ("image,caption\n0.png,a\n".encode("utf-16"), "line 1: not UTF-8"),
    "no such column": (b"file,caption\n0.png,a\n", "has no column 'image'; it has file, caption"),
    "a column twice": (b"image,caption,image\n0.png,a,b\n", "duplicate column 'image'"),
    "an open quotation": (b'image,caption\n0.png,"a dog\n1.png,b\n', "line 3: unexpected end of data"),
    "a giant field": (b"image,caption\n0.png," + b"a" * 2_000_000, "line 2: field larger than field limit"),
    "a giant line": (b"\0" * 17_000_000, "line 1: longer than"),
    "an image in two splits": (b"image,caption,s\n0.png,a,train\n0.png,b,val\n", "line 3: '0.png' is in split val"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_table_stops_with_its_line(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, said = FILES[name]
    source = table_folder(tmp_path, text)
    source["path"] = str(tmp_path / source["path"])
    source |= {"split_column": "s"} if name == "an image in two splits" else {}
    config = corpus_config(tmp_path / "config.json", source)
    line = told(["corpus", config, "--out", str(tmp_path / "out")], capsys)
    assert "t.csv" in line and said in line, line
    assert not list((tmp_path / "out").glob("*")), "nothing half-written"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"path": "none.csv"}, "MDC_DATA"),
        ({"images": "none"}, "no such folder"),
        ({"path": "images/t.text"}, "set source.format"),
        ({"caption_column": ["caption", "more"]}, "no column 'more'"),
        ({"key_column": "id"}, "no column 'id'"),
    ],
    ids=str,
)
def test_bad_settings_of_a_table(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    source = table_folder(tmp_path, "image,caption\n0.png,a\n")
    (tmp_path / "images/t.text").write_text("image,caption\n0.png,a\n")
    with pytest.raises(UserError, match=said):
        read({**source, **changes}, tmp_path)


def test_a_shard_of_texts_that_are_no_utf_8(tmp_path: Path) -> None:
    (tmp_path / "s.tar").write_bytes(tar_of(downloaded(["a"], txt=b"caf\xe9 \x00 au lait")))
    assert read({"kind": "webdataset", "path": "s.tar"}, tmp_path)[0] == [("caf\ufffd au lait",)]
