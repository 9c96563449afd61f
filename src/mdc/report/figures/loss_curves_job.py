"""The job ``mdc loss-curves``: how the losses of all runs of a scale went, as a figure and the numbers behind it.

Writes last ``figure_loss.json``, which names by sha256 what it made and the runs' manifests. A run's log holds clocks,
so no hash of it can stand in a record; ``figure_loss.csv`` holds every loss of it, and can be made again from it.
"""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import Any

from mdc.records import UserError, read_json, read_json_lines, sha256_file, write_made, write_text
from mdc.report.figures.losses import loss_curves


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config, runs (run.json files), out."""
    config = read_json(args.config)
    out = Path(args.out)
    logs = [curve(Path(path)) for path in args.runs]
    for path, log in zip(args.runs, logs, strict=True):
        for name, labels in (("corpus", "corpora"), ("backbone", "backbones"), ("method", "methods")):
            if log[name] not in config["labels"][labels]:
                raise UserError(f"{path}: its {name} {log[name]!r} is none of this scale's")
    csv_file, figures = out / "figure_loss.csv", [out / "figure_loss.png", out / "figure_loss.svg"]
    write_text(csv_file, csv_text(logs, config["labels"]))
    loss_curves(
        logs,
        figures,
        title=f"Pretraining loss, scale {config['scale_label']}",
        labels=config["labels"],
        objectives=config["objectives"],
    )
    hashes = {f"{log['id']}/{Path(path).name}": sha256_file(path) for path, log in zip(args.runs, logs, strict=True)}
    write_made(out / "figure_loss.json", config, hashes, [csv_file, *figures])


def curve(path: Path) -> dict[str, Any]:
    """The losses of the run whose ``run.json`` is ``path``, with its keys."""
    manifest, lines = run_log(path)
    run = manifest["config"]
    return {
        "id": manifest["id"],
        "corpus": run["corpus"],
        "backbone": run["backbone_name"],
        "method": run["method_name"],
        "seed": run.get("seed"),
        "steps": [line["step"] for line in lines if "loss" in line],
        "loss": [line["loss"] for line in lines if "loss" in line],
        "validation": [[line["step"], line["validation_loss"]] for line in lines if "validation_loss" in line],
    }


def run_log(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The manifest ``path`` of a run, which names its corpus, backbone and method, and the lines of the log beside it.

    UserError if it is no run's manifest, or a line has a step or a loss that is no number.
    """
    manifest = read_json(path)
    run = manifest.get("config")
    names = ("corpus", "backbone_name", "method_name")
    if not isinstance(run, dict) or not all(isinstance(run.get(name), str) for name in names):
        raise UserError(f"{path}: not a run manifest (its config names no corpus, backbone and method)")
    if not isinstance(manifest.get("id"), str):
        raise UserError(f"{path}: not a run manifest (it has no id)")
    log = path.parent / "log.jsonl"
    lines = read_json_lines(log)
    for line in lines:
        if not all(isinstance(line.get(key, 0), int | float) for key in ("step", "loss", "validation_loss")):
            raise UserError(f"{log}: a step or a loss is no number; train the run again")
    return manifest, [line for line in lines if "step" in line]


def csv_text(logs: list[dict[str, Any]], labels: dict[str, dict[str, str]]) -> str:
    """One line a loss, under the labels of corpus, backbone and method."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["corpus", "backbone", "method", "seed", "split", "step", "loss"])
    for log in logs:
        shown = (
            labels["corpora"][log["corpus"]],
            labels["backbones"][log["backbone"]],
            labels["methods"][log["method"]],
        )
        head = [*shown, log["seed"]]
        writer.writerows([*head, "train", s, repr(v)] for s, v in zip(log["steps"], log["loss"], strict=True))
        writer.writerows([*head, "validation", s, repr(v)] for s, v in log["validation"])
    return stream.getvalue()
