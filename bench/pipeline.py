"""What Table 1 costs from nothing: wall time, where it goes by rule, and peak memory of the whole process tree.

Clones the repository into a new folder, runs Snakemake there, and samples the PSS (memory, shared pages counted once)
of Snakemake and all it started. Then runs it again, when nothing is to be done.

    python bench/pipeline.py --target results/table1.csv --cores 2
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import psutil
import rows
import yaml

ROOT = Path(__file__).resolve().parent.parent


def tree_pss(process: psutil.Process) -> int:
    """Bytes of PSS of a process and all its descendants; one that ends meanwhile counts nothing."""
    total = 0
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0
    for member in family:
        try:
            total += member.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def watched(command: list[str], folder: Path, environment: dict[str, str], every: float) -> tuple[float, int]:
    """(seconds, peak PSS) of a command."""
    began = time.perf_counter()
    with (folder / "bench.log").open("a") as log:
        process = psutil.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        peak = 0
        while process.poll() is None:
            peak = max(peak, tree_pss(process))
            time.sleep(every)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed; see {folder / 'bench.log'}")
    return time.perf_counter() - began, peak


def by_rule(folder: Path) -> dict[str, tuple[int, float]]:
    """Jobs and their seconds by rule, from what Snakemake recorded (one record a file: a job's are counted once)."""
    jobs: dict[tuple[str, str], float] = {}
    for path in (folder / ".snakemake/metadata").rglob("*"):
        if path.is_file():
            record = json.loads(path.read_text())
            jobs[record["rule"], record["shellcmd"]] = record["endtime"] - record["starttime"]
    totals: dict[str, list[float]] = defaultdict(list)
    for (rule, _), seconds in jobs.items():
        totals[rule].append(seconds)
    return {rule: (len(spent), sum(spent)) for rule, spent in totals.items()}


def import_seconds(folder: Path, environment: dict[str, str]) -> float:
    """Seconds a training process spends before its own work: interpreter and imports (warm file cache)."""
    code = "import mdc.training.run"
    times = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True)
        times.append(time.perf_counter() - began)
    return sorted(times)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="results/table1.csv")
    parser.add_argument("--cores", default="2")
    parser.add_argument("--scale", default="mini")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of those of params.yaml")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two looks at the memory")
    parser.add_argument("--folder", type=Path, help="keep the run here (default: a temporary folder)")
    args = rows.arguments(parser)
    folder = args.folder or Path(tempfile.mkdtemp(prefix="mdc-bench-"))
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    if args.seeds:
        params = folder / "params.yaml"
        values = yaml.safe_load(params.read_text())
        values["scales"][args.scale]["pretrain"]["seeds"] = args.seeds
        params.write_text(yaml.safe_dump(values, sort_keys=False))
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    snakemake = [str(Path(sys.executable).parent / "snakemake"), args.target, "--cores", args.cores]
    snakemake += ["--config", f"scale={args.scale}"]
    seconds, peak = watched(snakemake, folder, environment, args.every)
    again, _ = watched(snakemake, folder, environment, args.every)
    print(f"{args.target} at {args.scale}, {args.cores} cores: {seconds / 60:.1f} min, peak PSS {peak / 2**30:.2f} GiB")
    print(f"again, with nothing to do: {again:.1f} s")
    what, setting = f"{args.target} at {args.scale}", f"{args.cores} cores, peak PSS {peak / 2**30:.2f} GiB"
    measured = [rows.alone(f"{what}, from nothing", "s", [seconds], setting)]
    rows.write("pipeline", [*measured, rows.alone(f"{what}, nothing to do", "s", [again], setting)], args.results)
    print(f"imports of a training process: {import_seconds(folder, environment):.1f} s")
    for rule, (count, total) in sorted(by_rule(folder).items(), key=lambda item: -item[1][1]):
        print(f"  {rule:20s} {count:3d} jobs  {total:8.1f} s in all  {total / count:7.1f} s each")
    print(f"run kept at {folder}")


if __name__ == "__main__":
    main()
