"""What DVC brought (`dvc pull`, `dvc checkout`) counts as made: Snakemake then reruns none of it. Called by `make adopt`.

DVC restores contents, not times, and Snakemake's own records stay on the machine that made the files. So this refuses
unless `dvc status` is clean, brings the copies at results/ in line, and lets Snakemake take note of every output.
Without arguments all stages of dvc.lock, otherwise those named and what they depend on.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from mdc.plan.stage import INDEX, NOT_NAMED, target

BIN = Path(sys.executable).parent


def main(wanted: list[str]) -> None:
    """Adopt. SystemExit with one line if there is nothing to adopt, or something is not as dvc.lock has it."""
    lock = Path("dvc.lock")
    if not lock.is_file():
        raise SystemExit("adopt: there is no dvc.lock here, so nothing to adopt; `dvc repro` makes everything")
    stages: dict[str, dict[str, Any]] = yaml.safe_load(lock.read_text(encoding="utf-8"))["stages"]
    for name in wanted:
        if name not in stages:
            raise SystemExit(f"adopt: dvc.lock has no stage '{name}'; allowed: {', '.join(stages)}")
    status = json.loads(_run("dvc", "status", "--json", *(["--with-deps", *wanted] if wanted else [])))
    if status:
        raise SystemExit(
            f"adopt: not as dvc.lock has it: {'; '.join(_words(*item) for item in status.items())}. Bring back what is "
            "missing with `dvc pull` or `dvc checkout`, undo edits until after this step, or let `dvc repro` make it anew"
        )
    chosen = {name: stage for name, stage in stages.items() if name in wanted or not wanted}
    for stage in chosen.values():
        for folder in (Path(out["path"]) for out in stage.get("outs", [])):
            record = folder / f"{folder.name}.json"
            if record.is_file():  # of a table or figure that the scale names; its copies may be another scale's
                for name in (record.name, *json.loads(record.read_text(encoding="utf-8"))["config"]["files"]):
                    shutil.copyfile(folder / name, Path("results") / name)
    # a plain --touch would leave out what Snakemake takes for out of date
    scale = ["--config", f"scale={next(iter(chosen.values()))['cmd'].split()[-1]}"]
    targets = [_target(stage) for name, stage in chosen.items() if name != INDEX]
    if kept := [one for one in targets if one is not None]:
        _run("snakemake", *kept, "--touch", "--forceall", "--cores", "1", *scale)
    if INDEX in chosen:  # it shows what lies here, so DVC keeps none
        _run("snakemake", target(INDEX), "--cores", "1", *scale)
    print(f"adopted: {', '.join(chosen)}")


def _target(stage: dict[str, Any]) -> str | None:
    """What a stage asks Snakemake for; None of a table or figure that the scale does not name."""
    name = stage["cmd"].split("workflow/stage ")[1].split()[0]
    return None if any(Path(out["path"], NOT_NAMED).is_file() for out in stage.get("outs", [])) else target(name)


def _run(tool: str, *arguments: str) -> str:
    """Standard output of this environment's ``tool``; if it fails, what it said and its exit code."""
    done = subprocess.run([BIN / tool, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}adopt: {tool} failed; nothing else was done")
    return done.stdout


def _words(stage: str, changes: list[Any]) -> str:
    """``pretrain (deleted: results/mini/runs)``, from an entry of `dvc status --json`."""
    found = []
    for change in changes:
        if isinstance(change, str):  # as "changed command"
            found.append(change)
            continue
        for paths in change.values():
            for path, kind in paths.items():
                found += [f"{kind}: {path}"] if isinstance(kind, str) else [f"{k}: {p}" for p, k in kind.items()]
    return f"{stage} ({', '.join(found)})"


if __name__ == "__main__":
    main(sys.argv[1:])
