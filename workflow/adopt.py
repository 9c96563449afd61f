"""Mark files restored by DVC (`dvc pull`, `dvc checkout`) as up to date, so that Snakemake reruns none. Called by `make adopt`.

DVC restores contents, not times, and Snakemake's metadata stays on the machine that wrote the files. So this refuses unless
`dvc status` is clean, updates the copies at results/, and touches every output by Snakemake. Without arguments it does so for all
stages of dvc.lock, otherwise for those named and their dependencies.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from mdc.plan.outputs import publish
from mdc.plan.records import UserError
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
                try:
                    publish(record)
                except UserError as error:
                    raise SystemExit(f"adopt: {error}") from None
    # --touch without --forceall would skip outputs that Snakemake takes for outdated
    scale = ["--config", f"scale={next(iter(chosen.values()))['cmd'].split()[-1]}"]
    targets = [_target(stage) for name, stage in chosen.items() if name != INDEX]
    if named := [file for file in targets if file is not None]:
        _run("snakemake", *named, "--touch", "--forceall", "--cores", "1", *scale)
    if INDEX in chosen:  # it shows the local results, so DVC does not store it
        _run("snakemake", target(INDEX), "--cores", "1", *scale)
    print(f"adopted: {', '.join(chosen)}")


def _target(stage: dict[str, Any]) -> str | None:
    """A stage's Snakemake target; None for a table or figure that the scale does not name."""
    name = stage["cmd"].split("workflow/stage ")[1].split()[0]
    return None if any(Path(out["path"], NOT_NAMED).is_file() for out in stage.get("outs", [])) else target(name)


def _run(tool: str, *arguments: str) -> str:
    """Standard output of this environment's ``tool``. SystemExit with all its output if it fails."""
    done = subprocess.run([BIN / tool, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}adopt: {tool} failed; nothing else was done")
    return done.stdout


def _words(stage: str, changes: list[Any]) -> str:
    """``pretrain (deleted: results/mini/runs)``, from an entry of `dvc status --json`."""
    words = []
    for change in changes:
        if isinstance(change, str):  # as "changed command"
            words.append(change)
            continue
        for paths in change.values():
            for path, kind in paths.items():
                words += [f"{kind}: {path}"] if isinstance(kind, str) else [f"{k}: {p}" for p, k in kind.items()]
    return f"{stage} ({', '.join(words)})"


if __name__ == "__main__":
    main(sys.argv[1:])
