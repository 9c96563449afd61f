"""Does training teach the encoder anything? Each method against its own initial weights, on the embedded probes.

Over a method's rows of Table 1 (every corpus and backbone) and the embedded-world probes, the mean gain in points of
top-1 accuracy over the system's control, with a paired interval (see docs/statistics.md).

    snakemake probe_all --cores all && python bench/learns.py
"""

import argparse
from collections import defaultdict
from pathlib import Path

from mdc.plan.config.read import load
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.shown import ArtefactJob
from mdc.report.results import Pair, Results
from mdc.report.statistics.estimate import estimate
from mdc.report.statistics.replicates import mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("--scale", default="mini")
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    plan = Plan(load(args.params, args.scale))
    job = plan.jobs["table1"]
    assert isinstance(job, ArtefactJob)
    folder = ScaleFolder(args.results / args.scale)
    results = Results(job, {name: folder.record(name, "probe") for name in job.inputs})
    kinds = {name: probe.source.kind for name, probe in plan.scale.data.probes.items()}
    probes = [column.key for column in job.columns if kinds[column.key] == "scenes"]
    rows: dict[str, list[Pair]] = defaultdict(list)
    for pair in results.gains:
        rows[results.systems[pair[0]].method.label].append(pair)
    for label, pairs in rows.items():
        # an item drawn is drawn for all
        gain = estimate(mean([results.difference(pair, probe) for pair in pairs for probe in probes]), contrast=True)
        print(
            f"{label:8s} {gain.value:+.2f} points [{gain.low:+.2f}, {gain.high:+.2f}] over {len(pairs)} rows, "
            f"{len(job.seeds)} seed{'s' if len(job.seeds) > 1 else ''}"
        )


if __name__ == "__main__":
    main()
