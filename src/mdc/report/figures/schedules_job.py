"""The job ``mdc schedules``: how unsteady training is with each noise schedule of Table 5.

Writes last ``figure_schedules.json``, which names by sha256 what it made and the runs' manifests. A run's log holds
clocks, so no hash of it can stand in a record; ``figure_schedules_curves.csv`` holds every number read from it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from mdc.records import UserError, read_json, sha256_file, write_made, write_text
from mdc.report.figures import schedules
from mdc.report.figures.loss_curves_job import run_log
from mdc.report.figures.schedules import Shown, Track


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config, runs (run.json files), out."""
    config = read_json(args.config)
    out = Path(args.out)
    shown = shown_of(config)
    given: dict[str, tuple[Path, Track]] = {}
    for path in map(Path, args.runs):
        one = track(path, config["clip_norm"])
        if one.id in given:
            raise UserError(f"{path}: run {one.id} is given twice")
        if one.id not in config["runs"]:
            raise UserError(f"{path}: run {one.id} is none of {config['table']}'s at this scale")
        given[one.id] = path, one
    missing = [name for name in config["runs"] if name not in given]
    if missing:
        raise UserError(f"schedules: no run.json given of {', '.join(missing)}; {config['table']} needs each")
    tracks = [given[name][1] for name in config["runs"]]
    lines = schedules.measure(tracks, shown)
    texts = {
        out / "figure_schedules.csv": schedules.text(lines, shown),
        out / "figure_schedules_curves.csv": schedules.curves_text(tracks, shown),
    }
    figures = [out / "figure_schedules.png", out / "figure_schedules.svg"]
    for path, content in texts.items():
        write_text(path, content)
    schedules.draw(tracks, lines, shown, figures)
    hashes = {f"runs/{name}/{given[name][0].name}": sha256_file(given[name][0]) for name in config["runs"]}
    write_made(out / "figure_schedules.json", config, hashes, [*texts, *figures])


def shown_of(config: dict[str, Any]) -> Shown:
    """What the figure is told by the job's resolved configuration."""
    # its mappings are sorted by name; its runs stand in the table's order
    order = dict.fromkeys(run.split("/")[2] for run in config["runs"])
    told = {method: config["schedules"][method]["t_range"] for method in order}
    return Shown(
        scale=config["scale"],
        scale_label=config["scale_label"],
        labels=config["labels"],
        ranges={method: (low, high) for method, (low, high) in told.items()},
        reference=config["reference"],
        warmup=config["warmup"],
    )


def track(path: Path, clip_norms: dict[str, float | None]) -> Track:
    """The log of the run whose ``run.json`` is ``path``; UserError if it holds no loss, or one without its gradient."""
    run, lines = run_log(path)
    log = path.parent / "log.jsonl"
    lines = [line for line in lines if "loss" in line]
    if not lines:
        raise UserError(f"{log}: it holds no loss; train the run again")
    for line in lines:
        norm = line.get("grad_norm")
        if not isinstance(norm, int | float):
            raise UserError(f"{log}: step {line['step']} has no grad_norm; train the run again")
    config = run["config"]
    name = f"{config['corpus']}/{config['backbone_name']}/{config['method_name']}/s{config.get('seed')}"
    return Track(
        corpus=config["corpus"],
        backbone=config["backbone_name"],
        method=config["method_name"],
        seed=config.get("seed"),
        steps=tuple(line["step"] for line in lines),
        loss=tuple(float(line["loss"]) for line in lines),
        norm=tuple(float(line["grad_norm"]) for line in lines),
        clip_norm=clip_norms.get(name),
        tokens=_tokens(config, lines),
        least_t=_least_t(config),
    )


def _tokens(config: dict[str, Any], lines: list[dict[str, Any]]) -> float | None:
    """Supervised tokens of a middling batch, where the loss is equation 5 over all of them; otherwise None."""
    method = config.get("method")
    if not isinstance(method, dict) or (method.get("weight"), method.get("normaliser")) != (
        "inverse_t",
        "valid_tokens",
    ):
        return None
    counts = [line.get("tokens") for line in lines]
    if not all(isinstance(count, int | float) and count > 0 for count in counts):
        return None
    return float(np.median([float(count) for count in counts if count is not None]))


def _least_t(config: dict[str, Any]) -> float:
    try:
        return float(config["protocol"]["pretrain"]["least_t"])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"run {config.get('job')}: its configuration names no least_t; train the run again") from None
