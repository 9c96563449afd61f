"""How long it takes to plan a long list of URLs, and how much memory: a subset and the whole, of parquet files and of a TSV.

The list is synthetic: a million rows in ten files, or in one TSV. Each planning runs in a process of its own, in
three cases: from nothing; again, when the plan is there; grown by a tenth.

    python bench/plan.py --rows 1000000 --pairs 300000
"""

import hashlib
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHAPE = {
    **{"image_size": 256, "rows_per_shard": 10_000, "max_bytes": 10, "min_image_size": 1, "max_pixels": 10},
    **{"max_aspect": 2.0, "quality": 95, "respect_robots": True},
}
FILES = 10
WORDS = ["a", "photo", "of", "the", "old", "red", "boat", "near", "two", "dogs", "that", "run", "on", "green", "grass"]


# --- the list --------------------------------------------------------------------------------------------------------


def listed(first: int, rows: int) -> Iterator[tuple[str, str, str]]:
    """(key, url, caption) of some rows: one in fifty cannot be used, one in a hundred occurs twice."""
    for number in range(first, first + rows):
        number -= number % 100 == 1
        digest = hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest()
        scheme = "ftp" if number % 50 == 7 else "https"
        words = " ".join(WORDS[int(digit, 16) % len(WORDS)] for digit in digest[:24])
        yield digest, f"{scheme}://images{number % 997}.example/photos/{digest}.jpg?width=640", words


def write_list(folder: Path, rows: int, kind: str) -> None:
    """A list of ``rows`` rows: parquet files with keys, or a TSV without."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True)
    if kind == "tsv":
        with (folder / "list.tsv").open("w") as file:
            file.write("url\tcaption\n")
            file.writelines(f"{url}\t{caption}\n" for _, url, caption in listed(0, rows))
        return
    for number in range(FILES):
        first, last = (rows * (number + n) // FILES for n in (0, 1))
        columns = [list(values) for values in zip(*listed(first, last - first), strict=True)]
        table = pyarrow.table(dict(zip(("key", "url", "caption"), columns, strict=True)))
        pyarrow.parquet.write_table(table, folder / f"part-{number:03d}.parquet", row_group_size=50_000)


# --- one planning, in a process of its own ---------------------------------------------------------------------------


def plan_once(case: dict[str, Any]) -> dict[str, Any]:
    """Seconds and peak memory of one planning."""
    import pandas.util  # noqa: F401  (imports are not counted)
    import pyarrow.dataset
    import pyarrow.ipc
    import pyarrow.parquet  # noqa: F401

    from mdc.data.obtain.plan import make_plan
    from mdc.data.obtain.url_list import Columns, list_files

    columns = Columns("url", "caption", "key" if case["kind"] == "parquet" else None)
    files = list_files(Path(case["list"]), columns)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter(), time.process_time()
    make_plan(Path(case["folder"]), files, columns, case["subset"], SHAPE)
    return {
        **{"seconds": time.perf_counter() - began[0], "processor": time.process_time() - began[1]},
        **{"before": before / 1e3, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3},
    }


def planned(case: dict[str, Any]) -> dict[str, Any]:
    """``plan_once`` in a process of its own."""
    environment = {**os.environ, "TQDM_DISABLE": "1"}
    command = [sys.executable, __file__, "--once", json.dumps(case)]
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(json.loads(output.splitlines()[-1]))


# --- the cases -------------------------------------------------------------------------------------------------------


def tell(name: str, rows: int, measured: dict[str, Any]) -> None:
    """One line of a planning."""
    print(
        f"  {name:28s} {measured['seconds']:7.2f} s ({measured['processor']:6.2f} s of processor time, "
        f"{rows / measured['processor']:9,.0f} rows a second of it), {measured['peak'] - measured['before']:5.0f} MB more",
        flush=True,
    )


def stages(place: Path, rows: int, case: dict[str, Any]) -> dict[str, Any]:
    """A planning from nothing, again and grown; returns the first."""
    first = planned({**case, "folder": str(place / "first")})
    tell("from nothing", rows, first)
    tell("again", rows, planned({**case, "folder": str(place / "first")}))
    if case["subset"]:
        more = {**case["subset"], "pairs": case["subset"]["pairs"] * 11 // 10}
        tell("grown by a tenth", rows, planned({**case, "subset": more, "folder": str(place / "first")}))
    return first


def main() -> None:
    if sys.argv[1:2] == ["--once"]:  # the process that is measured
        print(json.dumps(plan_once(json.loads(sys.argv[2]))))
        return
    import rows

    parser = rows.parser(__doc__.splitlines()[0], rows=1_000_000, pairs=300_000)
    parser.add_argument("--kinds", nargs="+", choices=("parquet", "tsv"), default=["parquet", "tsv"])
    args = rows.arguments(parser, rows=20_000, pairs=6_000, kinds=["parquet"])
    machine = platform.processor() or platform.machine()
    print(f"{machine}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory(prefix="mdc-plan-") as name:
        place = Path(name)
        for kind in args.kinds:
            write_list(place / kind, args.rows, kind)
            for subset in ({"pairs": args.pairs, "seed": 0}, None):
                case = {"kind": kind, "list": str(place / kind), "subset": subset}
                chosen = f"a subset of {args.pairs:,}" if subset else "all"
                print(f"{args.rows:,} rows, {kind}, {chosen}:", flush=True)
                ours = stages(place / "ours", args.rows, case)
                what, unit = f"planning {chosen} of a list of {args.rows:,} rows ({kind})", "processor s"
                rows.write("plan", [rows.alone(what, unit, [ours["processor"]], "1 process")], args.results)
                shutil.rmtree(place / "ours")


if __name__ == "__main__":
    main()
