"""Lists of URLs: read in every format, in batches as row by row."""

import gzip
import json
import random
import re
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from read_table import read_table

from mdc.data.obtain.reasons import Failure
from mdc.data.obtain.transfers.web_url import web_url
from mdc.data.obtain.url_list import Columns, good_rows, list_files
from mdc.data.obtain.urls import obtain
from mdc.plan.records import UserError
from mdc.plan.registry.datasets import REGISTRY

HARD = ['say "hi"', "two  spaces", "emoji 🦆", "comma, semicolon; 'x'", "x" * 10_000]
URLS = [f"http://a.example/{n}.jpg" for n in range(len(HARD))]


def read(path: Path, columns: Columns) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """The good rows in the list's order, as (row, key, url, caption); the others by reason, and all under ""."""
    counts: Counter[str] = Counter()
    found: list[tuple[Any, ...]] = []
    for file in list_files(path, columns):
        for _, url, caption, key, sha256, row in chain.from_iterable(good_rows(file, columns, counts, seed=0)):
            found.append((row, key, url, caption))
            assert sha256 in ("", "ab" * 32)
    return sorted(found), dict(counts)


def test_formats_say_the_same(tmp_path: Path) -> None:
    named = Columns("url", "caption", header=True)
    quoted = ['"' + caption.replace('"', '""') + '"' for caption in HARD]
    (tmp_path / "a.tsv").write_text("".join(f"{c}\t{u}\n" for c, u in zip(HARD, URLS, strict=True)))
    (tmp_path / "b.csv").write_text(
        "url,caption\r\n" + "".join(f"{u},{c}\r\n" for u, c in zip(URLS, quoted, strict=True))
    )
    lines = [json.dumps({"caption": c, "more": [1], "url": u}) for c, u in zip(HARD, URLS, strict=True)]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    pq.write_table(pa.table({"caption": HARD, "x": [1] * 5, "url": URLS}), tmp_path / "d.parquet", row_group_size=2)
    wanted = [(n, "", u, c) for n, (c, u) in enumerate(zip(HARD, URLS, strict=True))], {"": 5}
    assert read(tmp_path / "a.tsv", Columns(1, 0, header=False)) == wanted
    (tmp_path / "zip").mkdir()
    (tmp_path / "zip" / "e.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    for name in ("b.csv", "c.jsonl", "d.parquet", "zip/e.jsonl.gz", "zip"):
        assert read(tmp_path / name, named) == wanted
    whole = (tmp_path / "zip" / "e.jsonl.gz").read_bytes()
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[:-20])
    with pytest.raises(UserError, match=r"cut\.jsonl\.gz: cannot be read"):
        read(tmp_path / "cut.jsonl.gz", named)


def test_a_folder_of_files_is_one_list_numbered_through(tmp_path: Path) -> None:
    for part in (2, 0, 1):
        urls = [f"http://a.example/{part}/{n}" for n in range(3)]
        table = pa.table({"url": urls, "re_caption": ["x"] * 3, "id": [part, 10, 20]})
        pq.write_table(table, tmp_path / f"train-{part}.parquet")
    (tmp_path / "README.md").write_text("not a list")
    for hidden in ("._train-0.parquet", ".ipynb_checkpoints/train-1-checkpoint.parquet"):
        (tmp_path / hidden).parent.mkdir(exist_ok=True)
        (tmp_path / hidden).write_bytes(b"not a list")
    found, counts = read(tmp_path, Columns("url", "re_caption", "id", "parquet"))
    assert [row[0] for row in found] == list(range(9)) and counts == {"": 9}
    assert [row[1] for row in found][::3] == ["0", "1", "2"]


def test_bad_rows_are_told_by_reason_and_bad_files_end_in_a_line(tmp_path: Path) -> None:
    columns, good = "row has another number of columns", b"\thttp://a.example/1.jpg"
    lines = {b"good" + good: "", b"one column": columns, b"three" + good + b"\tcolumns": columns, good: "no caption"}
    lines |= {b" \x00 " + good: "no caption", b"broken \xff" + good: "text is not UTF-8"}
    lines |= {b"scheme\tftp://a.example/1.jpg": "URL scheme", b"none\t": "no valid URL"}
    (tmp_path / "a.tsv").write_bytes(b"\n".join(lines))
    found, counts = read(tmp_path / "a.tsv", Columns(1, 0, header=False))
    assert [row[0] for row in found] == [0] and counts == {**Counter(lines.values()), "": len(lines)}
    (tmp_path / "a.csv").write_text('url,caption\nhttp://a.example/1,"open\nhttp://a.example/2,x\n')
    for name in ("a.parquet", "list.txt"):
        (tmp_path / name).write_bytes(b"PAR1 no")
    for name, caption, said in (
        ("a.csv", "caption", r"a\.csv, line 3: .*; unclosed quote"),
        ("a.csv", "text", "has no column 'text'; it has url, caption"),
        ("a.parquet", "caption", "not a readable parquet file"),
        ("none.tsv", "caption", "no such file or folder; put it there"),
        ("list.txt", "caption", r"unknown file extension; allowed: \.csv, .*, or set list\.format"),
    ):
        with pytest.raises(UserError, match=said):
            read(tmp_path / name, Columns("url", caption))


@pytest.mark.parametrize(("text", "fit"), read_table(__file__, "urls"))
def test_urls_are_made_fit_or_refused(text: str, fit: str) -> None:
    if "://" in fit:
        assert web_url(text) == fit == web_url(fit)
    else:
        with pytest.raises(Failure, match=fit):
            web_url(text)


def test_the_short_way_for_plain_urls_is_the_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(4)
    pieces = [*"aB7/?#:.-_ ü[]|@\\\t", "%41", "&=", "//", "80"]
    texts = [f"http{draw.choice('s ')}".strip() + "://" + "".join(draw.choices(pieces, k=12)) for _ in range(4000)]
    texts += [f"http://a.example/{''.join(draw.choices(pieces, k=6))}" for _ in range(4000)]

    def outcomes() -> list[str]:
        found = []
        for text in texts:
            try:
                found.append(web_url(text))
            except Failure as failure:
                found.append(str(failure))
        return found

    short = outcomes()
    plain = sum(one == text for one, text in zip(short, texts, strict=True))
    monkeypatch.setattr("mdc.data.obtain.transfers.web_url._FIT", re.compile("never"))
    assert short == outcomes() and 50 < plain < len(texts) - 1000


def test_one_broken_text_of_a_parquet_list_leaves_out_its_row_alone(tmp_path: Path) -> None:
    captions = pa.array([b"a", b"\xff", None, "\u00e9".encode()]).view(pa.string())
    urls = [f"http://a.example/{n}" for n in range(4)]
    hashes = pa.array([b"\xff", None, b"", b"AB" * 32]).view(pa.string())
    pq.write_table(pa.table({"url": urls, "caption": captions, "sha": hashes}), tmp_path / "l.parquet")
    found, counts = read(tmp_path / "l.parquet", Columns("url", "caption", hash="sha"))
    assert [row[::3] for row in found] == [(0, "a"), (3, "\u00e9")]
    assert counts == {"": 4, "text is not UTF-8": 1, "no caption": 1}


def seen_by(
    data: Path, dataset: dict[str, Any], entry: Any, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], Columns]:
    """Names of the files that a plan is made of, and their columns."""
    seen: list[Any] = []

    def plan(folder: Path, files: list[Path], columns: Columns, *_: Any) -> None:
        seen.extend((sorted(file.name for file in files), columns))
        raise UserError("seen")

    monkeypatch.setattr("mdc.data.obtain.urls.make_plan", plan)
    config = {"dataset": {"path": "set", "subset": None, **dataset}, "download": {"allow_addresses": []}}
    with pytest.raises(UserError, match=r"^seen$"):
        obtain(config, entry, data)
    return seen[0], seen[1]


def test_a_file_beside_the_registrys_list_is_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CC3M's form offers a validation split too, and nobody wants to train on it."""
    put = tmp_path / "set/list"
    (put / "data/train_data").mkdir(parents=True)
    for name in ("Train_GCC-training.tsv", "Validation_GCC-1.1.0-Validation.tsv", "cc12m.tsv", "old.parquet"):
        (put / name).write_text("x")
    for number in range(2):
        (put / f"data/train_data/train-{number}.parquet").write_text("x")
    of_registry = {"cc3m": ["Train_GCC-training.tsv"], "cc12m": ["cc12m.tsv"]}
    of_registry["recap_datacomp_1b"] = ["train-0.parquet", "train-1.parquet"]
    for name, wanted in of_registry.items():
        assert seen_by(tmp_path, {"list": None}, REGISTRY[name], monkeypatch)[0] == wanted


def test_a_list_may_lie_in_the_datasets_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mine.csv", "plan/part-00000.parquet", "shards/00000.parquet"):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_text("x")
    found = seen_by(tmp_path, {"list": {"path": "set"}}, None, monkeypatch)
    assert found == (["mine.csv"], Columns("url", "caption"))
    (tmp_path / "set/mine.csv").unlink()
    config = {"dataset": {"path": "set", "list": {"path": "set"}}, "download": {"allow_addresses": []}}
    with pytest.raises(UserError, match="contains no list besides what was downloaded"):
        obtain(config, None, tmp_path)
