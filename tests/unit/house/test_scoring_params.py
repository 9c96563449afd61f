"""What params.yaml asks of Table 2, retrieval and the position figure at each scale, and that no mistake in it is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mdc.config import load
from mdc.jobs import plan as plans
from mdc.jobs.shown import ChoiceTableJob, PositionsFigureJob

ROOT = Path(__file__).resolve().parents[3]


def _plan(scale: str, monkeypatch: pytest.MonkeyPatch) -> plans.Plan:
    monkeypatch.setattr(plans, "fingerprint", lambda *modules: "0" * 64)
    return plans.Plan(load(ROOT / "params.yaml", scale))


def _table2(plan: plans.Plan) -> ChoiceTableJob:
    job = plan.jobs["table2"]
    assert isinstance(job, ChoiceTableJob)
    return job


def test_mini_has_the_papers_seven_columns_of_500_items_or_more_each(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _plan("mini", monkeypatch)
    job, sets = _table2(plan), plan.scale.data.choices
    assert [column.key for column in job.columns] == [
        *("relation", "attribute", "dense_order", "alt_order", "add", "replace", "swap")
    ]
    for column in job.columns:
        sources: Any = [sets[name].source for name in column.sets]
        assert sum(source.items for source in sources) >= 500, column.key
    assert (job.samples, job.others) == (16, 1)
    assert {system.corpus.key for system in job.systems if system.corpus} <= {"dense", "none"}
    assert {system.backbone.key for system in job.systems} <= {"ViT-T-12", "none"}


def test_paper_scores_by_1024_masks_and_eight_other_images(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _plan("paper", monkeypatch)
    job = _table2(plan)
    assert (job.samples, job.others) == (1024, 8)
    # all of SugarCrepe's seven files and ARO's four sets, each once
    assert len(job.columns) == 7 and sorted(name for column in job.columns for name in column.sets) == sorted(
        ["aro_relation", "aro_attribution", "coco_order", "flickr30k_order"]
        + [f"sugarcrepe_{one}" for one in ("add_obj", "add_att", "replace_obj", "replace_att", "replace_rel")]
        + [f"sugarcrepe_{one}" for one in ("swap_obj", "swap_att")]
    )
    relation, attribute = job.columns[:2]
    assert relation.parts == attribute.parts == "groups" and attribute.least == 25
    assert {"next to", "near", "with", "beside"} <= set(relation.leave_out), "relations without a direction"
    assert not {"to the left of", "on", "under"} & set(relation.leave_out)
    sources: Any = [plan.scale.data.choices[name].source for name in ("coco_order", "flickr30k_order")]
    assert {source.tagger for source in sources} == {"spacy"}
    own = {system.method.label for system in job.systems if system.shown == "own" and not system.per_token}
    assert {
        "CLIP",
        "ARC",
        "MDC (Monte Carlo)",
        "MDC (Heuristic)",
        "MDC (Monte Carlo, trained range)",
        "MDC (parallel)",
    } <= own


def test_flickr8k_long_is_what_was_fixed_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _plan("flickr8k-long", monkeypatch)
    scale, job = plan.scale, _table2(plan)
    assert len(scale.training.seeds) >= 3 and scale.training.recipe.epochs >= 40 and job.others == 8
    corpora = scale.data.corpora
    as_single = {name for name, corpus in corpora.items() if corpus.source == corpora["single"].source}
    assert "single" in as_single and "dense" not in as_single
    assert set(scale.data.vocabularies["words"]) == {*as_single, "dense", *scale.data.choices}, (
        "it covers what is scored"
    )
    for table in (scale.tables.table1, scale.tables.table2):
        assert table is not None
        assert table.corpora == {corpus: ["clip", "arc", "mdc", "parallel"] for corpus in ("single", "dense")}
    assert {system.weights for system in job.systems if system.corpus} == {"last", "best"}
    cifar: Any = scale.data.probes["cifar10"].source
    assert cifar.path == "cifar10_20k.parquet"
    for corpus in ("single", "dense"):
        runs = [name for name in plan.jobs if name.startswith(f"runs/{corpus}/ViT-T-8/mdc/s") and name.count("/") == 4]
        assert len(runs) == len(scale.training.seeds)


@pytest.mark.parametrize("scale", ["mini", "flickr8k-long", "paper"])
def test_the_figure_has_mdc_on_prefix_masks_and_arc_from_right_to_left_beside(
    scale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = _plan(scale, monkeypatch)
    job = plan.jobs["figure_position"]
    assert isinstance(job, PositionsFigureJob)
    by_corpus: dict[str, set[str]] = {}
    for system in job.systems:
        by_corpus.setdefault(system.corpus.key, set()).add(system.method.key)
        assert system.reverse == (system.method.key == "arc_rtl")
        for record in system.records:
            run: Any = plan.jobs[record.replace("positions/", "runs/", 1).removesuffix("/last")]
            assert run.recipe.snapshots, "how the learning signal changes over the training"
    assert len(by_corpus) == 2 and all({"arc", "mdc"} <= methods for methods in by_corpus.values())
    assert any({"arc_rtl", "mdc_0_100"} <= methods for methods in by_corpus.values())
    assert job.reference == "arc" and set(job.primary) == {f"{corpus}/mdc" for corpus in by_corpus}
