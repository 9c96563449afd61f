"""What it costs to be exact and to survive a kill: saving, resuming and hashing, as a share of a training's own time.

Trains one run of scale mini as its job does (same corpus, same steps), with a clock around every part that a careless
pipeline would not have: the states saved on the way, the final weights, the hashes of shards and results. Then resumes
the run from its last state. One process, threads as the recipe says; medians of several runs.

    python bench/resilience.py --repeats 3
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from mdc import jobs
from mdc.config import Params, Runtime, load
from mdc.processes.group import ALONE
from mdc.records import write_json
from mdc.shards.writer import write_corpus
from mdc.text import Vocabulary
from mdc.training import run, trainer
from mdc.training.checkpoint import LATEST

# what is timed: (module, function) → part
PARTS = {
    (trainer, "save_state"): "states saved on the way",
    (run, "save_weights"): "final weights saved",
    (run, "read_index"): "shards hashed before training",
    (run, "sha256_file"): "results hashed",
    (trainer, "load_state"): "state looked for or loaded",
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
    """Stands for a kill between the last state and the end."""


def prepare(params: Params, chosen: jobs.Run, folder: Path) -> None:
    """The run's corpus and vocabulary."""
    config = jobs.corpus_config(params, chosen.corpus)
    index = write_corpus(
        config["name"],
        config["source"],
        folder / "shards",
        folder,
        samples_per_shard=config["samples_per_shard"],
        max_skipped=config["max_skipped"],
        context_length=config["protocol"]["context_length"],
    )
    write_json(folder / "vocabulary.json", Vocabulary.corpus(index["pieces"]).to_json())


def one(config: dict[str, Any], runtime: Runtime, folder: Path, name: str) -> tuple[float, dict[str, float]]:
    """(seconds of the whole job without imports, seconds by part)."""
    with clocks() as spent, contextlib.redirect_stderr(io.StringIO()):
        began = time.perf_counter()
        shards, vocabulary = folder / "shards/index.json", folder / "vocabulary.json"
        out, state = folder / "out" / name, folder / "state" / name
        run.pretrain(config, shards, vocabulary, runtime, out, state, torch.device("cpu"), ALONE)
        return time.perf_counter() - began, dict(spent)


def resume(config: dict[str, Any], runtime: Runtime, folder: Path) -> float:
    """Seconds to find, read and restore the last state of a run that was stopped before it wrote its results."""

    def stop(*_: Any) -> None:
        raise Stopped

    kept, run.save_weights = run.save_weights, stop
    try:
        with contextlib.suppress(Stopped):
            one(config, runtime, folder, "stopped")
    finally:
        run.save_weights = kept
    print(f"a state: {(folder / 'state/stopped' / LATEST).stat().st_size / 2**20:.1f} MiB")
    _, spent = one(config, runtime, folder, "stopped")
    return spent["state looked for or loaded"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("--scale", default="mini")
    parser.add_argument("--run", help="default: the scale's last MDC run")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    params = load(args.params, args.scale)
    chosen = jobs.parse_run(params, args.run) if args.run else [r for r in jobs.runs(params) if r.method == "mdc"][-1]
    torch.set_num_threads(jobs.recipe(params, chosen).threads)
    config, runtime = jobs.run_config(params, chosen), params.current().pretrain.runtime
    with tempfile.TemporaryDirectory(prefix="mdc-resilience-") as name:
        folder = Path(name)
        prepare(params, chosen, folder)
        one(config, runtime, folder, "warm-up")  # the first in a process pays for its memory
        measured = [one(config, runtime, folder, str(k)) for k in range(args.repeats)]
        loaded = resume(config, runtime, folder)
        checkpoint = json.loads((folder / "out/0/run.json").read_text())["checkpoint"]["bytes"]
    whole = statistics.median(seconds for seconds, _ in measured)
    print(f"{chosen.id}, scale {args.scale}: {whole:.2f} s, a state every {runtime.checkpoint_every} steps")
    print(f"final weights: {checkpoint / 2**20:.1f} MiB")
    total = []
    for part in PARTS.values():
        seconds = statistics.median(spent.get(part, 0.0) for _, spent in measured)
        print(f"  {part:32s} {1000 * seconds:8.1f} ms  {100 * seconds / whole:6.2f} %")
    for seconds, spent in measured:
        total.append(sum(spent.values()) / seconds)
    print(
        f"all of it: {100 * statistics.median(total):.2f} % of the job's time (each run: "
        f"{', '.join(f'{100 * share:.2f}' for share in total)})"
    )
    print(f"a resumed run reads its state in {1000 * loaded:.1f} ms, {100 * loaded / whole:.2f} %")


if __name__ == "__main__":
    main()
