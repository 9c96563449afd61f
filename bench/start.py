"""How long a reader takes to start on millions of samples, and what it costs to hold many shards open.

Start: a split of 3,000 shards of 10,000 samples each, whose offsets are real and whose tars are sparse files; seconds and
resident memory of a fresh process until the index is verified (of so many bytes only the files' sizes) and the reader there, and
until it has opened every shard. Beside it, in the same run, the walk over the headers of fewer real samples, which is how readers
started before there were offsets. Aim: under 10 s and 200 MB at 30 million samples.

Open shards: samples in random order from 3,000 small shards, with 512 of them held open (as before) and with as many as the
limit of open files allows. The two take turns, round by round, and the ratio is the median over rounds.

    python bench/start.py --shards 3000 --walk 100000
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import rows
from tqdm import tqdm

from mdc.data.formats.foreign_tar import tar_samples
from mdc.data.formats.tar import TarWriter
from mdc.data.shards.index import ShardReader, read_index
from mdc.data.shards.offsets import offsets_name, write_offsets
from mdc.plan.records import sha256_file, write_json

RECORD = b'{"captions":["a photo of a dog near two boats"]}'
BEFORE = 512  # shards that were held open whatever the limit


def write_index(folder: Path, shards: list[dict[str, Any]]) -> None:
    """The index of a corpus of these training shards."""
    splits = {"train": {"samples": sum(shard["samples"] for shard in shards), "shards": shards}}
    index = {"kind": "corpus", "name": "start", "splits": splits, "skipped": {}, "pieces": []}
    write_json(folder / "index.json", index | {"captions": {"duplicate_share": {"16": 0.0}}})


def simulated(folder: Path, shards: int, per_shard: int) -> None:
    """Shards of which only the offsets have content; samples of 18 to 39 kB."""
    rng = np.random.default_rng(0)
    entries = []
    for number in tqdm(range(shards), desc="simulated shards", disable=None, leave=False):
        bounds = np.concatenate([[0], np.cumsum(512 * rng.integers(35, 77, per_shard))])
        path = folder / f"train-{number:05d}.tar"
        with path.open("wb") as file:
            file.truncate(size := int(bounds[-1]) + 1024)
        offsets = write_offsets(folder / offsets_name(path.name), bounds.tolist())
        entries.append({"file": path.name, "samples": per_shard, "bytes": size, "sha256": "0" * 64, "offsets": offsets})
    write_index(folder, entries)


def real(folder: Path, shards: int, per_shard: int, size: int) -> list[Path]:
    """Shards of which every sample can be read: an "image" of ``size`` bytes, a record, a text."""
    entries, paths = [], []
    for number in tqdm(range(shards), desc="real shards", disable=None, leave=False):
        path = folder / f"train-{number:05d}.tar"
        bounds = [0]
        with path.open("wb") as file:
            writer = TarWriter(file)
            for sample in range(per_shard):
                for extension, content in (("jpg", bytes(size)), ("json", RECORD), ("txt", RECORD)):
                    writer.add(f"{number:05d}{sample:05d}.{extension}", content)
                bounds.append(file.tell())
            writer.close()
        offsets = write_offsets(folder / offsets_name(path.name), bounds)
        size_of_all, sha256 = path.stat().st_size, sha256_file(path)
        entries.append(
            {"file": path.name, "samples": per_shard, "bytes": size_of_all, "sha256": sha256, "offsets": offsets}
        )
        paths.append(path)
    write_index(folder, entries)
    return paths


def resident() -> float:
    """MB of this process that lie in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def start(folder: Path) -> None:
    """In a process of its own: what a start takes. Imports are not counted; every run has them."""
    before = resident()
    began = time.perf_counter(), time.process_time()
    read_index(folder, verify="auto", kind="corpus")  # as a run does first; of so many bytes it compares the sizes
    reader = ShardReader(folder, "train")
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    print(
        f"start: {len(reader):,} samples in {seconds[0]:.3f} s ({seconds[1]:.4f} s of processor time), "
        f"{resident() - before:.0f} MB more, {resident():.0f} MB in all"
    )
    began = time.perf_counter(), time.process_time()
    for shard in range(len(reader.sizes)):
        reader._shards[shard]
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    print(
        f"each shard opened, its offsets hashed: {seconds[0]:.2f} s ({seconds[1]:.2f} s of processor time), "
        f"{len(reader._shards)} held open, {resident() - before:.0f} MB more, {resident():.0f} MB in all"
    )


def walk(paths: list[Path]) -> float:
    """Seconds of processor time a million samples that the walk over headers takes, the second of two."""
    for _ in range(2):
        began = time.process_time()
        samples = sum(1 for path in paths for _ in tar_samples(path))
        seconds = time.process_time() - began
    return 1e6 * seconds / samples


def open_shards(folder: Path, args: argparse.Namespace) -> None:
    """Random order over all shards, with few and with many held open."""
    readers = {"512 open": ShardReader(folder, "train", most=BEFORE), "as many as may be": ShardReader(folder, "train")}
    reads, rng = args.reads, np.random.default_rng(0)
    times: dict[str, list[float]] = {name: [] for name in readers}
    for number in range(args.rounds + 1):
        order = rng.integers(0, len(readers["512 open"]), reads).tolist()
        names = list(readers) if number % 2 else list(readers)[::-1]
        for name in names:
            began = time.process_time()
            for sample in order:
                readers[name].read(sample)
            if number:  # the first round looks at every shard for the first time
                times[name].append(1e6 * (time.process_time() - began) / reads)
    for name, each in times.items():
        held = len(readers[name]._shards)
        print(
            f"{name:18s} {statistics.median(each):6.1f} µs a sample   [{min(each):.1f}, {max(each):.1f}], {held} held"
        )
    few, many = times.values()
    what, unit = f"reading samples in random order from {args.shards:,} shards", "processor µs/sample"
    rows.write("start", [rows.compared(what, f"{BEFORE} shards held open", unit, many, few)], args.results)
    ratio = statistics.median(a / b for a, b in zip(few, many, strict=True))
    print(
        f"holding all open: {ratio:.2f} times as fast (processor time; a shared disk adds a journey for each opening)"
    )


def main() -> None:
    parser = rows.parser(__doc__.splitlines()[0], shards=3000, per_shard=10_000, rounds=5)
    parser.add_argument(
        "--walk", type=int, default=100_000, metavar="SAMPLES", help="of how many headers are walked over"
    )
    parser.add_argument("--reads", type=int, default=9000, help="samples that are read in a round")
    parser.add_argument("--start", type=Path, help=argparse.SUPPRESS)  # the process that is measured
    args = rows.arguments(parser, shards=30, walk=2000, reads=300, rounds=2)
    if args.start:
        start(args.start)
        return
    print(
        f"{platform.processor() or platform.machine()}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="mdc-start-") as name:
        folder = Path(name)
        for part in ("simulated", "walk", "small"):
            (folder / part).mkdir()
        simulated(folder / "simulated", args.shards, args.per_shard)
        samples = args.shards * args.per_shard
        measured = [sys.executable, __file__, "--start", str(folder / "simulated")]
        paths = real(folder / "walk", 2, args.walk // 2, 20_000)
        measured_times: list[float] = []
        walked: list[float] = []
        for _ in range(args.rounds):
            output = subprocess.run(measured, check=True, stdout=subprocess.PIPE, text=True).stdout
            print(output, end="", flush=True)
            measured_times.append(1e6 * float(output.split(" s of processor time")[0].rpartition("(")[2]) / samples)
            walked.append(walk(paths))
        print(f"the walk over headers before: {walked[-1]:.1f} s a million samples (measured on {args.walk:,})")
        what = f"a reader's start on {args.shards:,} shards of {args.per_shard:,} samples"
        peer, unit = "a walk over the tars' headers by tarfile", "processor s/million samples"
        rows.write("start", [rows.compared(what, peer, unit, measured_times, walked)], args.results)
        real(folder / "small", args.shards, 4, 2000)
        open_shards(folder / "small", args)


if __name__ == "__main__":
    main()
