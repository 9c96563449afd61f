"""What captioning asks for in params.yaml: every mistake ends in one line that says where and what is allowed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from changed import put

from mdc.config import read_yaml, validate
from mdc.jobs.ids import Run
from mdc.jobs.plan import Plan
from mdc.jobs.shown_captions import CaptionTableJob
from mdc.records import UserError
from mdc.report import published

ROOT = Path(__file__).resolve().parents[3]
VALUES = read_yaml(ROOT / "params.yaml")


def _changed(*path: str, to: Any) -> dict[str, Any]:
    return put(copy.deepcopy(VALUES), ("scales", "mini", *path), to)


T3 = ("tables", "table3")
ARC = {"label": "X", "method": "arc", "tuned": "plain"}
MDC = {"label": "X", "method": "mdc", "tuned": "plain"}


def test_a_run_keeps_its_vocabulary() -> None:
    values = _changed("data", "vocabularies", to={"words": ["alt", "dense", "brief"], "others": ["described"]})
    mini = values["scales"]["mini"]
    mini["data"]["vocabularies"]["words"] += ["dense_2000", "dense_4000", "dense_16000", "dense_again"]
    mini["data"]["corpora"]["described"]["vocabulary"] = "others"
    with pytest.raises(UserError, match=r"described has the vocabulary others, and dense, .* has words; a run keeps"):
        validate(values)


def test_a_finetuned_run_is_a_run_like_any_other() -> None:
    plan = Plan(validate(VALUES))
    before, after = Run("dense", "ViT-T-12", "mdc", 0), Run("dense", "ViT-T-12", "mdc", 0, "described")
    assert after.id == "dense/ViT-T-12/mdc/s0/ft-described" and after.system == "dense/ViT-T-12/mdc/ft-described"
    assert after.pretrained == before and plan.runs.index(before) < plan.runs.index(after)
    job = plan.pretrain(after)
    assert job.inputs == [f"runs/{before.id}", "data/corpora/described", "data/vocabularies/words"]
    assert job.start is not None and job.start.config_sha256 == plan.pretrain(before).sha256
    assert job.recipe == plan.scale.finetune["described"].recipe and job.corpus == "described"
    # nothing of a run that is not finetuned speaks of it
    assert "start" not in plan.pretrain(before).config()
    # and the figure of losses shows pretraining alone
    assert not any("/ft-" in name for name in plan.jobs["figure_loss"].inputs)


def test_systems_of_one_run_are_captioned_by_one_job() -> None:
    plan = Plan(validate(VALUES))
    written = [name for name in plan.jobs if name.startswith("captions/") and name.endswith("/described")]
    assert written == [
        "captions/floor/described",
        "captions/dense/ViT-T-12/arc/s0/ft-described/best/described",
        "captions/dense/ViT-T-12/mdc/s0/ft-described/best/described",
        "captions/dense/ViT-T-12/mdc/s0/ft-described_ends/best/described",
    ]
    assert set(plan.jobs["metrics/described/s0"].inputs) >= set(written)
    asked = [key for name in written for key in plan.jobs[name].policies]  # type: ignore[attr-defined]
    assert sorted(asked) == sorted(VALUES["scales"]["mini"]["tables"]["table3"]["systems"])


def test_a_length_is_named_only_where_systems_differ_in_it() -> None:
    """ "MDC · 10" of a table of captions that all have ten pieces could be read as ten examples."""
    plan = Plan(validate(VALUES))

    def labels(table: str) -> dict[str, str]:
        job = plan.jobs[table]
        assert isinstance(job, CaptionTableJob)
        return {one.system: one.method.label for one in job.systems if not one.reference}

    assert labels("table_guidance")["guided_10"] == "MDC guided by 10"
    assert labels("table3")["mdc_15"] == "MDC · 15"
    assert labels("mcd_table1")["mdc_codes"] == "MDC on codes · best of 6"


CONTEST = {"arc": None, "mdc_10": [10], "mdc_15": [15], "mdc_20": [20]}


@pytest.mark.parametrize("scale", ["mini", "flickr8k-long", "paper"])
def test_every_table_3_holds_the_papers_contest_and_its_controls(scale: str) -> None:
    """The published contest is of four systems and no others; free length and CoCa enter a second one."""
    table = validate(copy.deepcopy(VALUES)).scales[scale].tables.table3
    assert table is not None and table.judge is not None
    systems, contests = table.systems, table.judge.contests
    assert next(iter(contests)) == "paper" and contests["paper"].systems == list(CONTEST)
    others = {"mdc_free", *table.coca}
    assert [set(one.systems) for name, one in contests.items() if name != "paper"] == [{*CONTEST, *others}]
    for name, lengths in CONTEST.items():
        way = systems[name].write
        if lengths is None:  # beam search that is free to end
            assert systems[name].method == "arc" and way.kind == "beam" and (way.width, way.least) == (6, 1)
            continue
        assert systems[name].method == "mdc" and way.kind == "unmask" and way.lengths == lengths
        # one piece a step, the likeliest
        assert (way.per_step, way.threshold, way.temperature, way.ends) == (1, None, None, False)
        control = systems[f"arc_{lengths[0]}"].write
        assert control.kind == "beam" and control.width == 6 and (control.least, control.most) == (*lengths, *lengths)
    assert systems["mdc_free"].write.ends and systems["mdc_15_3"].write.per_step == 3
    assert {one.method for one in systems.values() if one.images == "other"} == {"arc", "mdc"}
    assert bool(table.coca) == (scale == "paper")
    by = table.judge.by
    assert by.kind == ("endpoint" if scale == "paper" else "clip_score")
    clip = table.clip_score
    assert clip is not None and clip.kind == ("open_clip" if scale == "paper" else "run")
    if scale == "paper":
        assert "Qwen2.5-VL-72B" in by.model and (clip.model, clip.weights) == ("ViT-B-32-quickgelu", "openai")
        assert {one.label: (one.split, one.instances is not None) for one in table.datasets.values()} == {
            "MSCOCO": ("test", True),
            "Flickr30k": ("test", False),
        }


def test_every_number_of_the_papers_table_3_has_its_cell_at_scale_paper() -> None:
    job = Plan(validate({**copy.deepcopy(VALUES), "scale": "paper"})).jobs["table3"]
    assert isinstance(job, CaptionTableJob)
    there = {(one.corpus.label, one.backbone.label, one.method.label): one for one in job.systems if one.corpus}
    assert set(published.TABLE3) <= set(there)
    heads = [column.label for column in job.columns if column.part == "paper"]
    assert [*heads, "LLM"] == list(published.TABLE3_METRICS)
    contests = {one.dataset: one.systems for one in job.contests if one.label == "LLM"}
    for (dataset, backbone, method), values in published.TABLE3.items():
        system = there[dataset, backbone, method]
        found = [published.lookup("table3", dataset, backbone, method, head) for head in published.TABLE3_METRICS]
        assert tuple(found[: len(values)]) == values and found[len(values) :] == [None] * (len(found) - len(values))
        # a judge's number is printed of those that entered its contest, and of no others
        assert (len(values) == len(found)) == (system.system in contests[system.corpus.key])
