"""Does training teach the encoder anything? Each method against its own initial weights, on the embedded probes.

Over a method's rows of Table 1 (every corpus and backbone) and the embedded-world probes, the mean gain in points of
top-1 accuracy over the untrained encoder with the same pooling and seed, with a paired 95 % interval: for each seed by
bootstrap over test items, and over the seeds by Student's t. Digits are reported, not counted.

    snakemake probe_all --cores all && python bench/learns.py
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np

from mdc.config import load
from mdc.jobs import Run, runs
from mdc.records import read_json
from mdc.report.items import ProbeItems, read_items
from mdc.statistics.intervals import bootstrap_average, t_interval


def items_of(folder: Path) -> dict[str, ProbeItems]:
    """Per-item results of an encoder, by probe."""
    record = read_json(folder / "probe.json")
    return dict(read_items(folder / record["items"]["file"], record["items"]["sha256"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("--scale", default="mini")
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    params = load(args.params, args.scale)
    sets = params.current().data.probes
    embedded = [name for name in params.current().tables.table1.probes if sets[name].source.kind == "scenes"]
    other = [name for name in params.current().tables.table1.probes if name not in embedded]
    root = args.results / args.scale / "probe"
    by_method: dict[str, dict[int, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs(params):
        by_method[run.method][run.seed].append(run)
    for method, seeds in by_method.items():
        label = params.methods[method].label
        pooling = params.methods[method].pooling
        means = []
        for seed, rows in seeds.items():
            gains: dict[str, list[np.ndarray]] = defaultdict(list)
            for run in rows:
                trained = items_of(root / run.id)
                control = items_of(root / "untrained" / run.backbone / pooling / f"s{seed}")
                for name in trained:
                    assert trained[name].ids == control[name].ids
                    gains[name].append(np.asarray(trained[name].value) - np.asarray(control[name].value))
            # the rows share their test items: an item drawn is drawn for all of them
            arrays = [np.mean(gains[name], axis=0) for name in embedded]
            interval = bootstrap_average(arrays, np.random.default_rng(0), 2000, contrast=True).times(100)
            means.append(interval.value / 100)
            each = ", ".join(f"{name} {100 * np.mean(gains[name]):+.1f}" for name in [*embedded, *other])
            print(
                f"{label:8s} seed {seed}: {interval.value:+.2f} points [{interval.low:+.2f}, {interval.high:+.2f}] "
                f"over {len(rows)} rows; {each}"
            )
        if len(means) > 2:
            over = t_interval(np.asarray(means)).times(100)
            print(f"{label:8s} {len(means)} seeds: {over.value:+.2f} points [{over.low:+.2f}, {over.high:+.2f}] (t)")


if __name__ == "__main__":
    main()
