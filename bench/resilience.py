"""What it costs to be exact and to survive a kill: saving, resuming and hashing, as a share of a training's own time.

Trains one run of scale mini as its job does (same corpus, same steps), with a clock around every part that a careless
pipeline would not have: the states saved on the way, the final weights, the hashes of shards and results. Then resumes
the run from its last state. One process, threads as the recipe says; medians of several runs.

    python bench/resilience.py --repeats 3
"""

import contextlib
import io
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import rows
import torch

import mdc.training.corpus as corpus
import mdc.training.results as results
import mdc.training.run as run
import mdc.training.state as saver
from mdc.app.cli import do
from mdc.plan.config.read import load
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import json_text, write_text
from mdc.training.state import LATEST, States

# what is timed: (module or class, function) → part
PARTS = {
    (saver, "copied"): "states copied on the way",
    (saver.Saver, "wait"): "states waited for",
    (results, "save_weights"): "final weights saved",
    (corpus, "read_index"): "shards hashed before training",
    (results, "sha256_file"): "results hashed",
    (States, "load"): "state looked for or loaded",
}


@contextlib.contextmanager
def clocks() -> Iterator[dict[str, float]]:
    """Seconds spent in each part while the block runs."""
    spent: dict[str, float] = defaultdict(float)

    def timed(function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent[part] += time.perf_counter() - began

        return wrapped

    before = {place: getattr(*place) for place in PARTS}
    for (module, name), part in PARTS.items():
        setattr(module, name, timed(before[module, name], part))
    try:
        yield spent
    finally:
        for (module, name), function in before.items():
            setattr(module, name, function)


class Stopped(Exception):
    """Simulates a kill between the last state and the end."""


def run_once(job: PretrainJob, folder: ScaleFolder, root: Path, name: str) -> tuple[float, dict[str, float]]:
    """(seconds of the whole job without imports, seconds by part)."""
    call = Call(job, folder, root / "out" / name, root / "runtime.json", root / "state" / name)
    with clocks() as spent, contextlib.redirect_stderr(io.StringIO()):
        began = time.perf_counter()
        run.main(call)
        return time.perf_counter() - began, dict(spent)


def resume(job: PretrainJob, folder: ScaleFolder, root: Path) -> float:
    """Seconds to find, read and restore the last state of a run that was stopped before it wrote its results."""

    def stop(*_: Any) -> None:
        raise Stopped

    with patch.object(results, "save_weights", stop), contextlib.suppress(Stopped):
        run_once(job, folder, root, "stopped")
    print(f"a state: {(root / 'state/stopped' / LATEST).stat().st_size / 2**20:.1f} MiB")
    _, spent = run_once(job, folder, root, "stopped")
    return spent["state looked for or loaded"]


def main() -> None:
    parser = rows.parser(__doc__.splitlines()[0], repeats=3)
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("--scale", default="mini")
    parser.add_argument("--run", help="its id; default: the scale's last MDC run")
    args = rows.arguments(parser, repeats=1)
    plan = Plan(load(args.params, args.scale))
    runs = {run.id: run for run in plan.runs}
    if args.run and args.run not in runs:
        parser.error(f"no run {args.run} at scale {args.scale}; allowed: {', '.join(runs)}")
    chosen = runs[args.run] if args.run else [run for run in plan.runs if run.method == "mdc"][-1]
    job, runtime = plan.pretrain(chosen), plan.scale.training.runtime
    torch.set_num_threads(job.recipe.threads)
    with tempfile.TemporaryDirectory(prefix="mdc-resilience-") as name:
        root = Path(name)
        folder = ScaleFolder(root / "results")
        write_text(root / "runtime.json", json_text(runtime.model_dump(mode="json")))
        for needed in (name for name in plan.jobs if name in set(plan.ancestors(job.job))):
            do(plan.jobs[needed].verb, Call(plan.jobs[needed], folder, folder.job(needed)))
        run_once(job, folder, root, "warm-up")  # the first in a process pays for its memory
        measured = [run_once(job, folder, root, str(k)) for k in range(args.repeats)]
        loaded = resume(job, folder, root)
        weights = (root / "out/0/checkpoint.safetensors").stat().st_size
    duration = statistics.median(seconds for seconds, _ in measured)
    print(f"{chosen.id}, scale {args.scale}: {duration:.2f} s, states {runtime.save_every} s apart or more")
    print(f"final weights: {weights / 2**20:.1f} MiB")
    total = []
    for part in PARTS.values():
        seconds = statistics.median(spent.get(part, 0.0) for _, spent in measured)
        print(f"  {part:32s} {1000 * seconds:8.1f} ms  {100 * seconds / duration:6.2f} %")
    for seconds, spent in measured:
        total.append(sum(spent.values()) / seconds)
    print(
        f"all of it: {100 * statistics.median(total):.2f} % of the job's time (each run: "
        f"{', '.join(f'{100 * share:.2f}' for share in total)})"
    )
    bare = [seconds - sum(spent.values()) for seconds, spent in measured]
    what = f"{chosen.id} at {args.scale}, with all that survives a kill"
    row = rows.compared(what, "the same less its states and hashes", "s", [seconds for seconds, _ in measured], bare)
    rows.write("resilience", [row], args.results)
    print(f"a resumed run reads its state in {1000 * loaded:.1f} ms, {100 * loaded / duration:.2f} %")


if __name__ == "__main__":
    main()
