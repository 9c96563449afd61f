"""Plans of long lists: equal to sorting everything in memory, nested, and made anew where they were cut off."""

import csv
import hashlib
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confined import forked
from pandas.util import hash_array

from mdc.data.obtain import plan as planning
from mdc.data.obtain import seals, url_list
from mdc.data.obtain.plan import make_plan, read_part, rows_digest
from mdc.data.obtain.reasons import Failure
from mdc.data.obtain.transfers.web_url import web_url
from mdc.data.obtain.url_list import Columns
from mdc.plan.records import UserError, sha256_file

SHAPE: dict[str, Any] = {
    **{"image_size": 64, "rows_per_shard": 10, "max_bytes": 10, "min_image_size": 1, "max_pixels": 10},
    **{"max_aspect": 2.0, "quality": 95, "respect_robots": True},
}
COLUMNS = {"own": Columns("url", "caption", "key"), "none": Columns("url", "caption")}


def written(folder: Path, seed: int = 0, rows: int = 160) -> list[Path]:
    """A list of three formats: keys that occur with several pairs, pairs that occur often, rows that cannot be used."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / name for name in ("a.parquet", "b.csv", "c.jsonl", "d.parquet")]
    for file in files:
        listed = []
        for _ in range(rows if file.name[0] != "d" else 0):
            number = draw.randrange(rows)
            url = draw.choice(["http://a.example/{}", "http://a.example/{} ü", "ftp://a.example/{}"]).format(number)
            caption, key = draw.choice(["c", "d", 'two\n"lines"', "", "é"]), draw.choice([number] * 3 + [number % 7])
            listed.append({"url": url, "caption": caption, "key": f"k{key}"})
        if file.suffix == ".parquet":
            schema = pa.schema([(name, pa.string()) for name in ("url", "caption", "key")])
            pq.write_table(pa.Table.from_pylist(listed, schema), file, row_group_size=50)
        elif file.suffix == ".csv":
            with file.open("w", newline="") as text:
                table = csv.DictWriter(text, ["url", "caption", "key"])
                table.writeheader()
                table.writerows(listed)
        else:
            file.write_text("".join(json.dumps(row) + "\n" for row in listed))
    return files


def oracle(
    files: list[Path], columns: Columns, subset: dict[str, int] | None
) -> tuple[list[list[Any]], dict[str, int]]:
    """What is planned, from everything in memory, row by row: place, row, key, URL, caption; and what is left out."""
    listed: list[dict[str, Any]] = []
    for file in files:
        if file.suffix == ".parquet":
            listed += pq.read_table(file).to_pylist()
        elif file.suffix == ".csv":
            listed += csv.DictReader(file.open(newline=""))
        else:
            listed += map(json.loads, file.read_text().splitlines())
    left_out: Counter[str] = Counter()
    ranked = []
    hash_key = hashlib.blake2b(str(subset["seed"] if subset else 0).encode(), digest_size=8).hexdigest()
    for number, row in enumerate(listed):
        try:
            url = web_url(row["url"])
        except Failure as failure:
            left_out[str(failure)] += 1
            continue
        if not row["caption"]:
            left_out["no caption"] += 1
            continue
        key = row["key"] if columns.key else ""
        listed_as = np.array([row["url"].encode()], dtype=object)
        rank = int(hash_array(listed_as, hash_key=hash_key, categorize=False)[0])
        ranked.append((rank, url, row["caption"], key, number))
    ranked.sort()
    pairs, again, different = subset["pairs"] if subset else len(ranked), 0, []
    for n, one in enumerate(ranked):
        if len(different) < pairs:
            if n and one[1:3] == ranked[n - 1][1:3]:
                again += 1
            else:
                different.append(one)
    left_out.update({"same url and caption again": again} if again else {})
    if subset:
        left_out["not in the subset"] = len(ranked) - pairs - again
    return [[n, row, key, url, caption] for n, (_, url, caption, key, row) in enumerate(different)], dict(left_out)


def planned_rows(folder: Path, plan: dict[str, Any]) -> list[list[Any]]:
    return [list(row.values()) for shard in range(len(plan["parts"])) for row in read_part(folder, shard).to_pylist()]


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("subset", [None, {"pairs": 5, "seed": 1}, {"pairs": 70, "seed": 2}])
@pytest.mark.parametrize("sizes", [(250_000, 1.25, 1000, 1 << 16), (7, 1.25, 3, 11), (16, 0.2, 0, 50)])
def test_a_plan_is_what_sorting_everything_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str, subset: Any, sizes: tuple[int, float, int, int]
) -> None:
    for name, value in zip(("_RANGE", "_SLACK", "_SPARE"), sizes[:3], strict=True):
        monkeypatch.setattr(planning, name, value)
    monkeypatch.setattr(url_list, "_BATCH", sizes[3])
    files = written(tmp_path / "list")
    wanted, left_out = oracle(files, COLUMNS[columns], subset)
    plan = make_plan(tmp_path, files, COLUMNS[columns], subset, SHAPE)
    assert planned_rows(tmp_path, plan) == wanted
    assert plan["rows"] == 3 * 160 == len(wanted) + sum(plan["left_out"].values())
    if subset:  # some rows that cannot be used are just not of the subset
        assert plan["left_out"].get("same url and caption again") == left_out.get("same url and caption again")
        assert all(count <= left_out[why] for why, count in plan["left_out"].items() if why != "not in the subset")
    else:
        assert plan["left_out"] == left_out
    assert [part["rows"] for part in plan["parts"]] == [
        len(wanted[first : first + 10]) for first in range(0, len(wanted), 10)
    ]
    assert all(rows_digest(read_part(tmp_path, n)) == part["sha256"] for n, part in enumerate(plan["parts"]))
    assert not (tmp_path / "plan/reading").exists()


def test_the_rank_is_the_same_whatever_the_version(tmp_path: Path) -> None:
    """A plan that grows must find the same order for ever."""
    (tmp_path / "a.tsv").write_text("a\thttp://a.example/1.jpg\nb\thttp://xn--bcher-kva.example/\n")

    def ranks(seed: int) -> list[int]:
        batches = url_list.good_rows(tmp_path / "a.tsv", Columns(1, 0, header=False), Counter(), seed)
        return [row[0] for rows in batches for row in rows]

    assert ranks(0) == [16604363586139646449, 10491031631375090918] and ranks(1)[0] != 16604363586139646449


def test_a_digest_tells_rows_not_how_they_lie() -> None:
    table = pa.table({"place": [0, 1, 2], "url": ["ab", "c", ""]})
    same = pa.concat_tables([pa.table({"place": [9], "url": ["x"]}), table.slice(0, 1), table.slice(1)]).slice(1)
    assert (
        rows_digest(same) == rows_digest(table) != rows_digest(pa.table({"place": [0, 1, 2], "url": ["a", "bc", ""]}))
    )


@pytest.mark.parametrize("subset", [None, {"pairs": 5, "seed": 1}])
def test_the_lists_own_hashes_are_planned(subset: dict[str, int] | None, tmp_path: Path) -> None:
    file = tmp_path / "list/a.jsonl"
    file.parent.mkdir()
    rows = [{"url": f"http://a.example/{n}", "caption": f"c{n}", "key": n, "sha": f"{n:064x}"} for n in range(9)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hashed = Columns("url", "caption", "key", hash="sha")
    without = make_plan(tmp_path / "without", [file], COLUMNS["own"], subset, SHAPE)
    new = make_plan(tmp_path / "new", [file], hashed, subset, SHAPE)
    both = zip(planned_rows(tmp_path / "without", without), planned_rows(tmp_path / "new", new), strict=True)
    for before, (*same, sha256) in both:
        assert same == before and sha256 == rows[before[1]]["sha"]


def test_a_subset_larger_than_the_list_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path / "list")
    monkeypatch.setattr(planning, "_SPARE", 0)  # half of the rows cannot be used, so the first bound holds too few
    different = len(oracle(files, COLUMNS["none"], None)[0])
    for pairs in (5000, different + 1):
        with pytest.raises(
            UserError, match=rf"{pairs} pairs is requested, the list has {different} usable rows \(left out: "
        ):
            make_plan(tmp_path / "more", files, COLUMNS["none"], {"pairs": pairs, "seed": 0}, SHAPE)
    assert make_plan(tmp_path / "more", files, COLUMNS["none"], {"pairs": different, "seed": 0}, SHAPE)["parts"]


def test_a_list_without_a_good_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("x\tftp://a.example/\n")
    with pytest.raises(UserError, match=r"none of the list's 1 rows is usable \(left out: 1 URL scheme\)"):
        make_plan(tmp_path / "set", [tmp_path / "a.tsv"], Columns(1, 0, header=False), None, SHAPE)


# --- kills -----------------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, str]:
    """The hash of every file of a plan but the seals, whose times differ; hidden files too."""
    files = (path for path in (folder / "plan").rglob("*") if path.is_file() and path.parent.name != "list")
    return {str(path.relative_to(folder)): sha256_file(path) for path in files}


def countdown(number: int) -> Callable[[], None]:
    """A function whose ``number``-th call kills this process."""
    left = iter(range(number - 1))
    return lambda: None if next(left, None) is not None else os.kill(os.getpid(), signal.SIGKILL)


def after_operations(tick: Callable[[], None]) -> None:
    """A moment before and after each rename, and after each removal."""
    replace, unlink = os.replace, os.unlink
    vars(os)["replace"] = lambda *args, **named: (tick(), replace(*args, **named), tick())
    vars(os)["unlink"] = lambda *args, **named: (unlink(*args, **named), tick())


@pytest.mark.slow
@pytest.mark.parametrize(("subset", "step"), [({"pairs": 30, "seed": 3}, 1), (None, 3)])
def test_a_killed_planning_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subset: Any, step: int
) -> None:
    """Killed in a child at every ``step``-th moment until none is left; then made in this process."""
    files = written(tmp_path / "list")
    make_plan(tmp_path / "whole", files, COLUMNS["own"], subset, SHAPE)
    monkeypatch.setattr(planning, "_RANGE", 50)
    status, number = -signal.SIGKILL, 1
    while status == -signal.SIGKILL:
        folder = tmp_path / str(number)
        arguments: tuple[Any, ...] = (folder, files, COLUMNS["own"], subset, SHAPE)
        status = forked(lambda number=number, it=arguments: (after_operations(countdown(number)), make_plan(*it)))
        sealed = len(list((folder / "plan/list").glob("[0-9a-f]*.json")))
        with monkeypatch.context() as patch:
            told = counted(patch)
            make_plan(*arguments)
        assert contents(folder) == contents(tmp_path / "whole")
        assert told.total() == len(files) - sealed
        number += step
    assert status == 0 and number > 10


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Files that are hashed from here on."""
    told: Counter[str] = Counter()
    hashed = seals.sha256_file
    monkeypatch.setattr(seals, "sha256_file", lambda path: told.update([f"hash {path.name}"]) or hashed(path))
    return told


def test_a_file_is_hashed_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path / "list")
    told = counted(monkeypatch)

    def planned(**shape: Any) -> dict[str, Any]:
        return make_plan(tmp_path, files, COLUMNS["own"], {"pairs": 40, "seed": 0}, SHAPE | shape)

    plan = planned()
    assert [told[f"hash {file.name}"] for file in files] == [1] * 4
    told.clear()
    assert planned() == plan and not told
    files[1].touch()  # another time, so the bytes may differ
    assert planned() == plan and told == {"hash b.csv": 1}
    (damaged,) = (path for path in (tmp_path / "plan/list").iterdir() if "/c.jsonl" in path.read_text())
    damaged.write_text("{")
    assert planned() == plan and told == {"hash b.csv": 1, "hash c.jsonl": 1}
    (tmp_path / "plan/part-00003.parquet").unlink()
    assert planned() == plan and (tmp_path / "plan/part-00003.parquet").exists()
    record = (tmp_path / "plan/plan.json").read_text()
    (tmp_path / "plan/plan.json").write_text(record.replace(url_list.RANK, "an earlier order"))
    with pytest.raises(UserError, match="planned by an earlier order, now it is"):
        planned()  # shards of another order must not be taken for this one's
    (tmp_path / "plan/plan.json").write_text(record)
    with pytest.raises(UserError, match="made with quality 95, now it is 90"):
        planned(quality=90)
    files[1].write_text(files[1].read_text().replace("http://a", "http://b"))
    with pytest.raises(UserError, match="was made from a different list"):
        planned()


def test_a_subset_that_grows_hashes_nothing_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path / "list")

    def planned(pairs: int, folder: Path = tmp_path, seed: int = 0, list_of: list[Path] = files) -> dict[str, Any]:
        return make_plan(folder, list_of, COLUMNS["none"], {"pairs": pairs, "seed": seed}, SHAPE)

    small = planned(45)
    there = {path: path.stat().st_ino for path in sorted((tmp_path / "plan").glob("part-*"))}
    told = counted(monkeypatch)
    large = planned(90)
    assert not told
    assert large["parts"][:4] == small["parts"][:4] and large["parts"][4] != small["parts"][4]
    assert [path.stat().st_ino == node for path, node in there.items()] == [*[True] * 4, False]
    planned(90, tmp_path / "fresh")
    assert contents(tmp_path) == contents(tmp_path / "fresh")
    said = "contains a subset of 90 pairs, 45 are requested; keep the larger and set pairs: 45"
    with pytest.raises(UserError, match=said):
        planned(45)
    for again in (lambda: planned(90, seed=1), lambda: make_plan(tmp_path, files, COLUMNS["none"], None, SHAPE)):
        with pytest.raises(UserError, match="different rows, or a different order"):
            again()
    with pytest.raises(UserError, match="made from a different list"):
        planned(90, list_of=files[1:])


def test_a_list_that_changes_under_way_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path / "list")
    read = planning.good_rows

    def written_to(file: Path, *others: Any) -> Any:
        yield from read(file, *others)
        file.touch()

    monkeypatch.setattr(planning, "good_rows", written_to)
    for subset in (None, {"pairs": 10, "seed": 0}):
        with pytest.raises(UserError, match=r"a\.parquet: changed while it was read; rerun"):
            make_plan(tmp_path, files, COLUMNS["own"], subset, SHAPE)
    assert not (tmp_path / "plan/plan.json").exists()
    monkeypatch.setattr(seals, "sha256_file", lambda path: path.touch() or "0" * 64)
    with pytest.raises(UserError, match=r"a\.parquet: changed while it was read; rerun"):
        make_plan(tmp_path / "set", files[:1], COLUMNS["own"], None, SHAPE)
