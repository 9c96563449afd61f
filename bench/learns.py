"""Does training teach the encoder anything? Each method against its own initial weights, on the embedded probes.

Over a method's rows of Table 1 (every corpus and backbone) and the embedded-world probes, the mean gain in points of
top-1 accuracy over the system's control, with a paired interval (see docs/statistics.md).

    snakemake probe_all --cores all && python bench/learns.py
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from mdc.report.estimates import Estimator

from mdc.plan.config.read import load
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.shown import ProbingJob, System
from mdc.plan.records import read_json
from mdc.report.items import ProbeItems, read_items


def items_of(folder: ScaleFolder, record: str) -> dict[str, ProbeItems]:
    """Per-item results of an encoder, by probe."""
    path = folder.record(record, "probe")
    ((name, sha256),) = read_json(path)["outputs"].items()
    return read_items(path.parent / name, sha256)


def mean_of(members: list[dict[str, ProbeItems]], probes: list[str]) -> dict[str, ProbeItems]:
    """One encoder in the place of several that were tested on the same items: an item drawn is drawn for all."""
    return {
        name: replace(members[0][name], value=np.mean([np.asarray(one[name].value) for one in members], axis=0))
        for name in probes
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("--scale", default="mini")
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    plan = Plan(load(args.params, args.scale))
    job = plan.jobs["table1"]
    assert isinstance(job, ProbingJob)
    folder, estimator = ScaleFolder(args.results / args.scale), Estimator()
    kinds = {name: probe.source.kind for name, probe in plan.scale.data.probes.items()}
    probes = [column.key for column in job.columns if kinds[column.key] == "scenes"]
    by_key = {system.key: system for system in job.systems}
    rows: dict[str, list[System]] = defaultdict(list)
    for system in job.systems:
        if system.control is not None:
            rows[system.method.label].append(system)
    for label, systems in rows.items():
        sides = []
        for group in (systems, [by_key[system.control] for system in systems if system.control]):
            seeds = range(len(job.seeds))
            sides.append([mean_of([items_of(folder, s.records[k]) for s in group], probes) for k in seeds])
        gain = estimator.difference(sides[0], sides[1], probes)
        print(
            f"{label:8s} {gain.value:+.2f} points [{gain.low:+.2f}, {gain.high:+.2f}] over {len(systems)} rows, "
            f"{len(job.seeds)} seed{'s' if len(job.seeds) > 1 else ''}"
        )


if __name__ == "__main__":
    main()
