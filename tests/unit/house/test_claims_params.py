"""What claims of captions ask for in params.yaml: a table finds the section that its datasets stand in; mistakes are told."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from changed import put, with_other

from mdc.config import read_yaml, validate
from mdc.jobs.plan import Plan
from mdc.jobs.shown_captions import CaptionTableJob, RobustnessFigureJob
from mdc.records import UserError

ROOT = Path(__file__).resolve().parents[3]
VALUES = read_yaml(ROOT / "params.yaml")
CLAIMS = ("scales", "mini", "claims")
TABLES = ("scales", "mini", "tables")


def _changed(*path: str, to: Any) -> dict[str, Any]:
    return put(copy.deepcopy(VALUES), path, to)


def test_a_table_alone_of_captions_needs_a_section() -> None:
    values = copy.deepcopy(VALUES)
    mini = values["scales"]["mini"]
    del mini["claims"], mini["mc_diffusion"]
    mini["tables"] = {"table_ratio": mini["tables"]["table_ratio"]}
    with pytest.raises(UserError, match="mc_diffusion or claims: one of these keys is needed by table_ratio"):
        validate(values)


@pytest.mark.parametrize("name", [name for name, scale in VALUES["scales"].items() if "table_ratio" in scale["tables"]])
def test_a_table_of_claims_is_made_from_its_own_sections_captions(name: str) -> None:
    """Every dataset is captioned once, whatever number of tables show it."""
    plan = Plan(validate({**VALUES, "scale": name}))
    job = plan.jobs["table_ratio"]
    assert isinstance(job, CaptionTableJob)
    assert {record for system in job.systems for record in system.records} == {
        f"metrics/claimed/s{seed}" for seed in plan.scale.training.seeds
    }
    keys = [system.key for system in job.systems]
    asked = VALUES["scales"][name]["tables"]["table_ratio"]["systems"]
    assert keys == ["claimed/most_frequent", *(f"claimed/{key}" for key in asked)]
    # each is another run, but for the one that is shown other images
    runs = [system.runs[0] for system in job.systems if not system.blind]
    assert len(set(runs)) == len(runs)


def test_a_dataset_that_lists_its_systems_is_shown_worse_images_too() -> None:
    """What stands for five systems more needs not be named six times."""
    plain = list(VALUES["scales"]["mini"]["claims"]["systems"])
    listed = Plan(validate(_changed(*CLAIMS, "datasets", "claimed", "systems", to=plain))).jobs["figure_robustness"]
    assert listed == Plan(validate(VALUES)).jobs["figure_robustness"]


def test_a_figure_of_worse_images_has_six_claims_at_most() -> None:
    place = ("scales", "flickr8k-long", "tables", "figure_robustness")
    for changed, said in (
        ({"claimed": None}, "primary: 3 pairs on 4 kinds are 12 claims, allowed: 6"),
        ({"claimed": ["noise", "jpeg", "blur"]}, "3 pairs on 3 kinds are 9 claims, allowed: 6"),
        ({"kinds": ["noise"]}, r"claimed: no kind of this figure \(kinds\) is named 'jpeg'; allowed: noise"),
    ):
        ((key, value),) = changed.items()
        values = with_other(VALUES, (*place, key), value)
        with pytest.raises(UserError, match=said):
            validate({**values, "scale": "flickr8k-long"})
    values = with_other(VALUES, (*place, "claimed"), [])
    job = Plan(validate({**values, "scale": "flickr8k-long"})).jobs["figure_robustness"]
    assert isinstance(job, RobustnessFigureJob) and job.claimed == [] and len(job.between) == 3


def test_objects_are_read_of_rendered_scenes_alone() -> None:
    """A scale may have such a backbone beside corpora of photos, as long as no run puts both together."""
    values = _changed("scales", "flickr8k-long", "pretrain", "backbones", "ViT-T-8-mean", "reads", to="objects")
    params = validate({**values, "scale": "flickr8k-long"}, "params.yaml")
    said = (
        r"params.yaml: run single/ViT-T-8-mean/mdc/s1 at scale flickr8k-long: pretrain.backbones.ViT-T-8-mean.reads = objects: "
        "objects are found in rendered scenes alone, and the corpus single has none; allowed here: patches"
    )
    with pytest.raises(UserError, match=said):
        _ = Plan(params).jobs
