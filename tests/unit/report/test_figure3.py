import gzip
import json
import random
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from data_samples import write_parquet, write_texts
from open_clip import SimpleTokenizer
from shown import make, read_rows, shown_job, write_made

from mdc.data.shards.texts_job import main as texts_main
from mdc.plan.config.read import load
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.read import as_job
from mdc.plan.records import UserError
from mdc.report.figures import figure3

ROOT = Path(__file__).resolve().parents[3]
TEXT = "a photo of an old dog near two boats & the café, isn't 12,000 ½ antidisestablishmentarianism 日本 ."


def captions(count: int, longest: int = 90) -> list[str]:
    rng = random.Random(count)
    return [" ".join(rng.choices(TEXT.split(), k=rng.randint(1, longest))) for _ in range(count)]


def write_tsv(path: Path, texts: list[str]) -> dict[str, Any]:
    path.write_text("".join(f"{text}\thttp://x/{i}\n" for i, text in enumerate(texts)), encoding="utf-8")
    return {"kind": "caption_list", "path": path.name, "header": False, "caption_column": 0}


def job(out: Path, given: dict[str, Path], *sets: str) -> Path:
    """The figure of ``sets``, jobs' names, in ``out``."""
    named = [(name, name.rpartition("/")[2], "train" if "corpora" in name else "all") for name in sets]
    for name in sets:
        write_made(given[name], name)
    asked = [{"job": name, "key": key, "label": key.upper(), "split": split} for name, key, split in named]
    return make(shown_job("figure3", sets, context_length=77, sets=asked), given, out)


def test_every_number_equals_a_count_with_open_clips_own_tokenizer(tmp_path: Path) -> None:
    texts = captions(301)
    index = write_texts("list", write_tsv(tmp_path / "list.tsv", texts), tmp_path / "list", tmp_path, 77)
    tokenizer = SimpleTokenizer(context_length=4000)
    lengths = [int((ids != 0).sum()) for ids in tokenizer(texts)]  # none of these captions has the piece 0 ('!')
    cut = [int((ids != 0).sum()) < length for ids, length in zip(tokenizer(texts, 77), lengths, strict=True)]
    assert 0 < sum(cut) < len(cut)
    job(tmp_path / "out", {"data/texts/list": tmp_path / "list" / "index.json"}, "data/texts/list")
    (told,) = read_rows(tmp_path / "out" / "figure3_summary.csv")
    assert (told["corpus"], told["label"], told["captions"], told["max"]) == ("list", "LIST", "301", str(max(lengths)))
    assert float(told["mean"]) == pytest.approx(statistics.mean(lengths), rel=1e-5)
    assert float(told["median"]) == statistics.median(lengths)
    assert float(told["truncated_share"]) == pytest.approx(sum(cut) / 301, rel=1e-5)
    assert sum(cut) / 301 == index["captions"]["per_split"]["all"]["truncated_share"]
    each = read_rows(tmp_path / "out" / "figure3.csv")
    assert {int(row["tokens"]): int(row["captions"]) for row in each} == Counter(lengths)
    assert all(int(row["tokens"]) == int(row["bpe_tokens"]) + 2 for row in each)
    assert sum(float(row["share"]) for row in each) == pytest.approx(1, abs=1e-4)
    # of a corpus the training split is shown
    index["captions"]["per_split"] = {"val": {"histogram": {"1": 9}}, "train": index["captions"]["per_split"]["all"]}
    (tmp_path / "index.json").write_text(json.dumps(index))
    job(tmp_path / "again", {"data/corpora/list": tmp_path / "index.json"}, "data/corpora/list")
    assert read_rows(tmp_path / "again/figure3_summary.csv") == [told | {"record": "data/corpora/list"}]


def lengths_of(histogram: dict[int, int]) -> figure3.Lengths:
    one = {"key": "k", "label": "K", "job": "data/texts/k", "split": "all"}
    told = {str(pieces): count for pieces, count in histogram.items()}
    index = {"kind": "texts", "name": "k", "captions": {"per_split": {"all": {"histogram": told}}}}
    return figure3.Lengths.of(one, index, Path("index.json"))


@pytest.mark.parametrize(("pieces", "cut"), [(75, False), (76, True)])
def test_75_pieces_fit_the_context_and_76_do_not(tmp_path: Path, pieces: int, cut: bool) -> None:
    texts = [" ".join(["dog"] * pieces)]
    index = write_texts("one", write_tsv(tmp_path / "one.tsv", texts), tmp_path / "one", tmp_path, 77)
    assert index["captions"]["per_split"]["all"]["histogram"] == {str(pieces): 1}
    lengths = lengths_of({pieces: 1})
    assert lengths.truncated(77) == float(cut) == index["captions"]["per_split"]["all"]["truncated_share"]
    # open_clip itself: what it cuts loses its last piece before EOT
    assert (SimpleTokenizer()(texts)[0] != SimpleTokenizer(context_length=78)(texts)[0][:77]).any().item() == cut


def test_summaries_of_small_histograms() -> None:
    even = lengths_of({1: 2, 4: 1, 9: 1, 12: 0})
    assert (even.count, even.mean, even.median, even.tokens) == (4, (3 + 3 + 6 + 11) / 4, 4.5, [3, 6, 11])
    assert even.legend_text(5) == "K: mean 5.8, median 4.5, truncated at 5: 50.0 % (n = 4)"
    assert [even.quantile(share) for share in (0.5, 0.51, 0.75, 1.0)] == [3, 6, 6, 11]
    assert [figure3.percent(share) for share in (0.0, 0.0004, 0.0005, 0.091)] == ["0.0 %", "< 0.1 %", "0.1 %", "9.1 %"]


def test_indexes_that_do_not_serve_are_one_line(tmp_path: Path) -> None:
    write_texts("long", write_tsv(tmp_path / "l.tsv", captions(3)), tmp_path / "long", tmp_path, 77)
    index = tmp_path / "long" / "index.json"
    given = {"data/texts/long": index}
    values = json.loads(index.read_text())
    for histogram, told in (({"x": 1}, "no caption lengths"), ({"4": -1}, "no whole number"), ({}, "has no caption")):
        values["captions"]["per_split"]["all"]["histogram"] = histogram
        index.write_text(json.dumps(values))
        with pytest.raises(UserError, match=told):
            job(tmp_path / "out", given, "data/texts/long")
    for name, message in (
        ("data/texts/long", "sha256 differs"),
        ("data/texts/other", "is no record of data/texts/other"),
    ):
        asked = shown_job(
            "figure3", [name], context_length=77, sets=[{"job": name, "key": "k", "label": "K", "split": "all"}]
        )
        index.write_text("{}")
        with pytest.raises(UserError, match=message):
            make(asked, {name: index}, tmp_path / "out")
    assert not (tmp_path / "out").exists()  # nothing half-made


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
        {"path": "c.parquet", "caption_column": "captions"},
        {"path": ".", "file": "c.tsv", "header": False, "caption_column": 0},
        {"path": ".", "format": "jsonl"},
    ]
    found = [write_texts("c", source, tmp_path / "out", tmp_path, 77)["captions"] for source in sources]
    assert found[0]["per_split"]["all"]["count"] == 3 and all(one == found[0] for one in found)
    joined = write_texts("c", {"path": "c.json", "caption_mode": "join"}, tmp_path / "out", tmp_path, 77)
    assert joined["captions"]["per_split"]["all"]["histogram"] == {"3": 1, "10": 1}  # each ended by a full stop
    half = {"path": "c.parquet", "caption_column": "captions", "split_column": "part", "split": "b"}
    part = write_texts("c", half, tmp_path / "o", tmp_path, 77)
    assert part["captions"]["per_split"]["all"]["histogram"] == {"2": 1}


def test_a_list_is_found_in_its_data_sets_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cc" / "list").mkdir(parents=True)
    for name in ("b.tsv", "a.tsv"):
        write_tsv(tmp_path / "cc" / "list" / name, captions(5))
    (tmp_path / "cc" / "licence.txt").write_text("…")
    (tmp_path / "cc" / "list" / "._a.tsv").write_bytes(b"\0\5\x16\7Mac OS X")
    source = {"kind": "caption_list", "path": "cc", "header": False, "caption_column": 0}
    protocol = load(ROOT / "params.yaml").protocol.data.model_dump(mode="json")
    config = {"job": "data/texts/cc", "verb": "texts", "scale": "s", "fingerprint": "f", "inputs": [], "name": "cc"}
    texts = as_job({**config, "source": source, "protocol": protocol}, "texts", "a test")
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    for out in ("one", "two"):
        texts_main(Call(texts, ScaleFolder(tmp_path), tmp_path / out))
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


BAD_LISTS: list[tuple[str, bytes | None, dict[str, Any], str]] = [
    ("c.tsv", None, {}, "no such file or folder"),
    ("c.tsv", b"", {}, "has no caption"),
    ("c.txt", b"a\tb\n", {}, "unknown file extension; allowed: .*or set source.format"),
    ("c.tsv", b"a\tb\n", {}, "has no column 'caption'"),
    ("c.tsv", b"\xff\xfe\tb\n", {"header": False, "caption_column": 0}, "line 1: not UTF-8"),
    ("c.csv", b'caption\n"open\n', {}, "unclosed quote"),
    ("c.parquet", b"PAR1", {}, "not a readable parquet file"),
    ("c.json", b"{", {}, "not valid JSON"),
    ("c.json", b"[]", {}, "it is no object with a list .annotations."),
    ("c.json", b"{}", {}, "it is no object with a list .annotations."),
    ("c.json", b'{"annotations": [{"caption": 3}]}', {}, "has no caption .*annotation without"),
    ("c.json.gz", gzip.compress(coco({1: ["a dog"]}), mtime=0)[:-9], {}, "cannot be read"),
]


def test_a_bad_list_is_one_line(tmp_path: Path) -> None:
    for name, content, changes, told in BAD_LISTS:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=told) as caught:
            write_texts("c", {"path": name, **changes}, tmp_path / "out", tmp_path, 77)
        assert "\n" not in str(caught.value) and not (tmp_path / "out" / "index.json").exists()


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdc.data.formats.gzipped._LARGEST_JSON", 1000)
    (tmp_path / "c.json.gz").write_bytes(gzip.compress(b" " * 100_000 + b"{}"))
    with pytest.raises(UserError, match="more than 1000 bytes of JSON"):
        write_texts("c", {"path": "c.json.gz"}, tmp_path / "out", tmp_path, 77)
