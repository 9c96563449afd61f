"""dvc.yaml covers what decides each layer: every leaf of params.yaml that changes a job is a parameter of its stage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from changed import with_other

from mdc.artefacts import ARTEFACTS
from mdc.config import read_yaml, validate
from mdc.jobs.plan import Plan
from mdc.records import UserError

ROOT = Path(__file__).resolve().parents[2]
DVC = yaml.safe_load((ROOT / "dvc.yaml").read_text())
SCALE = "mini"
VALUES = read_yaml(ROOT / "params.yaml")
VALUES["scales"] = {SCALE: VALUES["scales"][SCALE]}
#: a job's layer is the first part of its name, and a layer's stage is
STAGE = {
    "data": "data",
    **dict.fromkeys(("runs", "tokenizers", "words", "encoders", "encoded", "image-tokens"), "pretrain"),
    "probe": "probe",
    **dict.fromkeys(("scores", "retrieval", "positions"), "score"),
    **dict.fromkeys(("captions", "metrics", "judged"), "caption"),
}
STAGE |= dict.fromkeys(ARTEFACTS, "artefact")
#: a stage's params are whole sections: of these, some leaves decide jobs of another stage only, or none. DVC then runs a
#: stage in which Snakemake has nothing to do
NOT_FOR_EVERY_JOB = [
    r"methods\.\w+\.(label|ranked)",  # shown in tables
    r"methods\.\w+\.pooling",  # the probe's choice, not the training's
    r"scales\.mini\.pretrain\.backbones\.[^.]+\.label",
    r"scales\.mini\.data\.(corpora|probes|choices)\.\w+\.label",
    r"scales\.mini\.data\.primary_probe",
    r"scales\.mini\.tables\.(table|figure)\d\.(probes|contrasts|primary)\..*",  # what is measured of the runs, and shown
    r"scales\.mini\.(pretrain|probe)\.runtime\.\w+",  # how a run proceeds, never what it produces
]
#: a scale may have no section `pretrain`, `probe` or `tables`, which DVC could not find: these list the scale whole
LIST_THE_SCALE = ("pretrain", "probe", "score", "caption", "artefact")


def _upstream(stage: str) -> set[str]:
    """The stages that this one is made from, directly or not, by its deps under results/."""
    found: set[str] = set()
    for dep in DVC["stages"][stage]["deps"]:
        for other, body in DVC["stages"].items():
            if dep.startswith("results/") and any(dep in out for out in body.get("outs", [])):
                found |= {other, *_upstream(other)}
    return found


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    else:
        for key, inner in items:
            yield from _leaves(inner, (*path, key))


def _other(value: Any) -> list[Any]:
    """Values of the same type, one of which the schema may take; of names several, since each may decide something else."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value * 2, max(value // 2, 1)]
    if isinstance(value, float):
        return [value * 0.9, value / 2, value + 1e-3]
    if isinstance(value, str):
        words = [
            "bf16",
            "cuda",
            "auto",
            "full",
            "dense",
            "alt",
            "independent",
            "bidirectional",
            "none",
            "masked_tokens",
        ]
        return [*words, "count", "colour", "patch_mean", "cls"]
    return [1.0]


def _hashes(values: dict[str, Any]) -> dict[str, str]:
    return {name: job.sha256 for name, job in Plan(validate(values)).jobs.items()}


def _covered(path: tuple[Any, ...], stage: str) -> bool:
    dotted = ".".join(str(step) for step in path)
    params = [p.replace("${scale}", SCALE) for p in DVC["stages"][stage]["params"]]
    return any(dotted == p or dotted.startswith(p + ".") for p in params)


LEAVES = [path for path, _ in _leaves(VALUES) if path != ("scale",)]


@cache
def _before() -> dict[str, str]:
    return _hashes(VALUES)


@cache
def _touched(path: tuple[Any, ...]) -> frozenset[str]:
    """The stages of which some job's configuration changes with this leaf; a name that is gone or new counts too."""
    before = _before()
    inner: Any = VALUES
    for step in path:
        inner = inner[step]
    found: set[str] = set()
    free = isinstance(inner, str) and _accepts(path, inner + "x")  # any text, so one other says what all say
    for value in [inner + "x"] if free else _other(inner):
        try:
            after = _hashes(with_other(VALUES, path, value))
        except UserError:
            continue
        found |= {STAGE[n.split("/")[0]] for n in before.keys() | after.keys() if before.get(n) != after.get(n)}
        if isinstance(inner, int | float):
            break
    return frozenset(found)


def _accepts(path: tuple[Any, ...], value: str) -> bool:
    try:
        validate(with_other(VALUES, path, value))
    except UserError:
        return False
    return True


@pytest.mark.parametrize("path", LEAVES, ids=lambda p: ".".join(map(str, p)))
def test_every_leaf_that_changes_a_job_is_a_parameter_of_its_stage(path: tuple[Any, ...]) -> None:
    missing = {stage for stage in _touched(path) if not _covered(path, stage)}
    assert not missing, f"{path} changes jobs of {missing}, whose stages in dvc.yaml do not list it"


def test_and_the_reverse_a_stage_lists_what_decides_it_or_what_it_is_made_from() -> None:
    surplus = {stage: [".".join(map(str, path)) for path in LEAVES if _idle(path, stage)] for stage in DVC["stages"]}
    for stage, found in surplus.items():
        allowed = [*NOT_FOR_EVERY_JOB, *([r"scales\.mini\..*"] if stage in LIST_THE_SCALE else [])]
        unexpected = [path for path in found if not any(re.fullmatch(p, path) for p in allowed)]
        assert not unexpected, f"stage {stage} would run for {unexpected}, which change none of its jobs"
    # and no exception outlives its reason
    for pattern in NOT_FOR_EVERY_JOB:
        assert any(re.fullmatch(pattern, path) for found in surplus.values() for path in found), pattern


def _idle(path: tuple[Any, ...], stage: str) -> bool:
    """Does the stage list a leaf that changes no job of it, nor of a stage that it is made from?"""
    return _covered(path, stage) and _changes_something(path) and not _touched(path) & {stage, *_upstream(stage)}


def _changes_something(path: tuple[Any, ...]) -> bool:
    """Not so for a leaf with one allowed value only: nobody can edit it."""
    return bool(_touched(path)) or any(re.fullmatch(p, ".".join(map(str, path))) for p in NOT_FOR_EVERY_JOB)


def test_a_stage_a_layer_and_an_entry_of_the_matrix_an_artefact() -> None:
    stages = dict(DVC["stages"])
    assert list(stages) == [*dict.fromkeys(STAGE.values()), "index"]
    index = stages.pop("index")  # it has no outs: the page is made of what lies here, and says what that took
    assert "outs" not in index and index["deps"] == [f"results/${{scale}}/{name}" for name in ARTEFACTS]
    # the one list of artefacts that DVC cannot read from mdc.artefacts
    assert stages["artefact"]["matrix"] == {"name": list(ARTEFACTS)}
    assert stages["artefact"]["cmd"] == "snakemake ${item.name} --cores all"
    for name, stage in stages.items():
        layers = ["${item.name}"] if name == "artefact" else [layer for layer, one in STAGE.items() if one == name]
        assert stage["outs"] == [{"results/${scale}/" + layer: {"persist": True}} for layer in layers]
    (metrics,) = DVC["metrics"]
    assert metrics.removeprefix("results/${scale}/table1/") in ARTEFACTS["table1"].files
