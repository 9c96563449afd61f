from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from data_samples import scenes, use_scenes, write_parquet
from open_clip import SimpleTokenizer

from mdc.records import UserError, sha256_file
from mdc.report.figures import figure3, figure3_job
from mdc.shards.texts_job import main as texts_main
from mdc.shards.texts_job import write_texts
from mdc.shards.writer import write_corpus

TEXT = "a photo of an old dog near two boats & the café, isn't 12,000 ½ antidisestablishmentarianism 日本 ."


def captions(count: int, longest: int = 90) -> list[str]:
    rng = random.Random(count)
    return [" ".join(rng.choices(TEXT.split(), k=rng.randint(1, longest))) for _ in range(count)]


def write_tsv(path: Path, texts: list[str]) -> dict[str, Any]:
    path.write_text("".join(f"{text}\thttp://x/{i}\n" for i, text in enumerate(texts)), encoding="utf-8")
    return {"kind": "caption_list", "path": path.name, "header": False, "caption_column": 0}


def config(out: Path, corpora: tuple[str, ...] = (), texts: tuple[str, ...] = ()) -> str:
    values: dict[str, Any] = {"job": "figure3", "verb": "caption-lengths", "scale": "s", "fingerprint": "f"}
    values |= {"scale_label": "a scale", "context_length": 77, "split": "train"}
    values |= {
        name: [{"key": key, "label": key.upper()} for key in keys]
        for name, keys in (("corpora", corpora), ("texts", texts))
    }
    out.mkdir(parents=True, exist_ok=True)
    path = out / "config.json"
    path.write_text(json.dumps(values))
    return str(path)


def job(out: Path, indexes: list[Path], corpora: tuple[str, ...] = (), texts: tuple[str, ...] = ()) -> Path:
    given = argparse.Namespace(
        config=config(out, corpora, texts), indexes=[str(path) for path in indexes], out=str(out)
    )
    figure3_job.main(given)
    return out


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_number_equals_a_count_with_open_clips_own_tokenizer(tmp_path: Path) -> None:
    texts = captions(301)
    index = write_texts("list", write_tsv(tmp_path / "list.tsv", texts), tmp_path / "list", tmp_path, 77)
    tokenizer = SimpleTokenizer(context_length=4000)
    lengths = [int((ids != 0).sum()) for ids in tokenizer(texts)]  # none of these captions has the piece 0 ('!')
    cut = [int((ids != 0).sum()) < length for ids, length in zip(tokenizer(texts, 77), lengths, strict=True)]
    assert 0 < sum(cut) < len(cut)
    job(tmp_path / "out", [tmp_path / "list" / "index.json"], texts=("list",))
    (told,) = rows(tmp_path / "out" / "figure3_summary.csv")
    assert (told["corpus"], told["label"], told["captions"], told["max"]) == ("list", "LIST", "301", str(max(lengths)))
    assert float(told["mean"]) == pytest.approx(statistics.mean(lengths), rel=1e-12)
    assert float(told["median"]) == statistics.median(lengths)
    assert float(told["truncated_share"]) == sum(cut) / 301 == index["captions"]["per_split"]["all"]["truncated_share"]
    each = rows(tmp_path / "out" / "figure3.csv")
    assert {int(row["tokens"]): int(row["captions"]) for row in each} == Counter(lengths)
    assert all(int(row["tokens"]) == int(row["pieces"]) + 2 for row in each)
    assert sum(float(row["share"]) for row in each) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("pieces", "cut"), [(75, False), (76, True)])
def test_75_pieces_fit_the_context_and_76_do_not(tmp_path: Path, pieces: int, cut: bool) -> None:
    texts = [" ".join(["dog"] * pieces)]
    index = write_texts("one", write_tsv(tmp_path / "one.tsv", texts), tmp_path / "one", tmp_path, 77)
    assert index["captions"]["per_split"]["all"]["histogram"] == {str(pieces): 1}
    lengths = figure3.Lengths.of_histogram("one", "One", {pieces: 1})
    assert lengths.truncated(77) == float(cut) == index["captions"]["per_split"]["all"]["truncated_share"]
    # open_clip itself: what it cuts loses its last piece before EOT
    assert (SimpleTokenizer()(texts)[0] != SimpleTokenizer(context_length=78)(texts)[0][:77]).any().item() == cut


def test_summaries_of_small_histograms() -> None:
    even = figure3.Lengths.of_histogram("k", "K", {1: 2, 4: 1, 9: 1, 12: 0})
    assert (even.count, even.mean, even.median, even.tokens.tolist()) == (4, (3 + 3 + 6 + 11) / 4, 4.5, [3, 6, 11])
    assert figure3.legend_text(even, 5) == "K: mean 5.8, median 4.5, truncated at 5: 50.0 % (n = 4)"
    assert [even.quantile(share) for share in (0.5, 0.51, 0.75, 1.0)] == [3, 6, 6, 11]
    assert [figure3.percent(share) for share in (0.0, 0.0004, 0.0005, 0.091)] == ["0.0 %", "< 0.1 %", "0.1 %", "9.1 %"]


def test_a_corpus_and_a_list_give_the_same_bytes_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_scenes(monkeypatch)
    corpus = write_corpus("alt", scenes(), tmp_path / "alt", tmp_path, samples_per_shard=10)
    write_texts("long", write_tsv(tmp_path / "l.tsv", captions(40)), tmp_path / "long", tmp_path, 77)
    indexes = [tmp_path / "long" / "index.json", tmp_path / "alt" / "index.json"]
    first = job(tmp_path / "a", indexes, ("alt",), ("long",))
    second = job(tmp_path / "b", indexes[::-1], ("alt",), ("long",))
    names = ["figure3.png", "figure3.svg", "figure3.pdf", "figure3.csv", "figure3_summary.csv", "figure3.json"]
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    made = json.loads((first / "figure3.json").read_text())
    assert made["inputs"] == {
        "data/corpora/alt/index.json": sha256_file(indexes[1]),
        "data/texts/long/index.json": sha256_file(indexes[0]),
    }
    assert made["outputs"] == {name: sha256_file(first / name) for name in names[:-1]}
    told = rows(first / "figure3_summary.csv")
    assert [row["corpus"] for row in told] == ["alt", "long"]
    of_training = corpus["captions"]["per_split"]["train"]  # and not of the validation split
    assert float(told[0]["mean"]) == pytest.approx(of_training["mean"] + 2, abs=1e-12)
    assert float(told[0]["median"]) == of_training["median"] + 2


def test_indexes_that_do_not_serve_are_one_line(tmp_path: Path) -> None:
    write_texts("long", write_tsv(tmp_path / "l.tsv", captions(3)), tmp_path / "long", tmp_path, 77)
    index = tmp_path / "long" / "index.json"
    with pytest.raises(UserError, match="no index of the corpus 'alt' was given; given: long"):
        job(tmp_path / "out", [index], corpora=("alt",))
    with pytest.raises(UserError, match="the texts 'long' stands twice"):
        job(tmp_path / "out", [index, index], texts=("long",))
    with pytest.raises(UserError, match="it names none"):
        job(tmp_path / "out", [])
    values = json.loads(index.read_text())
    for histogram, told in (({"x": 1}, "no caption lengths"), ({"4": -1}, "no whole number"), ({}, "has no caption")):
        values["captions"]["per_split"]["all"]["histogram"] = histogram
        index.write_text(json.dumps(values))
        with pytest.raises(UserError, match=told):
            job(tmp_path / "out", [index], texts=("long",))
    values["kind"] = "probe"
    index.write_text(json.dumps(values))
    with pytest.raises(UserError, match="neither a corpus nor a list"):
        job(tmp_path / "out", [index], texts=("long",))
    assert not list((tmp_path / "out").glob("figure3*"))  # nothing half-made


def coco(captions_of: dict[int, list[str]]) -> bytes:
    listed = [{"image_id": image, "id": i, "caption": c} for image, cs in captions_of.items() for i, c in enumerate(cs)]
    return json.dumps({"annotations": listed, "images": []}).encode()


def test_the_same_captions_count_alike_in_every_format(tmp_path: Path) -> None:
    by_image = {7: ["a dog", "two old boats near the quay"], 3: ["the cat"]}
    flat = [text for texts in by_image.values() for text in texts]
    (tmp_path / "c.json").write_bytes(coco(by_image))
    (tmp_path / "c.json.gz").write_bytes(gzip.compress(coco(by_image)))
    write_tsv(tmp_path / "c.tsv", flat)
    (tmp_path / "c.csv").write_text("url,text\n" + "".join(f'u,"{text}"\n' for text in flat))
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"caption": texts}) + "\n" for texts in by_image.values()))
    write_parquet(tmp_path / "c.parquet", {"captions": list(by_image.values()), "part": ["a", "b"]})
    sources: list[dict[str, Any]] = [
        {"path": "c.json"},
        {"path": "c.json.gz"},
        {"path": "c.tsv", "header": False, "caption_column": 0},
        {"path": "c.csv", "caption_column": "text"},
        {"path": "c.jsonl"},
        {"path": "c.parquet"},
        {"path": ".", "file": "c.tsv", "header": False, "caption_column": 0},
        {"path": ".", "format": "jsonl"},
    ]
    found = [write_texts("c", source, tmp_path / "out", tmp_path, 77)["captions"] for source in sources]
    assert found[0]["per_split"]["all"]["count"] == 3 and all(one == found[0] for one in found)
    joined = write_texts("c", {"path": "c.json", "caption_mode": "join"}, tmp_path / "out", tmp_path, 77)
    assert joined["captions"]["per_split"]["all"]["histogram"] == {"3": 1, "10": 1}  # each ended by a full stop
    part = write_texts("c", {"path": "c.parquet", "split_column": "part", "split": "b"}, tmp_path / "o", tmp_path, 77)
    assert part["captions"]["per_split"]["all"]["histogram"] == {"2": 1}


def test_a_list_is_found_in_its_data_sets_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cc" / "list").mkdir(parents=True)
    for name in ("b.tsv", "a.tsv"):
        write_tsv(tmp_path / "cc" / "list" / name, captions(5))
    (tmp_path / "cc" / "licence.txt").write_text("…")
    source = {"kind": "caption_list", "path": "cc", "header": False, "caption_column": 0}
    values = {"job": "data/texts/cc", "name": "cc", "source": source, "protocol": {"context_length": 77}}
    (tmp_path / "config.json").write_text(json.dumps(values))
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    for out in ("one", "two"):
        texts_main(argparse.Namespace(config=str(tmp_path / "config.json"), obtained=[], out=str(tmp_path / out)))
    for name in ("index.json", "made.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    index = json.loads((tmp_path / "one" / "index.json").read_text())
    assert index["captions"]["per_split"]["all"]["count"] == 10
    write_parquet(tmp_path / "cc" / "list" / "c.parquet", {"caption": ["x"]})
    with pytest.raises(UserError, match="lists of several formats"):
        write_texts("cc", source, tmp_path / "three", tmp_path, 77)


def test_bad_rows_are_counted_and_listed(tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text("a dog\tu\nno url\n \tu\na cat\tu\n")
    source = {"path": "c.tsv", "header": False, "caption_column": 0}
    index = write_texts("c", source, tmp_path / "out", tmp_path, 77)
    assert index["skipped"] == {"row has another number of columns": 1, "no caption": 1}
    assert index["captions"]["per_split"]["all"]["count"] == 2
    listed = [json.loads(line) for line in (tmp_path / "out" / "skipped.jsonl").read_text().splitlines()]
    assert [line["reason"] for line in listed] == ["row has another number of columns", "no caption"]
    (tmp_path / "c.tsv").write_text("a dog\tu\n")
    write_texts("c", source, tmp_path / "out", tmp_path, 77)
    assert not (tmp_path / "out" / "skipped.jsonl").exists()


@pytest.mark.parametrize(
    ("name", "content", "changes", "told"),
    [
        ("c.tsv", None, {}, "no such file or folder"),
        ("c.tsv", b"", {}, "has no caption"),
        ("c.txt", b"a\tb\n", {}, "tells no format; set source.format to one of"),
        ("c.txt", b"a\tb\n", {"format": "xml"}, "'xml' is unknown; allowed: csv, tsv"),
        ("c.tsv", b"a\tb\n", {}, "has no column 'caption'"),
        ("c.tsv", b"\xff\xfe\tb\n", {"header": False, "caption_column": 0}, "line 1: not UTF-8"),
        ("c.csv", b'caption\n"open\n', {}, "quotation"),
        ("c.tsv", b"caption\na\n", {"split": "train"}, "go together"),
        ("c.parquet", b"PAR1", {}, "not a readable parquet file"),
        ("c.json", b"{", {}, "not valid JSON"),
        ("c.json", b"[]", {}, "holds a JSON list"),
        ("c.json", b"{}", {}, "no list 'annotations'"),
        ("c.json", b'{"annotations": [{"caption": 3}]}', {}, "has no caption .*annotation without"),
        ("c.json.gz", gzip.compress(coco({1: ["a dog"]}), mtime=0)[:-9], {}, "cannot be read"),
    ],
)
def test_a_bad_list_is_one_line(
    tmp_path: Path, name: str, content: bytes | None, changes: dict[str, Any], told: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=told) as caught:
        write_texts("c", {"path": name, **changes}, tmp_path / "out", tmp_path, 77)
    assert "\n" not in str(caught.value) and not (tmp_path / "out" / "index.json").exists()


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdc.sources.caption_list._LARGEST_JSON", 1000)
    (tmp_path / "c.json.gz").write_bytes(gzip.compress(b" " * 100_000 + b"{}"))
    with pytest.raises(UserError, match="more than 1000 bytes of JSON"):
        write_texts("c", {"path": "c.json.gz"}, tmp_path / "out", tmp_path, 77)
