"""Lists of URLs: read in every format, subsets chosen by hash, and the plan that fixes what is asked for."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from read_table import read_table

from mdc.data.obtain import subset as choosing
from mdc.data.obtain.plan import make_plan, read_part
from mdc.data.obtain.reasons import Failure
from mdc.data.obtain.transfers.web_url import web_url
from mdc.data.obtain.url_list import BadRow, Columns, Row, list_files, pair_digest, read_rows
from mdc.data.obtain.urls import obtain
from mdc.plan.records import UserError
from mdc.plan.registry.datasets import REGISTRY

HARD = ['say "hi"', "two  spaces", "emoji 🦆", "comma, semicolon; 'x'", "x" * 10_000]
URLS = [f"http://a.example/{n}.jpg" for n in range(len(HARD))]
SHAPE: dict[str, Any] = {
    **{"image_size": 64, "rows_per_shard": 10, "max_bytes": 10, "min_image_size": 1, "max_pixels": 10},
    **{"max_aspect": 2.0, "quality": 95, "respect_robots": True},
}


def read(path: Path, columns: Columns) -> list[Row | BadRow]:
    return list(read_rows(list_files(path, columns), columns))


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
    wanted = [Row(n, pair_digest(u, c).hex(), u, c) for n, (c, u) in enumerate(zip(HARD, URLS, strict=True))]
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
    found = read(tmp_path, Columns("url", "re_caption", "id", "parquet"))
    assert [row.number for row in found] == list(range(9))
    assert [row.key for row in found if isinstance(row, Row)][::3] == ["0", "1", "2"]


def test_bad_rows_are_told_by_reason_and_bad_files_end_in_a_line(tmp_path: Path) -> None:
    columns, good = "row has another number of columns", b"\thttp://a.example/1.jpg"
    lines = {b"good" + good: "", b"one column": columns, b"three" + good + b"\tcolumns": columns, good: "no caption"}
    lines |= {b" \x00 " + good: "no caption", b"broken \xff" + good: "text is not UTF-8"}
    lines |= {b"scheme\tftp://a.example/1.jpg": "URL scheme", b"none\t": "no valid URL"}
    (tmp_path / "a.tsv").write_bytes(b"\n".join(lines))
    found = read(tmp_path / "a.tsv", Columns(1, 0, header=False))
    assert [row.reason if isinstance(row, BadRow) else "" for row in found] == list(lines.values())
    (tmp_path / "a.csv").write_text('url,caption\nhttp://a.example/1,"open\nhttp://a.example/2,x\n')
    with pytest.raises(UserError, match=r"a\.csv, line 3: .*; unclosed quote"):
        read(tmp_path / "a.csv", Columns("url", "caption"))
    with pytest.raises(UserError, match="has no column 'text'; it has url, caption"):
        read(tmp_path / "a.csv", Columns("url", "text"))
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(UserError, match="not a readable parquet file"):
        read(tmp_path / "a.parquet", Columns("url", "caption"))
    with pytest.raises(UserError, match="no such file or folder; put the list of URLs there"):
        read(tmp_path / "none.tsv", Columns(1, 0))
    (tmp_path / "list.txt").write_text("x")
    with pytest.raises(UserError, match=r"unknown file extension; set list\.format to tsv, csv, jsonl or parquet"):
        read(tmp_path / "list.txt", Columns(1, 0))


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


# --- subsets ---------------------------------------------------------------------------------------------------------


def test_one_broken_text_of_a_parquet_list_leaves_out_its_row_alone(tmp_path: Path) -> None:
    captions = pa.array([b"a", b"\xff", None, "\u00e9".encode()]).view(pa.string())
    urls = [f"http://a.example/{n}" for n in range(4)]
    pq.write_table(pa.table({"url": urls, "caption": captions}), tmp_path / "l.parquet")
    found = list(read_rows([tmp_path / "l.parquet"], Columns("url", "caption")))
    told = [row.caption if isinstance(row, Row) else row.reason for row in found]
    assert told == ["a", "text is not UTF-8", "no caption", "\u00e9"]


def listed(folder: Path, keys: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = {"url": [f"http://a.example/{key}" for key in keys], "caption": [f"c {key}" for key in keys], "key": keys}
    pq.write_table(pa.table(rows), folder / "list.parquet")
    return folder / "list.parquet"


KEYED = Columns("url", "caption", "key", "parquet")


def planned(
    folder: Path, keys: list[str], subset: dict[str, int] | None, **shape: Any
) -> tuple[dict[str, Any], list[Any]]:
    plan = make_plan(folder, [listed(folder / "list", keys)], KEYED, subset, {**SHAPE, **shape})
    rows = [row for shard in range(len(plan["parts"])) for row in read_part(folder, shard).to_pylist()]
    assert [row["place"] for row in rows] == list(range(plan["chosen"]))
    assert plan["rows"] == plan["chosen"] + sum(plan["left_out"].values())
    return plan, [row["source_key"] for row in rows]


KEYS = [f"k{n:03d}" for n in range(300)]


def test_ties_of_the_hash_go_by_key_and_a_key_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "rank_hash", lambda seed, key: int(key[1:]) // 4)
    draw = random.Random(2).sample([*KEYS, *KEYS[:50]], 350)
    plan, found = planned(tmp_path, draw, {"pairs": 70, "seed": 0})
    assert found == KEYS[:70]
    assert plan["left_out"]["same url and caption again"] == sum(count - 1 for count in Counter(draw).values())


def test_a_key_that_is_no_text_is_left_out_of_a_subset(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    rows = b"".join(f"{key},http://a.example/{key},c\n".encode() for key in KEYS)
    path.write_bytes(rows.replace(b"k007,", b"k\xff07,"))
    columns = Columns(1, 2, 0, header=False)
    plan = make_plan(tmp_path, [path], columns, {"pairs": 299, "seed": 0}, SHAPE)
    assert (plan["chosen"], plan["left_out"]) == (299, {"not in the subset": 0, "text is not UTF-8": 1})


def test_a_list_without_a_good_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("x\tftp://a.example/\n")
    with pytest.raises(UserError, match=r"none of the list's 1 rows is usable \(left out: 1 URL scheme\)"):
        make_plan(tmp_path / "set", [tmp_path / "a.tsv"], Columns(1, 0, header=False), None, SHAPE)


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
