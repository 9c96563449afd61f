"""Pairs a core-second into shards: a downloaded list of synthetic photos, cut by one job with one process and with two.

A corpus that takes half of the pairs is written beside the whole one, as nested corpora are. ``--mirror`` takes the tars as a
mirror's, whose images are decoded. Processor time counts the processes that a job starts. Every way runs in a process of its own;
the samples that come out are held against each other. The bytes are those of the set, downloads not counted.

    python bench/shards.py --parts 8 --rows 1000
"""

import hashlib
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import rows
from download import photo

from mdc.data.shards.index import ShardReader
from mdc.plan.records import sha256_file

SOURCE = {"kind": "pairs", "dataset": "d", "path": "d", "from": "urls", "pairs": None, "val_fraction": 0.01}
SOURCE |= {"caption_mode": "each", "max_pieces": None, "caption_field": None}
WORDS = "a photo of the old red dog near two boats at night with some people who look into their own water"

#: what a process runs: the arguments are the data folder, the folder to fill, and how many processes
CHILD = """
import json, resource, sys, time
from pathlib import Path
data, out, processes, source = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
from mdc.data.sources.source import open_corpus
from mdc.models.text import clip_pieces
clip_pieces("warm")
from mdc.plan.records import write_json
from mdc.data.shards.corpus_job import join_parts
from mdc.data.shards.parts import PartsWriter
splits = ("train", "val")
def used():
    return [sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
before, began = sum(used()), time.perf_counter()
def whole(name, source):
    opened = open_corpus(source, data)
    index = out / "parts/d/index.json"
    if not index.is_file():
        entries = PartsWriter(opened, splits, out / "parts/d", out / "state", {}, 77).write(processes)
        write_json(index, {"kind": "parts", "name": "d", "source": source, "parts": entries})
    join_parts(name, opened, out / "corpora" / name, index, max_skipped=0.05, context_length=77, splits=splits)
whole("all", source)
once = sum(used()) - before, time.perf_counter() - began
stored = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
if source["from"] == "urls":
    whole("half", {**source, "pairs": int(sys.argv[5])})
peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps({"cpu": once[0], "wall": once[1], "both": sum(used()) - before, "peak": peak / 1024, "MB": stored / 1e6}))
"""


def downloaded(folder: Path, parts: int, rows: int) -> None:
    """A data set as a download leaves it: seven rows in ten have an image."""
    images = [photo(seed, 95) for seed in range(64)]
    for name in ("plan", "shards", "accounts"):
        (folder / "d" / name).mkdir(parents=True)
    request = {"subset": {"pairs": parts * rows, "seed": 0}}
    plan = {"chosen": parts * rows, "asked": request, "parts": [{"rows": rows}] * parts}
    (folder / "d/plan/plan.json").write_text(json.dumps(plan))
    draw = np.random.default_rng(0)
    for part in range(parts):
        path = folder / f"d/shards/{part:05d}.tar"
        with tarfile.open(path, "w") as tar:
            for row in draw.permutation(rows)[: int(0.7 * rows)].tolist():
                place = part * rows + row
                caption = " ".join(draw.choice(WORDS.split(), int(draw.integers(5, 40))))
                record = {"place": place, "url": f"http://a.example/{place}", "caption": caption, "status": "success"}
                image = images[place % len(images)]
                for ending, content in (
                    ("jpg", image),
                    ("json", json.dumps(record).encode()),
                    ("txt", caption.encode()),
                ):
                    info = tarfile.TarInfo(f"{part:05d}{row:05d}.{ending}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        status = path.stat()
        account = {"sha256": "0" * 64, "files": {path.name: [status.st_size, status.st_mtime_ns]}}
        account["tar"] = sha256_file(path)
        (folder / f"d/accounts/{part:05d}.json").write_text(json.dumps(account))


def measured(data: Path, out: Path, processes: int, pairs: int, source: dict[str, Any]) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(data), str(out), str(processes), json.dumps(source), str(pairs // 2)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "MDC_DATA": str(data)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    output: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return output


def samples(corpus: Path, split: str) -> str:
    """sha256 over the samples of a split, whatever shards they lie in."""
    digest, reader = hashlib.sha256(), ShardReader(corpus, split)
    for number in range(len(reader)):
        key, image, record = reader.read(number)
        digest.update(key.encode() + image + json.dumps(record, sort_keys=True).encode())
    return digest.hexdigest()


def main() -> None:
    parser = rows.parser(__doc__, parts=8, rounds=3)
    parser.add_argument("--rows", type=int, default=1000, help="of each part; seven in ten have an image")
    parser.add_argument("--mirror", action="store_true", help="tars of others, whose images are decoded")
    args = rows.arguments(parser, parts=4, rows=200, rounds=1)
    source, corpora = (SOURCE, ("all", "half")) if not args.mirror else ({**SOURCE, "from": "mirror"}, ("all",))
    variants = {"1 process": 1, "2 processes": 2}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        downloaded(folder / "data", args.parts, args.rows)
        os.environ["MDC_DATA"] = str(folder / "data")
        if args.mirror:
            (folder / "data/d/shards").rename(folder / "data/d/mirror")
        pairs = args.parts * int(0.7 * args.rows)
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
        digests: set[tuple[str, ...]] = set()
        for turn in range(args.rounds):
            for name, processes in variants.items():
                out = folder / f"out-{turn}-{name}"
                began = time.perf_counter()
                all_rows = args.parts * args.rows
                rounds[name].append(measured(folder / "data", out, processes, all_rows, source))
                print(f"round {turn + 1}, {name}: {time.perf_counter() - began:.1f} s", file=sys.stderr)
                digests.add(
                    tuple(samples(out / "corpora" / one, split) for one in corpora for split in ("train", "val"))
                )
                subprocess.run(["rm", "-rf", str(out)], check=True)
    assert len(digests) == 1, "the ways wrote other samples"
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, {pairs:,} pairs in {args.parts} parts, median of {args.rounds} rounds"
    )
    for name, runs in rounds.items():
        middle = {key: statistics.median(one[key] for one in runs) for key in runs[0]}
        print(
            f"{name}: {pairs / middle['cpu']:,.0f} pairs a core-second, {pairs / middle['wall']:,.0f} pairs a second, "
            f"with a corpus of half of them {middle['both']:.1f} core-seconds, peak {middle['peak']:.0f} MiB, "
            f"{middle['MB']:.2f} MB on disk"
        )
    tars = "pairs of a mirror" if args.mirror else "downloaded pairs"
    what, setting = f"cutting {pairs:,} {tars} into shards", f"{args.parts} parts of {args.rows} rows"
    series = {name: {key: [one[key] for one in runs] for key in runs[0]} for name, runs in rounds.items()}
    one, two = series["1 process"], series["2 processes"]
    table_rows = [rows.compared(f"{what}, 2 processes", "1 process", "s", two["wall"], one["wall"], setting)]
    table_rows.append(rows.alone(what, "processor s", one["cpu"], setting))
    rows.write("shards", table_rows, args.results)


if __name__ == "__main__":
    main()
