"""All benches, each in a process of its own, and then the one table: what `make bench` runs.

A bench that breaks down leaves a row that says so; the others go on, the table is made, and the exit code is 1. Rows that this
machine left before go when their bench begins; those of other machines stay.

    python bench/every.py [--quick] [BENCH ...]
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import rows
import table

from mdc.plan.records import UserError, write_json

BENCHES = (
    *("step", "clip_step", "probe", "resilience", "reading", "loader"),
    *("start", "plan", "download", "million", "shards", "score", "zero_shot", "diffuse", "caption"),
)


def run_bench(bench: str, options: list[str], folder: Path) -> bool:
    """Run a bench; whether it ended well."""
    path = folder / f"rows/{bench}.json"
    if path.is_file():
        try:
            kept_rows = [row for row in rows.read(path) if row.machine != rows.machine()]
        except UserError as error:
            raise SystemExit(f"bench/every.py: {error}; remove it") from None
        write_json(path, {"rows": [row.model_dump() for row in kept_rows]})
    call = [sys.executable, str(Path(__file__).with_name(f"{bench}.py")), "--results", str(folder), *options]
    began = time.perf_counter()
    print(f"== bench/{bench}.py", flush=True)
    code = subprocess.run(call, env={**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1"}).returncode
    print(f"== {time.perf_counter() - began:.0f} s", flush=True)
    if code:
        again = " ".join(["python", f"bench/{bench}.py", *options])
        rows.write(bench, [rows.failure(bench, f"it ended with code {code}; run `{again}` to see why")], folder)
    return not code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=f"of {', '.join(BENCHES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="the smallest sensible sizes, to see that all works")
    parser.add_argument("--results", type=Path, default=rows.FOLDER, help="default: results/bench")
    args = parser.parse_args()
    if unknown := set(args.benches) - set(BENCHES):
        parser.error(f"no bench {', '.join(sorted(unknown))}; allowed: {', '.join(BENCHES)}")
    options = ["--quick"] if args.quick else []
    good = [run_bench(bench, options, args.results) for bench in args.benches or BENCHES]
    table.write(args.results)
    raise SystemExit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
