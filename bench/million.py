"""A million rows through every stage: a list planned, one group of its parts downloaded from a local server, and cut into shards.

Each stage runs in a process of its own, which tells its seconds, its processor time and its peak memory, and those of the
processes that it starts. The list has a key, a URL and a caption of 5 to 40 words a row, in files of 100,000 rows; one row in
ten cannot be used, and three URLs in ten are dead. The second planning of the same list shows what a job that is called again
pays.

    python bench/million.py --rows 1000000 --pairs 300000
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import rows
from download import SETTINGS, photos, serving

WORDS = "a photo of the old red dog near two boats at night with some people who look into their own water"
COLUMNS = {"format": "parquet", "url_column": "url", "caption_column": "caption", "key_column": "key", "path": None}

CHILD = """
import json, resource, sys, time
from pathlib import Path
stage, data, config = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
from mdc.data.obtain.urls import download_group, plan_download
from mdc.plan.records import sha256_file
from mdc.data.shards.parts import PartsWriter
from mdc.data.sources.source import open_corpus
def used():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
before, began = used(), time.perf_counter()
if stage == "plan":
    plan = plan_download(config, None, data)
    counts = {"rows": plan["rows"], "pairs": plan["chosen"], "parts": len(plan["parts"]), "left_out": plan["left_out"]}
elif stage == "download":
    sha256 = sha256_file(data / "set/plan/plan.json")
    counts = download_group(config, data, sha256, 0, int(sys.argv[4]))["outcomes"]
else:
    source = {"kind": "pairs", "dataset": "set", "path": "set", "from": "urls", "pairs": None, "val_fraction": 0.01}
    source |= {"caption_mode": "each", "max_pieces": None, "caption_field": None}
    opened, splits = open_corpus(source, data), ("train", "val")
    entries = PartsWriter(opened, splits, data / "parts", data / "state", {}, 77).write(config["download"]["processes"])
    counts = {"pairs": sum(one["samples"] for entry in entries for one in entry["splits"].values())}
peak = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({"counts": counts, "seconds": time.perf_counter() - began, "cpu": used() - before, "peak": peak}))
"""


def write_list(folder: Path, rows: int, address: str) -> None:
    """Files of 100,000 rows; one row in ten is of no use."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True)
    draw, vocabulary = np.random.default_rng(0), WORDS.split()
    for first in range(0, rows, 100_000):
        count = min(100_000, rows - first)
        lengths = draw.integers(5, 41, count)
        words = draw.integers(0, len(vocabulary), int(lengths.sum()))
        captions, start = [], 0
        for length in lengths.tolist():
            captions.append(" ".join(vocabulary[word] for word in words[start : start + length]))
            start += length
        numbers = np.arange(first, first + count)
        urls = [f"{address}/photo/{number}.jpg" for number in numbers.tolist()]
        for row in range(0, count, 20):
            captions[row], urls[row + 1 if row + 1 < count else row] = " ", "ftp://a.example/1.jpg"
        table = pyarrow.table(
            {"key": [f"{number:012x}" for number in numbers.tolist()], "url": urls, "caption": captions}
        )
        pyarrow.parquet.write_table(table, folder / f"{first // 100_000:05d}.parquet")


def stage(name: str, data: Path, config: Mapping[str, object], groups: int, what: str) -> rows.Row:
    """Run one and tell what it took."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, name, str(data), json.dumps(config), str(groups)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        text=True,
        check=True,
    )
    took = json.loads(done.stdout.splitlines()[-1])
    counts = took["counts"]
    count = counts.get("rows") or counts.get("pairs") or sum(counts.values())
    own, children = took["peak"]
    print(
        f"{what}: {took['seconds']:.1f} s, {took['cpu']:.1f} s of processor time, {count / took['seconds']:,.0f} a second, "
        f"{count / took['cpu']:,.0f} a core-second, peak {own:.0f} MiB (processes it starts: {children:.0f}); {counts}",
        flush=True,
    )
    return rows.alone(what, "processor s", [took["cpu"]], f"{count:,} rows or pairs")


def main() -> None:
    parser = rows.parser(__doc__, rows=1_000_000, pairs=300_000, processes=2)
    parser.add_argument("--groups", type=int, default=30, help="jobs that would share the list; one of them is done")
    args = rows.arguments(parser, rows=20_000, pairs=6_000, groups=3)
    download = {**SETTINGS, "processes": args.processes, "threads": 32, "rows_per_shard": 2_000}
    with tempfile.TemporaryDirectory(prefix="mdc-bench-") as name:
        place = Path(name)
        with serving(place / "photos", photos(400, 300, None)) as address:
            write_list(place / "set/list", args.rows, address)
            print(f"{platform.machine()}, {os.cpu_count()} cores, {args.processes} processes")
            subset = {"pairs": args.pairs, "seed": 0}
            config = {"dataset": {"path": "set", "list": COLUMNS, "subset": subset}, "download": download}
            columns = {**COLUMNS, "path": "set/list"}
            whole = {**config, "dataset": {"path": "whole", "list": columns, "subset": None}}
            n = args.groups
            stages = (
                ("plan", config, f"planning {args.pairs:,} of {args.rows:,} rows"),
                ("plan", config, "planning again what is planned"),
                ("download", config, f"downloading one group of {n}"),
                ("shards", config, f"cutting one group of {n} into shards"),
                ("plan", whole, f"planning all of {args.rows:,} rows"),
            )
            rows.write(
                "million", [stage(name, place, settings, n, what) for name, settings, what in stages], args.results
            )


if __name__ == "__main__":
    main()
