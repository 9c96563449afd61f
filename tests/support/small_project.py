"""A whole project as small as it goes: every kind of job and every table and figure, made in this process within seconds."""

import contextlib
import copy
import shutil
from collections.abc import Callable, Container, Iterable
from functools import cache, reduce
from pathlib import Path
from typing import Any

from left_out import EXTENSIONS
from scale_files import ROOT, common_values, plain, write_params

from mdc.app.cli import do, main
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.layers import overlaid, spread
from mdc.plan.config.read import validate
from mdc.plan.config.yaml_core import read_yaml
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.read import read_job
from mdc.plan.records import json_text, write_json, write_text, write_text_if_changed
from mdc.plan.verbs import VERBS

SCALE = "golden"
#: runs that tests ask
MDC, CLIP, ARC = (f"alt/ViT-T-12/{method}/s0" for method in ("mdc", "clip", "arc"))
TUNED = f"{MDC}/ft-tuned"


@cache
def _scale() -> dict[str, Any]:
    """The core's values, and above them those of each extension that is here."""
    files = [Path(__file__).with_suffix(".yaml")]
    files += [ROOT / "tests/extensions" / name / files[0].name for name in EXTENSIONS]
    return plain(reduce(overlaid, (spread(read_yaml(file)) for file in files)))


def values(seeds: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """The flat values of the scale of small_project.yaml, with few resamples."""
    found = {**common_values(), **copy.deepcopy(_scale()), "scale": SCALE}
    found["pretrain"]["seeds"] = list(seeds)
    found["protocol"]["statistics"]["bootstrap"] = 250
    return found


def plan(seeds: tuple[int, ...] = (0,)) -> Plan:
    return Plan(validate(values(seeds)))


def longer(**recipe: Any) -> Plan:
    """The plan with more pairs, and a longer training, by ``recipe``."""
    found = values()
    found["data"]["corpora"]["alt"]["source"] |= {"train": 192, "val": 32}
    found["pretrain"]["recipe"] |= {"epochs": 8, "batch_size": 32, "validate_every": 20, **recipe}
    return Plan(validate(found))


def make(folder: Path, seeds: tuple[int, ...] = (0,)) -> None:
    """Every job, called with relative paths in ``folder``, as the workflow does; then the copies."""
    write_params(folder, values(seeds))
    with contextlib.chdir(folder):
        do_jobs(plan(seeds))
        publish(Path("results") / SCALE)


def do_jobs(plan: Plan, names: Iterable[str] | None = None, root: Path = Path()) -> None:
    """Do the jobs of these names alone (by default all), in this order, in ``root``/results, as the workflow would."""
    folder = ScaleFolder(root / "results" / plan.params.scale)
    runtime = root / "runtime.json"
    write_text(runtime, json_text({"workers": 0, "log_every": 1}))
    for name in plan.jobs if names is None else names:
        verb, path = plan.jobs[name].verb, folder.config(name)
        write_text_if_changed(path, json_text(plan.jobs[name].config()))
        places = {"state": root / ".state" / name, "cache": root / ".state/features"}
        places |= {"runtime": runtime} if verb == "pretrain" else {}
        given: dict[str, Any] = {option: places[option] for option in VERBS[verb].options if option in places}
        words = (verb, str(path), *options(**given))
        do(verb, Call(read_job(path, verb), folder, folder.job(name), arguments=words, **given))


def only_records(plan: Plan, folder: ScaleFolder, wanted: Callable[[str], bool] = lambda job: True) -> None:
    """The record of each job, as far as its configuration: as if it had been done as it is asked for now."""
    for name in filter(wanted, plan.jobs):
        write_json(folder.record(name, plan.jobs[name].verb), {"config": plan.jobs[name].config()})


def with_data(plan: Plan, root: Path = Path()) -> ScaleFolder:
    """The configurations of all jobs, and the data done, in ``root``/results."""
    folder = ScaleFolder(root / "results" / plan.params.scale)
    for name, job in plan.jobs.items():
        write_text_if_changed(folder.config(name), json_text(job.config()))
    do_jobs(plan, [name for name in plan.jobs if name.startswith("data/")], root)
    return folder


def options(**places: Path) -> list[str]:
    """As a command line has them: --out OUT --state STATE."""
    return [word for name, place in places.items() for word in (f"--{name}", str(place))]


def config(r: Path, job: str) -> Path:
    """The file with a job's configuration, below the scale's folder ``r``."""
    return ScaleFolder(r).config(job)


def exported(r: Path, run: str, place: Path, to: str = "open_clip", *more: str) -> Path:
    """The folder ``place``, in which `mdc export` writes a run."""
    assert main(["export", run, str(place), "--to", to, "--scale", r.name, *more]) == 0
    return place


def publish(r: Path, names: Container[str] = ARTEFACTS) -> None:
    """The copies at ``results/`` of these tables and figures, as the workflow's rules make them."""
    for name, artefact in ARTEFACTS.items():
        record = ScaleFolder(r).record(name, "make")
        if name not in names:
            continue
        for file in (record.name, *artefact.files) if record.is_file() else ():
            (r.parent / file).unlink(missing_ok=True)  # it may be a hard link
            shutil.copy(record.parent / file, r.parent / file)
