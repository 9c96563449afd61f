"""dvc.yaml covers what decides each layer: every leaf of params.yaml that changes a job is a parameter of its stage."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from mdc import jobs
from mdc.config import read_yaml, validate
from mdc.records import UserError, sha256_json

ROOT = Path(__file__).resolve().parents[2]
VALUES = read_yaml(ROOT / "params.yaml")
DVC = yaml.safe_load((ROOT / "dvc.yaml").read_text())
SCALE = "mini"
# a job's layer is the first part of its name, and a layer's stage is
#: a stage's params are whole sections: of these, some leaves decide jobs of another stage only, or none. DVC then runs a
#: stage in which Snakemake has nothing to do
NOT_FOR_EVERY_JOB = [
    r"methods\.\w+\.(label|ranked)",  # shown in tables
    r"methods\.\w+\.pooling",  # the probe's choice, not the training's
    r"scales\.mini\.pretrain\.backbones\.[^.]+\.label",
    r"scales\.mini\.data\.(corpora|probes)\.\w+\.label",
    r"scales\.mini\.data\.primary_probe",
    r"scales\.mini\.tables\.(table|figure)\d\.probes\.\d",  # the probes' choice, not the training's
    r"scales\.mini\.pretrain\.runtime\.\w+",  # how a run proceeds, never what it produces
]
#: of the sections that this stage lists whole it shows labels and recipes; it takes a second
NOT_FOR_RECIPES = [
    r"methods\.\w+\.(t_range\.\d|weight|normaliser)",
    r"scales\.mini\.data\.corpora\.\w+\.source\.\w+",
    r"scales\.mini\.pretrain\.backbones\.[^.]+\.(\w+|decoder\.\w+)",
    r"scales\.mini\.pretrain\.seeds\.0",
]
STAGE = {
    "data": "data",
    "runs": "pretrain",
    "probe": "probe",
    "table1": "table",
    "figure_loss": "figure_loss",
    "figure_schedules": "figure_schedules",
    "recipes": "recipes",
    "table4": "method_table",
    "table5": "method_table",
    "figure3": "figure3",
    "figure4": "figure4",
    "figure5": "figure5",
    "table9": "table9",
}


def _upstream(stage: str) -> set[str]:
    """The stages that this one is made from, directly or not, by its deps under results/."""
    found: set[str] = set()
    for dep in DVC["stages"][stage]["deps"]:
        for other, body in DVC["stages"].items():
            if dep.startswith("results/") and any(dep in out for out in body["outs"]):
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
    """Values of the same type, one of which the schema may take."""
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
        return [*words, "count", "colour", "patch_mean", "cls", value + "x"]
    return [1.0]


def _hashes(values: dict[str, Any]) -> dict[str, str]:
    return {name: sha256_json(config) for name, config in jobs.configs(validate(values)).items()}


def _covered(path: tuple[Any, ...], stage: str) -> bool:
    dotted = ".".join(str(step) for step in path)
    params = [p.replace("${scale}", SCALE) for p in DVC["stages"][stage]["params"]]
    return any(dotted == p or dotted.startswith(p + ".") for p in params)


LEAVES = [
    path
    for path, _ in _leaves({k: v if k != "scales" else {SCALE: v[SCALE]} for k, v in VALUES.items()})
    if path != ("scale",)
]


@cache
def _touched(path: tuple[Any, ...]) -> frozenset[str]:
    """The stages of which some job's configuration changes with this leaf; a name that is gone or new counts too."""
    before = _hashes(VALUES)
    inner: Any = VALUES
    for step in path:
        inner = inner[step]
    found: set[str] = set()
    for value in _other(inner):
        changed = copy.deepcopy(VALUES)
        place: Any = changed
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        try:
            after = _hashes(changed)
        except UserError:
            continue
        found |= {STAGE[n.split("/")[0]] for n in before.keys() | after.keys() if before.get(n) != after.get(n)}
    return frozenset(found)


@pytest.mark.parametrize("path", LEAVES, ids=lambda p: ".".join(map(str, p)))
def test_every_leaf_that_changes_a_job_is_a_parameter_of_its_stage(path: tuple[Any, ...]) -> None:
    missing = {stage for stage in _touched(path) if not _covered(path, stage)}
    assert not missing, f"{path} changes jobs of {missing}, whose stages in dvc.yaml do not list it"


def test_and_the_reverse_a_stage_lists_what_decides_it_or_what_it_is_made_from() -> None:
    surplus = {stage: [".".join(map(str, path)) for path in LEAVES if _idle(path, stage)] for stage in STAGE.values()}
    for stage, found in surplus.items():
        allowed = [*NOT_FOR_EVERY_JOB, *(NOT_FOR_RECIPES if stage == "recipes" else [])]
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


def test_stages_follow_the_layers() -> None:
    assert list(DVC["stages"]) == [
        "data",
        "pretrain",
        "probe",
        "table",
        "method_table",
        "figure_loss",
        "figure_schedules",
        "figure3",
        "figure4",
        "figure5",
        "recipes",
        "table9",
    ]
    for stage in DVC["stages"].values():
        assert stage["cmd"].startswith("snakemake ")
        for out in [*stage["outs"], *stage.get("metrics", [])]:
            ((name, options),) = out.items()
            assert name.startswith("results/${scale}/") and options == {"persist": True}
