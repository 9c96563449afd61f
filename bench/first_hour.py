"""The first hour on a machine with GPUs: what has never been run or timed there, in one report.

It needs no data. Each section runs in a process of its own, for a limited time, so one that fails or takes too long
ends no other, and its rows so far are kept. The most informative come first; sections without time left are listed.
``--out`` gets report.md, report.json and log.txt. With ``--quick`` tiny models pass through everything, on a CPU too.

    python bench/first_hour.py --out first-hour [--minutes 60] [--only tests,kernel] [--quick]
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import rows
import torch
from first_hour_runs import Found, Here, read_rows, section_call
from first_hour_sections import (
    cross_entropies,
    curves,
    gpu_tests,
    gradients_ready,
    group_rates,
    hours,
    memory,
    rates,
    two_hundred_steps,
    writing,
)

from mdc.plan.processes.group import local_rank
from mdc.training.device import choose_device

#: name → what measures it, and its seconds of eight minutes; it has more where more are left
SECTIONS: dict[str, tuple[Callable[..., Iterator[Found]], int]] = {
    "tests": (gpu_tests, 150),
    "steps": (two_hundred_steps, 150),
    "kernel": (cross_entropies, 40),
    "rates": (rates, 110),
    "memory": (memory, 45),
    "curves": (curves, 60),
    "gradients": (gradients_ready, 50),
    "writing": (writing, 40),
    "hours": (hours, 10),
}


# --- the report -------------------------------------------------------------------------------------------------------


def measure_section(name: str, path: Path, quick: bool) -> None:
    """Run a section in this process; ``path`` gets its rows as they come, from the first of several processes."""
    device = choose_device("auto", local_rank())
    torch.set_num_threads(1 if quick else min(os.cpu_count() or 1, 16))
    measure = group_rates if name == "group" else SECTIONS[name][0]
    measured: list[Found] = []
    for row in measure(Here(device, quick, "mini" if quick else "paper")):
        measured.append(row)
        print(json.dumps(row), flush=True)
        if local_rank() == 0:
            new = path.with_suffix(".new")
            new.write_text(json.dumps(measured), encoding="utf-8")
            new.replace(path)


def run_section(name: str, limit: float, quick: bool, log: Path) -> Found:
    """A section in a process of its own for at most ``limit`` seconds: its rows, and how it ended."""
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "NO_ALBUMENTATIONS_UPDATE": "1", "TORCH_LOGS": "recompiles"}
    with tempfile.TemporaryDirectory() as folder, log.open("a", encoding="utf-8") as stream:
        stream.write(f"\n===== {name}\n")
        stream.flush()
        path = Path(folder) / "rows.json"
        call = [sys.executable, *section_call(name, path, quick)]
        process = subprocess.Popen(call, stdout=stream, stderr=stream, env=environment, start_new_session=True)
        try:
            code = process.wait(limit)
            ended = "" if code == 0 else f"it ended with code {code}"
        except subprocess.TimeoutExpired:
            ended = f"it was ended after {limit:.0f} s"
        finally:
            end(process)
        measured = read_rows(path)
    lines = [line for line in log.read_text(encoding="utf-8").split(f"===== {name}\n")[-1].splitlines() if line.strip()]
    ending = {"ended": ended, "last lines": [line[:200] for line in lines[-8:]] if ended else []}
    return {"seconds": time.perf_counter() - began, **ending, "rows": measured}


def end(process: subprocess.Popen[bytes]) -> None:
    """End a section that still runs; torchrun, asked first, ends its workers, which are in no group of ours."""
    running = process.poll() is None
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        if running and number == signal.SIGTERM:
            time.sleep(3)
    process.wait()


def machine() -> Found:
    """What computes here."""
    gpus: list[str] = []
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit", "--format=csv,noheader"]
        gpus = subprocess.run(query, capture_output=True, text=True).stdout.strip().splitlines()
    return {"GPUs": gpus, "processor": rows.machine(), "versions": rows.installed(), "command": rows.command()}


def write_report(folder: Path, about: Found, sections: dict[str, Found]) -> None:
    """report.json, and report.md with a table for each section."""
    (folder / "report.json").write_text(json.dumps({**about, "sections": sections}, indent=1) + "\n", encoding="utf-8")
    text = [f"# The first hour on {'; '.join(about['GPUs']) or 'a machine without a GPU'}", ""]
    text += [f"{about['processor']}. {', '.join(f'{k} {v}' for k, v in about['versions'].items())}.", ""]
    text += [f"    {about['command']}", ""]
    for name, section in sections.items():
        description = " ".join(str(SECTIONS[name][0].__doc__).split())
        text += [f"## {name}", "", f"{description} {section['seconds']:.0f} s.", ""]
        if section["ended"]:
            text += [f"**{section['ended']}**", "", *(f"    {line}" for line in section["last lines"]), ""]
        columns = list(dict.fromkeys(key for row in section["rows"] for key in row))
        if columns:
            text += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
            text += [f"| {' | '.join(_cell(row.get(key)) for key in columns)} |" for row in section["rows"]]
        text.append("")
    (folder / "report.md").write_text("\n".join(text), encoding="utf-8")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) and abs(value) < 1000 else str(value)
    return f"{value:,.0f}" if isinstance(value, float) and abs(value) >= 1000 else text.replace("|", "¦")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("first-hour"), help="the folder of the report")
    parser.add_argument("--minutes", type=float, default=60.0, help="sections for which no time is left are dropped")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"of {','.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="tiny models, to see that all works")
    parser.add_argument("--section", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.section:
        return measure_section(args.section, args.out, args.quick)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # with the section that runs
    chosen = args.only.split(",")
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; allowed: {', '.join(SECTIONS)}")
    args.out.mkdir(parents=True, exist_ok=True)
    log, ends = args.out / "log.txt", time.monotonic() + 60 * args.minutes
    log.write_text("", encoding="utf-8")
    about, sections = machine(), dict[str, Found]()
    names = [name for name in SECTIONS if name in chosen]
    for place, name in enumerate(names):
        left, budget = ends - time.monotonic(), SECTIONS[name][1]
        limit = min(left, max(budget * args.minutes / 8, left * budget / sum(SECTIONS[n][1] for n in names[place:])))
        if name == "hours":
            here = Here(torch.device("cpu"), args.quick, "mini" if args.quick else "paper")
            measured = list(hours(here, sections.get("rates", {}).get("rows", [])))
            sections[name] = {"seconds": 0.0, "ended": "", "last lines": [], "rows": measured}
        elif left < 10:
            sections[name] = {"seconds": 0.0, "ended": "dropped: no time was left", "last lines": [], "rows": []}
        else:
            sections[name] = run_section(name, limit, args.quick, log)
        section = sections[name]
        print(f"{name}: {section['seconds']:.0f} s, {len(section['rows'])} rows {section['ended']}", flush=True)
        write_report(args.out, about, sections)
    print((args.out / "report.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
