"""The verb ``mdc probe MODEL --probes …``: any encoder on probes of the scale, by the jobs of the tables.

Their outputs are removed; features stay in the cache of the scale's jobs.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as parquet

from mdc.app.commands.parameters import plan_of
from mdc.app.probed_model import ENCODER_NAME, Probed, probed
from mdc.data.obtain.show import aligned
from mdc.evaluation import probe
from mdc.plan.config.scale import Probing
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError, did_you_mean, read_json, write_json
from mdc.report.frame import AVERAGE
from mdc.report.items import items_of
from mdc.report.results import METRICS
from mdc.report.statistics.estimate import Estimate, estimate
from mdc.report.statistics.replicates import mean, resampled
from mdc.training.precompute import import_encoder

#: the parameters that were installed with this package; a repository's own lie in its first folder
INSTALLED = Path(sys.prefix) / "share/mdc/params.yaml"


@dataclass(frozen=True)
class Cell:
    """A probe by a head, in per cent. ``record``: that of the probe; empty for the mean over probes."""

    probe: str
    head: str
    estimate: Estimate
    record: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        r = self.estimate
        interval = {"value": r.value, "low": r.low, "high": r.high, "interval": r.kind, "n": r.n}
        facts = {
            key: self.record[key] for key in ("metric", "chance", "classes", "train", "skipped") if key in self.record
        }
        return {"probe": self.probe, "head": self.head, **interval, **facts}


def main(args: argparse.Namespace) -> None:
    """``args``: config (the model), probes, heads, image_size, json, folder, cache, params, scale. UserError for a model,
    a probe or a head that is not there."""
    if args.params == "params.yaml" and not Path(args.params).is_file():  # no repository, but results
        args.params = str(INSTALLED)
    plan = plan_of(args)
    if plan.scale.probe is None:
        raise UserError(f"scale {plan.params.scale} has no section probe, which says how encoders are probed")
    probes = _listed("--probes", args.probes, plan.scale.data.probes)
    heads = _listed("--heads", args.heads, plan.scale.probe.every)
    results = Path(args.folder) if args.folder else Path("results") / plan.params.scale
    for name in probes:
        index = results / "data" / "probes" / name / "index.json"
        if not index.is_file():
            raise UserError(f"{index}: no such file; `snakemake {index}` makes the probe's images")
    cache = Path(args.cache) if args.cache else Path(".state") / plan.params.scale / "features"
    with TemporaryDirectory(prefix="mdc-probe-") as place:
        folder = ScaleFolder(Path(place))
        (folder.root / "data").symlink_to((results / "data").resolve())
        models: dict[bool, Probed] = {}
        cells = []
        for head in heads:
            entry = plan.scale.probe.every[head]
            attentive = entry is not None and entry.reads_tokens
            if attentive not in models:
                models[attentive] = probed(args.config, plan.params, args.image_size, attentive, args.params)
            cells += _measured(plan, models[attentive], head, probes, folder, cache)
    (model, *_) = models.values()
    if args.json:
        metadata = {"model": model.label, "image_size": model.image_size, "scale": plan.params.scale}
        level = plan.params.protocol.statistics.level
        print(json.dumps({**metadata, "level": level, "results": [cell.as_json() for cell in cells]}, indent=1))
    else:
        print("\n".join(_text(plan, model, cells, heads)))


def _listed(option: str, text: str, allowed: Mapping[str, Any]) -> list[str]:
    """Names with commas between them, each once; UserError for one that is not ``allowed``."""
    names = list(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if wrong := [name for name in names if name not in allowed]:
        hint = did_you_mean(wrong[0], allowed)
        raise UserError(
            f"{option}: the scale has no {wrong[0]}{hint}; allowed: {', '.join(allowed) or 'there is none'}"
        )
    if not names:
        raise UserError(f"{option}: names none; allowed: {', '.join(allowed) or 'there is none'}")
    return names


def _measured(plan: Plan, model: Probed, head: str, probes: list[str], folder: ScaleFolder, cache: Path) -> list[Cell]:
    """Run the jobs of one head in ``folder``; their results."""
    probing, statistics = plan.scale.probe, plan.params.protocol.statistics
    assert isinstance(probing, Probing)
    runtime = folder.root / "runtime.json"
    write_json(runtime, probing.runtime.model_dump())
    if model.importing is not None:
        import_encoder.main(Call(model.importing, folder, folder.job(model.importing.job)))
    elif model.folder is not None and not folder.job(f"runs/{ENCODER_NAME}").exists():
        (folder.root / "runs").mkdir()
        folder.job(f"runs/{ENCODER_NAME}").symlink_to(model.folder.resolve())
    job = plan.probe_job(ENCODER_NAME, head, probes, dict(model.values))
    out = folder.job(job.job)
    probe.main(Call(job, folder, out, runtime=runtime, cache=cache))
    table = parquet.ParquetFile(out / "items.parquet").read()
    items = items_of({name: table.column(name).to_pylist() for name in table.column_names})
    replicates = resampled({name: [values] for name, values in items.items()}, statistics.bootstrap)
    points = {name: replicates[name].times(100) for name in probes}
    records = read_json(out / "probe.json")["probes"]
    cells = [Cell(name, head, estimate(points[name], statistics.level), records[name]) for name in probes]
    if len(probes) > 1 and len({records[name]["metric"] for name in probes}) == 1:
        cells.append(Cell(AVERAGE, head, estimate(mean(list(points.values())), statistics.level), {}))
    return cells


def _text(plan: Plan, model: Probed, cells: Sequence[Cell], heads: Sequence[str]) -> list[str]:
    """A row per probe, a column per head, and chance."""
    size, level = model.image_size, plan.params.protocol.statistics.level
    by = {(cell.probe, cell.head): cell for cell in cells}
    rows = [["probe", *heads, "chance", "test items"]]
    for name in dict.fromkeys(cell.probe for cell in cells):
        record, result = by[name, heads[0]].record, by[name, heads[0]].estimate
        label = plan.scale.data.probes[name].label if record else name
        metric = f" ({METRICS.get(record['metric'], record['metric'])})" if record else ""
        chance = f"{record['chance']:.1f}" if record else ""
        rows.append([label + metric, *(_shown(by[name, head].estimate) for head in heads), chance, f"{result.n}"])
    return [
        f"{model.label}, images of {size} × {size} pixels, probes of scale {plan.params.scale}",
        f"per cent; in brackets the {100 * level:g} % interval over test items",
        "",
        *aligned(rows),
    ]


def _shown(result: Estimate) -> str:
    if result.low is None or result.high is None:
        return f"{result.value:.1f}"
    return f"{result.value:.1f} [{result.low:.1f}, {result.high:.1f}]"
