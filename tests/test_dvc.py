"""dvc.yaml covers what decides each layer: every leaf of params.yaml that changes a job is a parameter of its stage."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mdc import jobs
from mdc.config import read_yaml, validate
from mdc.records import UserError, sha256_json

ROOT = Path(__file__).resolve().parent.parent
VALUES = read_yaml(ROOT / "params.yaml")
DVC = yaml.safe_load((ROOT / "dvc.yaml").read_text())
SCALE = "mini"
# a job's layer is the first part of its name, and a layer's stage is
STAGE = {"data": "data", "runs": "pretrain", "probe": "probe", "table1": "table", "figure_loss": "figure_loss"}


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
        return [value * 0.9, value / 2]
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


@pytest.mark.parametrize("path", LEAVES, ids=lambda p: ".".join(map(str, p)))
def test_every_leaf_that_changes_a_job_is_a_parameter_of_its_stage(path: tuple[Any, ...]) -> None:
    before = _hashes(VALUES)
    inner: Any = VALUES
    for step in path:
        inner = inner[step]
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
        # a name that is gone or new is a changed job of its layer too
        touched = {n.split("/")[0] for n in before.keys() | after.keys() if before.get(n) != after.get(n)}
        missing = {STAGE[layer] for layer in touched if not _covered(path, STAGE[layer])}
        assert not missing, f"{path} changes jobs of {missing}, whose stages in dvc.yaml do not list it"


def test_stages_follow_the_layers() -> None:
    assert list(DVC["stages"]) == ["data", "pretrain", "probe", "table", "figure_loss"]
    for stage in DVC["stages"].values():
        assert stage["cmd"].startswith("snakemake ")
        for out in stage["outs"]:
            ((name, options),) = out.items()
            assert name.startswith("results/${scale}/") and options == {"persist": True}
