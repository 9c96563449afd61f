"""What MC-Diffusion asks for in params.yaml: every mistake ends in one line that says where and what is allowed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from changed import put

from mdc.config import read_yaml, validate
from mdc.jobs.ids import Run
from mdc.jobs.plan import Plan
from mdc.models.initial import count_parameters
from mdc.parts import OBJECTIVES, load

ROOT = Path(__file__).resolve().parents[3]
VALUES = read_yaml(ROOT / "params.yaml")
VQ = VALUES["scales"]["mini"]["tokenizers"]["vq"]
MCD = {"label": "X", "method": "mcd"}
DIFFUSE = {"kind": "diffuse", "steps": 25}
SYSTEMS = ("scales", "mini", "mc_diffusion", "systems")
TABLES = ("scales", "mini", "tables")


def _changed(*path: str, to: Any) -> dict[str, Any]:
    return put(copy.deepcopy(VALUES), path, to)


def test_systems_of_the_first_seed_ask_for_no_other() -> None:
    values = _changed("scales", "mini", "pretrain", "seeds", to=[0, 1])
    plan = Plan(validate(values))
    of_second = plan.jobs["captions/described/on-codes/mcd_mcs_50/s1/best/codes"]
    assert "mcs_50_3" in of_second.policies and "mcs_50_3_image" not in of_second.policies  # type: ignore[attr-defined]
    assert plan.jobs["mcd_grid"].seeds == [0] and plan.jobs["mcd_table4"].seeds == [0, 1]  # type: ignore[attr-defined]


def test_a_system_that_names_no_steps_takes_the_tables_and_else_the_diffusions() -> None:
    job = "captions/described/on-codes/mcd/s0/best/codes"

    def steps(values: dict[str, Any]) -> dict[str, int | None]:
        policies = Plan(validate(values)).jobs[job].policies  # type: ignore[attr-defined]
        return {key: policy.write.steps for key, policy in policies.items()}

    values = _changed(*SYSTEMS, "mcd_first", "write", "steps", to=7)
    found = steps(values)
    assert found["mcd"] == 25 and found["mcd_first"] == 7
    put(values, ("scales", "mini", "mc_diffusion", "steps"), None)
    found = steps(values)
    assert found["mcd"] is None and found["mcd_first"] == 7


# sizes of the scales' vocabularies, with SOT, EOT and [MASK]
@pytest.mark.parametrize(("scale", "run", "size"), [("mini", "described", 146), ("flickr8k-long", "single", 8114)])
def test_mdc_on_codes_has_as_many_trainable_parameters(scale: str, run: str, size: int) -> None:
    plan = Plan(validate({**copy.deepcopy(VALUES), "scale": scale}))
    seed, counted = plan.scale.training.seeds[0], []
    for backbone, method in (("on-codes", "mcd"), ("matched", "mdc")):
        job = plan.pretrain(Run(run, backbone, method, seed))
        module, context = load(OBJECTIVES, job.method.objective), job.protocol.data.context_length
        model = module.build_model(job.method, job.backbone, job.protocol.pretrain, size, context, 0)
        counted.append(count_parameters(model))
    assert counted[1] == pytest.approx(counted[0], rel=0.01)


def test_the_best_is_chosen_among_what_captions_the_other_images() -> None:
    plan = Plan(validate(copy.deepcopy(VALUES)))
    table, other = plan.scale.mc_diffusion, VALUES["scales"]["mini"]["mc_diffusion"]["datasets"]["codes_dev"]["systems"]
    assert table is not None
    chosen = plan.jobs["mcd_table4"].choose  # type: ignore[attr-defined]
    assert chosen is not None and set(chosen.systems) < set(plan.scale.tables.mcd_table4.systems)  # type: ignore[union-attr]
    assert set(chosen.systems) <= set(other) and "mcs_3_printed" not in chosen.systems and "mcs_3" in chosen.systems


def test_runs_stand_on_codes_and_others_on_vectors() -> None:
    plan = Plan(validate(copy.deepcopy(VALUES)))
    runs = {method: plan.pretrain(Run("described", "on-codes", method, 0)) for method in ("mcd", "mcd_cfg")}
    for run in runs.values():
        assert "image-tokens/codes/described" in run.inputs
    assert "encoded/continuous/described" in plan.pretrain(Run("described", "before-codes", "mcd", 0)).inputs
    assert plan.jobs["image-tokens/codes/described"].inputs == ["encoders/codes", "data/corpora/described"]
    assert plan.jobs["encoders/codes"].inputs == ["tokenizers/vq"]
    assert plan.jobs["tokenizers/vq"].inputs == ["data/corpora/described"]
    names = list(plan.jobs)
    order = ["tokenizers/vq", "encoders/codes", "image-tokens/codes/described", runs["mcd"].job, "mcd_table1"]
    assert sorted(order, key=names.index) == order


def test_their_keys_change_no_other_job() -> None:
    """A recipe without the keys of few runs, and a method without those of another objective, are as before there were any."""
    plan = Plan(validate(copy.deepcopy(VALUES)))
    plain = plan.pretrain(Run("dense", "ViT-T-12", "mdc", 0)).config()
    assert not {"lr_schedule", "clip_steps", "average", "auxiliary"} & set(plain["recipe"])
    assert not {"diffusion_steps", "replaced", "guidance"} & set(plain["method"])
