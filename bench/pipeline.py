"""What Table 1 costs from nothing: wall time, where it goes by rule, and peak memory of the whole process tree.

Clones the repository into a new folder, runs Snakemake there, and samples the PSS (memory, shared pages counted once)
of Snakemake and all it started. Then runs it again, when nothing is to be done.

With ``--against REV`` that revision makes its own target at the same time, each with half of the cores, so that whatever slows
the machine down slows both; what is compared is processor time, of Snakemake and all its jobs. Both use this environment.

    python bench/pipeline.py --target results/table1.csv --cores 2 --against bcb5b49
"""

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
BIN = Path(sys.executable).parent


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


def cloned(folder: Path, revision: str, scale: str, seeds: list[int] | None) -> dict[str, str]:
    """The repository at a revision in ``folder``, with other seeds if they are given; the environment of its commands."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    subprocess.run(["git", "checkout", "--quiet", revision], cwd=folder, check=True)
    if seeds:
        file = folder / f"scales/{scale}.yaml"
        values = yaml.safe_load(file.read_text())
        values["pretrain"]["seeds"] = seeds
        file.write_text(yaml.safe_dump(values, sort_keys=False))
    return {**os.environ, "PYTHONPATH": str(folder / "src"), "PATH": f"{BIN}:{os.environ['PATH']}"}


def side_by_side(command: list[str], folders: dict[str, tuple[Path, dict[str, str]]]) -> dict[str, tuple[float, float]]:
    """(processor seconds, seconds) of the same command in each folder, begun at the same time."""
    began = time.perf_counter()
    running, times = {}, {}
    for name, (folder, environment) in folders.items():
        log = (folder / "bench.log").open("a")
        running[subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log).pid] = name
    while running:
        pid, status, used = os.wait3(0)
        name = running.pop(pid)
        if status:
            raise SystemExit(f"{' '.join(command)} failed; see {folders[name][0] / 'bench.log'}")
        times[name] = used.ru_utime + used.ru_stime, time.perf_counter() - began
        print(f"{name}: {times[name][0]:.0f} processor seconds, {times[name][1] / 60:.1f} min", flush=True)
    return times


def compare(args: argparse.Namespace, folder: Path, command: list[str], what: str) -> None:
    """The target made by this commit and by another one, and the jobs of each by rule."""
    cores = max(1, int(args.cores) // 2)
    command = [*command, "--cores", str(cores)]
    places = {name: folder / name for name in ("HEAD", args.against)}
    clones = {name: (place, cloned(place, name, args.scale, args.seeds)) for name, place in places.items()}
    times = side_by_side(command, clones)
    (ours, _), (theirs, _) = times["HEAD"], times[args.against]
    setting = f"{cores} of {os.cpu_count()} cores each"
    peer = f"this project at {args.against}"
    rows.write("pipeline", [rows.compared(what, peer, "processor s", [ours], [theirs], setting)], args.results)
    print(f"{what}: {theirs / ours:.2f} times as fast")
    for name, place in places.items():
        print(f"{name}:")
        tell_rules(place)


def tell_rules(folder: Path) -> None:
    for rule, (count, total) in sorted(by_rule(folder).items(), key=lambda item: -item[1][1]):
        print(f"  {rule:20s} {count:3d} jobs  {total:8.1f} s in all  {total / count:7.1f} s each")


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
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of those of the scale")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two looks at the memory")
    parser.add_argument("--folder", type=Path, help="keep the run here (default: a temporary folder)")
    parser.add_argument("--against", metavar="REV", help="a revision of this repository that makes the target beside")
    args = rows.arguments(parser)
    folder = args.folder or Path(tempfile.mkdtemp(prefix="mdc-bench-"))
    snakemake = [str(BIN / "snakemake"), args.target, "--config", f"scale={args.scale}"]
    if args.against:
        compare(args, folder, snakemake, f"{args.target} at {args.scale}, from nothing")
        return
    environment = cloned(folder, "HEAD", args.scale, args.seeds)
    snakemake += ["--cores", args.cores]
    seconds, peak = watched(snakemake, folder, environment, args.every)
    again, _ = watched(snakemake, folder, environment, args.every)
    print(f"{args.target} at {args.scale}, {args.cores} cores: {seconds / 60:.1f} min, peak PSS {peak / 2**30:.2f} GiB")
    print(f"again, with nothing to do: {again:.1f} s")
    what, setting = f"{args.target} at {args.scale}", f"{args.cores} cores, peak PSS {peak / 2**30:.2f} GiB"
    measured = [rows.alone(f"{what}, from nothing", "s", [seconds], setting)]
    rows.write("pipeline", [*measured, rows.alone(f"{what}, nothing to do", "s", [again], setting)], args.results)
    print(f"imports of a training process: {import_seconds(folder, environment):.1f} s")
    tell_rules(folder)
    print(f"run kept at {folder}")


if __name__ == "__main__":
    main()
