"""Plans of long lists: equal to sorting everything in memory, and resumable at every moment without doing things twice."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confined import forked

from mdc.data.formats.rank import rank_hash
from mdc.data.obtain import reading, seals, whole
from mdc.data.obtain import subset as choosing
from mdc.data.obtain.plan import make_plan, read_part, rows_digest
from mdc.data.obtain.url_list import BadRow, Columns, Row, pair_digest, read_rows, rows_about
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


def oracle(files: list[Path], columns: Columns, subset: dict[str, int] | None) -> tuple[list[Row], dict[str, int]]:
    """What a plan was before it was made file by file: everything in memory, sorted as a whole."""
    listed = list(read_rows(files, columns))
    left_out = Counter(row.reason for row in listed if isinstance(row, BadRow))
    good = [row for row in listed if isinstance(row, Row)]
    if subset is None:
        first: dict[bytes, Row] = {}
        for row in good:
            first.setdefault(pair_digest(row.url, row.caption), row)
        again = len(good) - len(first)
        return list(first.values()), {**left_out, **({"same url and caption again": again} if again else {})}
    pairs, seed = subset["pairs"], subset["seed"]
    ranks = sorted({rank_hash(seed, row.key) for row in good})
    least = sorted(
        (rank_hash(seed, row.key), row.key, row.url, row.caption, row.number)
        for row in good
        if rank_hash(seed, row.key) <= ranks[pairs - 1]
    )
    different = [one for n, one in enumerate(least) if not n or one[1:4] != least[n - 1][1:4]]
    again = len(least) - len(different)
    left_out.update({"not in the subset": 0, **({"same url and caption again": again} if again else {})})
    left_out["not in the subset"] += len(good) - pairs - again
    return [Row(number, key, url, caption) for _, key, url, caption, number in different[:pairs]], dict(left_out)


def planned_rows(folder: Path, plan: dict[str, Any]) -> list[list[Any]]:
    return [list(row.values()) for shard in range(len(plan["parts"])) for row in read_part(folder, shard).to_pylist()]


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("subset", [None, {"pairs": 5, "seed": 1}, {"pairs": 70, "seed": 2}])
@pytest.mark.parametrize("sizes", [(100_000, 1.25, 1000), (7, 1.25, 3), (16, 0.2, 0)])
def test_a_plan_is_what_sorting_everything_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str, subset: Any, sizes: tuple[int, float, int]
) -> None:
    for name, value in zip(("_SORTED", "_SLACK", "_SPARE"), sizes, strict=True):
        monkeypatch.setattr(choosing, name, value)
    monkeypatch.setattr(whole, "_SORTED", sizes[0])
    monkeypatch.setattr(whole, "_CHUNK", 9)
    files = written(tmp_path / "list")
    rows, left_out = oracle(files, COLUMNS[columns], subset)
    plan = make_plan(tmp_path, files, COLUMNS[columns], subset, SHAPE)
    wanted = [[place, row.number, row.key, row.url, row.caption] for place, row in enumerate(rows)]
    assert planned_rows(tmp_path, plan) == wanted
    assert plan["left_out"] == left_out and plan["rows"] == 3 * 160 == len(wanted) + sum(left_out.values())
    assert [part["sha256"] for part in plan["parts"]] == [
        rows_digest(wanted[first : first + 10]) for first in range(0, len(wanted), 10)
    ]
    assert not (tmp_path / "plan/reading").exists()


@pytest.mark.parametrize("subset", [None, {"pairs": 5, "seed": 1}])
def test_the_lists_own_hashes_are_planned(subset: dict[str, int] | None, tmp_path: Path) -> None:
    """And a plan that was made before they were read goes on without them: its download is not refused."""
    file = tmp_path / "list/a.jsonl"
    file.parent.mkdir()
    rows = [{"url": f"http://a.example/{n}", "caption": f"c{n}", "key": n, "sha": f"{n:064x}"} for n in range(9)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hashed = Columns("url", "caption", "key", hash="sha")
    old = make_plan(tmp_path / "old", [file], COLUMNS["own"], subset, SHAPE)
    assert make_plan(tmp_path / "old", [file], hashed, subset, SHAPE) == old
    new = make_plan(tmp_path / "new", [file], hashed, subset, SHAPE)
    both = zip(planned_rows(tmp_path / "old", old), planned_rows(tmp_path / "new", new), strict=True)
    for before, (*same, sha256) in both:
        assert same == before and sha256 == rows[before[1]]["sha"]
    if subset:
        grown = make_plan(tmp_path / "old", [file], hashed, {**subset, "pairs": 8}, SHAPE)
        assert len(planned_rows(tmp_path / "old", grown)) == 8


def test_a_bound_that_was_too_low_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path / "list")
    monkeypatch.setattr(choosing, "_SPARE", 0)
    bounds: list[int] = []
    read_files = choosing.read_files
    monkeypatch.setattr(choosing, "read_files", lambda *args: bounds.append(args[-1].bound) or read_files(*args))
    # half of the rows cannot be used, so the first bound holds too few
    make_plan(tmp_path, files, COLUMNS["none"], {"pairs": 120, "seed": 0}, SHAPE)
    assert len(bounds) > 1 and bounds == sorted(set(bounds))
    with pytest.raises(UserError, match=r"5000 pairs is requested, the list has \d+ usable rows \(left out: "):
        make_plan(tmp_path / "more", files, COLUMNS["none"], {"pairs": 5000, "seed": 0}, SHAPE)
    different = len({row.key for row in read_rows(files, COLUMNS["none"]) if isinstance(row, Row)})
    with pytest.raises(UserError, match=f"the list has {different} usable rows"):
        make_plan(tmp_path / "more", files, COLUMNS["none"], {"pairs": different + 1, "seed": 0}, SHAPE)
    assert make_plan(tmp_path / "more", files, COLUMNS["none"], {"pairs": different, "seed": 0}, SHAPE)["parts"]


def test_the_number_of_rows_is_known_or_guessed(tmp_path: Path) -> None:
    files = written(tmp_path)
    assert [rows_about(file, COLUMNS["own"]) for file in files[::3]] == [160, 0]
    (tmp_path / "long.tsv").write_text("a caption\thttp://a.example/1\n" * 100_000)
    assert abs(rows_about(tmp_path / "long.tsv", Columns(1, 0, header=False)) / 100_000 - 1) < 0.01
    (tmp_path / "empty.tsv").write_text("")
    assert rows_about(tmp_path / "empty.tsv", Columns(1, 0, header=False)) == 1
    with pytest.raises(UserError, match=r"none\.tsv: cannot be read"):
        rows_about(tmp_path / "none.tsv", Columns(1, 0))


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


def after_rows(tick: Callable[[], None]) -> None:
    """A moment before each row that is read."""
    for module in (reading, whole):
        read = module.read_rows
        vars(module)["read_rows"] = lambda *args, read=read: (tick() or row for row in read(*args))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("subset", "kill", "step"),
    [
        ({"pairs": 30, "seed": 3}, after_operations, 1),
        ({"pairs": 30, "seed": 3}, after_rows, 61),
        (None, after_operations, 3),
    ],
)
def test_a_killed_planning_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subset: Any, kill: Callable[[Callable[[], None]], None], step: int
) -> None:
    """Killed in a child at every ``step``-th moment until none is left; then made in this process."""
    files = written(tmp_path / "list")
    make_plan(tmp_path / "whole", files, COLUMNS["own"], subset, SHAPE)
    for name, value in {"_SORTED": 50, "_SLACK": 1.25, "_SPARE": 280}.items():
        monkeypatch.setattr(choosing, name, value)
    kept, status, number = set(), -signal.SIGKILL, 1
    while status == -signal.SIGKILL:
        folder = tmp_path / str(number)
        arguments: tuple[Any, ...] = (folder, files, COLUMNS["own"], subset, SHAPE)
        status = forked(lambda number=number, it=arguments: (kill(countdown(number)), make_plan(*it)))
        planned = (folder / "plan/plan.json").exists()
        sealed, read = (len(list((folder / "plan" / at).glob("[0-9]*.json"))) for at in ("list", "reading"))
        with monkeypatch.context() as patch:
            every = counted(patch)
            make_plan(*arguments)
        told = Counter(name.split()[0] for name in every.elements())
        assert contents(folder) == contents(tmp_path / "whole")
        assert told["hash"] == len(files) - sealed and told["read"] == (0 if planned else len(files) - read)
        kept.add(None if planned else read)
        number += step
    # killed in every file of the list; the last one has no row
    assert status == 0 and kept >= ({0, 1, 2, 3} if kill is after_operations else {0, 1, 2})


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Files that are hashed, and those that are read, from here on."""
    told: Counter[str] = Counter()
    hashed, read = seals.sha256_file, reading.read_rows
    monkeypatch.setattr(seals, "sha256_file", lambda path: told.update([f"hash {path.name}"]) or hashed(path))
    monkeypatch.setattr(
        reading, "read_rows", lambda files, columns: told.update([f"read {files[0].name}"]) or read(files, columns)
    )
    return told


def test_a_file_is_hashed_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path / "list")
    told = counted(monkeypatch)

    def planned(**shape: Any) -> dict[str, Any]:
        return make_plan(tmp_path, files, COLUMNS["own"], {"pairs": 40, "seed": 0}, SHAPE | shape)

    plan = planned()
    assert [told[f"hash {file.name}"] for file in files] == [1] * 4 == [told[f"read {file.name}"] for file in files]
    told.clear()
    assert planned() == plan and not told
    files[1].touch()  # another time, so the bytes may differ
    assert planned() == plan and told == {"hash b.csv": 1}
    (damaged,) = (path for path in (tmp_path / "plan/list").iterdir() if "/c.jsonl" in path.read_text())
    damaged.write_text("{")
    assert planned() == plan and told == {"hash b.csv": 1, "hash c.jsonl": 1}
    (tmp_path / "plan/part-00003.parquet").unlink()
    assert planned() == plan and (tmp_path / "plan/part-00003.parquet").exists()
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
    assert not any(name.startswith("hash") for name in told)
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


def broken_off(folder: Path, files: list[Path], subset: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planning that read everything and was ended before it wrote its first part."""
    with monkeypatch.context() as patch:
        patch.setattr("mdc.data.obtain.plan._write_parts", lambda folder, rows, *_: [next(rows), 1 / 0])
        with pytest.raises(ZeroDivisionError):
            make_plan(folder, files, COLUMNS["own"], subset, SHAPE)


def test_what_was_read_serves_its_list_columns_and_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "_SPARE", 0)
    monkeypatch.setattr(choosing, "_SLACK", 12)  # few of this list's keys differ
    files = written(tmp_path / "list")
    asked = {"pairs": 10, "seed": 0}
    for number, (changed, columns, subset, again) in enumerate(
        [
            (False, COLUMNS["own"], asked, 0),
            (False, COLUMNS["own"], {"pairs": 5, "seed": 0}, 0),  # what lies below a larger bound serves a smaller one
            (False, COLUMNS["own"], {"pairs": 20, "seed": 0}, 4),
            (False, COLUMNS["own"], {"pairs": 10, "seed": 1}, 4),
            (False, COLUMNS["own"], None, 4),
            (False, COLUMNS["none"], asked, 4),
            (True, COLUMNS["own"], asked, 1),
        ]
    ):
        folder = tmp_path / str(number)
        broken_off(folder, files, asked, monkeypatch)
        if changed:
            files[0].write_bytes(written(tmp_path / "other", seed=9)[0].read_bytes())
        with monkeypatch.context() as patch:
            told = counted(patch)
            plan = make_plan(folder, files, columns, subset, SHAPE)
        assert sum(count for name, count in told.items() if name.startswith("read")) >= again
        assert again or not told
        rows, left_out = oracle(files, columns, subset)
        assert [row[1] for row in planned_rows(folder, plan)] == [row.number for row in rows]
        assert plan["left_out"] == left_out


def test_a_list_that_changes_under_way_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path / "list")
    read = reading.read_rows

    def written_to(listed: list[Path], columns: Columns) -> Any:
        yield from read(listed, columns)
        listed[0].touch()

    monkeypatch.setattr(reading, "read_rows", written_to)
    for subset in (None, {"pairs": 10, "seed": 0}):
        with pytest.raises(UserError, match=r"a\.parquet: changed while it was read; rerun"):
            make_plan(tmp_path, files, COLUMNS["own"], subset, SHAPE)
    assert not (tmp_path / "plan/plan.json").exists()
    monkeypatch.setattr(seals, "sha256_file", lambda path: path.touch() or "0" * 64)
    with pytest.raises(UserError, match=r"a\.parquet: changed while it was read; rerun"):
        make_plan(tmp_path / "set", files[:1], COLUMNS["own"], None, SHAPE)


def test_pairs_that_share_half_of_their_digest_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def digest(url: str, caption: str) -> bytes:
        return bytes(7) + url[-1:].encode() + pair_digest(url, caption)[8:]

    monkeypatch.setattr(whole, "pair_digest", digest)
    files = written(tmp_path / "list")
    rows, left_out = oracle(files, COLUMNS["own"], None)
    plan = make_plan(tmp_path, files, COLUMNS["own"], None, SHAPE)
    assert [row[1] for row in planned_rows(tmp_path, plan)] == [row.number for row in rows]
    assert plan["left_out"] == left_out
