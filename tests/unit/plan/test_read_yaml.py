"""A parameter file as YAML 1.2 has it: the same for us, for the workflow and for DVC, which writes it."""

import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import small_project
import yaml
from changed import with_other
from dvc.utils.hydra import apply_overrides
from read_table import read_table
from scale_files import ROOT, read_params, write_params

from mdc.plan.config.layers import overlaid
from mdc.plan.config.yaml_core import dump_yaml, parse_yaml, read_yaml
from mdc.plan.records import UserError, read_json

SMALL = small_project.values()

#: the specification's section 10.3.2, and what version 1.1 has besides
SCALARS: dict[str, Any] = {
    **{"5e-05": 5e-5, "1e-4": 1e-4, "-1.5E+3": -1500.0, ".5": 0.5, "3.": 3.0, "12e03": 12000.0, "-.INF": -math.inf},
    **{"+7": 7, "-19": -19, "010": 10, "0o17": 15, "0x1F": 31, "true": True, "FALSE": False},
    **dict.fromkeys(("~", "Null", "")),
    **{
        text: text
        for text in ["yes", "off", "On", "1_000", "0b1", "1:30", "2026-01-01", "-0x1", "0o8", "1e", "=", "<<"]
    },
}


def test_scalars_are_those_of_yaml_1_2() -> None:
    for text, value in SCALARS.items():
        for written in (f"a: {text}", f"a: [{text}]" if text else "a: [~]"):
            found = parse_yaml(written)["a"]
            found = found[0] if isinstance(found, list) else found
            assert found == value and type(found) is type(value), (written, found)
        assert parse_yaml(f"a: '{text}'") == {"a": text}, "in quotes it is text"


def test_what_we_write_both_versions_read_alike() -> None:
    values = {"texts": list(SCALARS), "others": [5e-5, 1e22, 0.1, 10, -3, True, None], **dict.fromkeys(SCALARS, 1)}
    text = dump_yaml(values)
    assert parse_yaml(text) == yaml.safe_load(text) == values


MERGES = {
    "a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}": {"x": 3, "y": 2},
    "a: &a {x: 1, y: 2}\nb: {x: 3, <<: *a}": {"x": 3, "y": 2},
    "a: &a {x: 1}\nc: &c {x: 2, z: 2}\nb: {<<: [*a, *c]}": {"x": 1, "z": 2},
    "a: &a {x: 1, y: 2}\nc: &c {<<: *a, x: 2}\nb:\n  <<: *c\n  y: 3": {"x": 2, "y": 3},
    "a: &a {x: {y: 1}}\nb: {<<: *a}": {"x": {"y": 1}},
}


def test_a_mapping_takes_over_what_it_merges() -> None:
    for text, merged in MERGES.items():
        assert parse_yaml(text)["b"] == merged, text


DEEP = [(f"a: {'[' * 100_000}", "nested too deeply"), ("- " * 100_000, "nested too deeply")]


def test_every_refusal_names_the_file_and_the_line(tmp_path: Path) -> None:
    for text, said in [*read_table(__file__, "refused"), *DEEP]:
        (tmp_path / "p.yaml").write_text(text)
        with pytest.raises(UserError, match=said) as error:
            read_yaml(tmp_path / "p.yaml")
        assert str(error.value).startswith(f"{tmp_path}/p.yaml:") and "unicode string" not in str(error.value)


def test_a_layer_changes_no_other_key_of_the_same_mapping() -> None:
    values = parse_yaml("a: &a {x: {y: 1, z: 1}}\nb: *a\nc: 1")
    assert overlaid(values, {"a": {"x": {"y": 2}}, "c": {"d": 3}}) == {
        "a": {"x": {"y": 2, "z": 1}},
        "b": {"x": {"y": 1, "z": 1}},
        "c": {"d": 3},
    }
    assert values["b"] == {"x": {"y": 1, "z": 1}}


SCALE = f"scales/{small_project.SCALE}.yaml"
LR = ("pretrain", "recipe", "lr")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workflow and a small scale, in which `dvc exp run -S` has set a learning rate of 5e-05."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "Snakefile", folder)
    shutil.copytree(ROOT / "workflow", folder / "workflow")
    write_params(folder, SMALL)
    apply_overrides(folder / SCALE, [f"{'.'.join(LR)}=0.00005"])
    return folder


def test_what_dvc_writes_we_read(project: Path) -> None:
    assert "lr: 5e-05\n" in (project / SCALE).read_text(), "DVC writes it so"
    assert read_params(project) == with_other(SMALL, LR, 5e-5)


def test_the_workflow_has_the_values_that_we_read(project: Path) -> None:
    """… and over them those of --configfile, read alike, and of --config."""
    (project / "more.yaml").write_text("probe: {lr: 7e-05}\nscale: none\n")
    call = ["snakemake", "-n", "data", "--config", f"scale={small_project.SCALE}", "--configfile", "more.yaml"]
    done = subprocess.run([sys.executable, "-m", *call], cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    jobs = [read_json(path) for path in (project / f"results/{small_project.SCALE}/configs").rglob("*.json")]
    rates = [(job.get("verb"), job["recipe"]["lr"]) for job in jobs if "lr" in (job.get("recipe") or {})]
    assert {rate for verb, rate in rates if verb == "probe"} == {7e-5} and ("pretrain", 5e-5) in rates
