"""What one entry of a scale stands for: systems of captioning, variants of a corpus, what a column is the mean over."""

from typing import Any

import pytest
from read_table import read_table
from scale_files import scale_values
from scale_plans import changed_plan

from mdc.plan.config.kinds.choice_sources import ARO_SYMMETRIC, Parts, mean_over
from mdc.plan.config.kinds.known import CHOICES
from mdc.plan.config.systems import SystemEntry, Systems, expand
from mdc.plan.jobs.ids import Run
from mdc.plan.records import UserError

MINI = scale_values("mini")
DIFFUSE, UNMASK = {"kind": "diffuse"}, {"kind": "unmask", "lengths": [6]}


def _written_out(**entries: dict[str, Any]) -> Systems:
    whole = {"method": "m", "decode": UNMASK}
    return expand({key: SystemEntry.model_validate({"label": key, **whole, **one}) for key, one in entries.items()})


# --- systems ----------------------------------------------------------------------------------------------------------


def test_a_list_of_scales_or_weights_is_a_system_for_each() -> None:
    found = _written_out(
        cfg={"label": "CFG", "decode": {**DIFFUSE, "guidance": [1.0, 2.5], "steps": 7}},
        guided={"label": "by", "decode": {**UNMASK, "guide": {"weight": [10, 30], "candidates": 3}}},
        plain={"decode": {**DIFFUSE, "guidance": 2.0}},
        alone={"decode": {**DIFFUSE, "guidance": [2.0]}},
    )
    systems: dict[str, Any] = found.all
    assert {key: one.label for key, one in systems.items()} == {
        **{"cfg_1": "CFG 1", "cfg_2_5": "CFG 2.5", "guided_10": "by 10", "guided_30": "by 30"},
        **{"plain": "plain", "alone_2": "alone 2"},
    }
    assert [(one.decode.guidance, one.decode.steps) for one in (systems["cfg_1"], systems["cfg_2_5"])] == [
        (1, 7),
        (2.5, 7),
    ]
    guides = [systems[key].decode.guide for key in ("guided_10", "guided_30")]
    assert [(one.weight, one.candidates) for one in guides] == [(10, 3), (30, 3)]
    assert found.members["cfg"] == ["cfg_1", "cfg_2_5"] and found.members["plain"] == ["plain"]


def test_a_mismatched_system_has_a_control_behind_all_others() -> None:
    sweep = {"decode": {**DIFFUSE, "guidance": [1.0, 3.0]}}
    found = _written_out(
        x={"mismatched": True, "label": "X"}, some={**sweep, "mismatched": [3.0]}, all={**sweep, "mismatched": True}
    )
    plain = ["x", "some_1", "some_3", "all_1", "all_3"]
    assert list(found.all) == [*plain, "x_other", "some_3_other", "all_1_other", "all_3_other"]
    for key, one in found.all.items():
        assert one.images == ("own" if key in plain else "other")
    assert found.all["x_other"] == found.all["x"].model_copy(
        update={"label": "X · mismatched image", "images": "other"}
    )
    assert found.members["x"] == found.captioning["x"] == ["x"], "it is named where it is wanted"
    for asked in ([2.0], [3.0, 2.0]):
        with pytest.raises(ValueError, match=r"systems\.x\.mismatched: 2 is no value of its sweep"):
            _written_out(x={**sweep, "mismatched": asked})


def test_a_distorted_system_is_shown_every_strength_of_each_kind() -> None:
    found = _written_out(x={"label": "X", "distorted": ["noise", "jpeg"], "mismatched": True}, y={})
    worse = [f"x_{kind}_{strength}" for kind in ("noise", "jpeg") for strength in range(1, 6)]
    assert list(found.all) == ["x", *worse, "y", "x_other"] and found.all["x"].distortion is None
    told = found.all["x_noise_3"].model_dump(include={"label", "ranked", "distortion", "method"})
    more = {
        "label": "X · Gaussian noise 3",
        "ranked": False,
        "distortion": {"kind": "noise", "strength": 3, "level": 0.18},
    }
    assert told == {"method": "m", **more}
    assert found.captioning["x"] == ["x", *worse] and found.members["x"] == ["x"], (
        "its name in a list of rows is one row"
    )


@pytest.mark.parametrize(("entries", "said"), read_table(__file__, "collisions"), ids=str)
def test_two_systems_of_one_name_are_refused(entries: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        _written_out(**entries)


@pytest.mark.parametrize(("decode", "length"), read_table(__file__, "lengths"), ids=str)
def test_the_column_of_lengths_follows_from_how_a_system_decodes(decode: dict[str, Any], length: str) -> None:
    assert _written_out(x={"decode": decode}).all["x"].decode.shown_length == length


def test_in_lists_of_systems_a_sweep_stands_for_all_its_values() -> None:
    plan = changed_plan()
    table: Any = plan.scale.captions
    sweep = ["cfg_1", "cfg_1_5", "cfg_2", "cfg_3", "cfg_5"]
    assert table.members(["mcd", "cfg", "cfg_3_other"]) == ["mcd", *sweep, "cfg_3_other"]
    assert [key for key in table.captioning("codes_dev") if key.startswith("cfg")] == sweep
    shown: Any = plan.jobs["mcd_table3"]
    assert [one.method.key for one in shown.systems if one.method.key.startswith("cfg")] == [
        *sweep,
        "cfg_1_other",
        "cfg_3_other",
    ]
    drawn: Any = plan.jobs["mcd_figure3"]
    assert drawn.more["curves"][0]["systems"] == [f"codes/{key}" for key in sweep]
    assert drawn.more["curves"][0]["scales"] == [1.0, 1.5, 2.0, 3.0, 5.0]
    with pytest.raises(UserError, match=r"mcd_table3\.primary: no dataset/system of this table is named 'codes/cfg'"):
        changed_plan((("tables", "mcd_table3", "primary"), [["codes/cfg", "codes/cfg_1"]]))


def test_a_scales_file_writes_neither_controls_nor_worse_images_out() -> None:
    """Their keys are not those of an entry: what an entry says holds for all that it stands for."""
    for key, value in (("images", "other"), ("distortion", {"kind": "noise", "strength": 1}), ("length", "6")):
        with pytest.raises(UserError, match=f"ratio_15.{key} = .*: no such key"):
            changed_plan((("captions", "systems", "ratio_15", key), value))
    section = changed_plan().scale.captions
    assert section is not None and list(section.entries) == list(MINI["captions"]["systems"])


# --- variants ---------------------------------------------------------------------------------------------------------

VARIANTS = ("pretrain", "variants")
REPEATED = ("tables", "figure_repetition", "corpora")


def test_each_value_of_a_variant_is_a_run_of_its_own_on_the_same_corpus() -> None:
    plan = changed_plan((VARIANTS, {"dense": {"epochs": [1, 4]}}), (REPEATED, ["dense", "dense_1", "dense_4"]))
    jobs = [plan.pretrain(Run(name, "ViT-T-12", "mdc", 0)) for name in ("dense", "dense_1", "dense_4")]
    assert [job.recipe.epochs for job in jobs] == [2, 1, 4]
    for job in jobs:
        assert job.corpus == "dense" and job.inputs == ["data/corpora/dense", "data/vocabularies/words"]
        assert job.recipe == jobs[0].recipe.model_copy(update={"epochs": job.recipe.epochs})
    assert {"runs/dense_1/ViT-T-12/mdc/s0", "runs/dense_4/ViT-T-12/mdc/s0"} <= set(plan.jobs)
    shown: Any = plan.jobs["figure_repetition"]
    labels = {one.corpus.key: one.corpus.label for one in shown.systems if one.corpus}
    assert labels == {"dense": "Dense", "dense_1": "Dense, 1 epoch", "dense_4": "Dense, 4 epochs"}


def test_other_keys_than_epochs_make_variants_too() -> None:
    plan = changed_plan((VARIANTS, {"alt": {"lr": [0.0005]}}), (REPEATED, ["alt", "alt_0_0005"]))
    assert plan.pretrain(Run("alt_0_0005", "ViT-T-12", "mdc", 0)).recipe.lr == 0.0005
    assert plan.scale.label_of("alt_0_0005") == "Alt-text, lr 0.0005"


def test_an_override_comes_on_top_of_a_variant_that_it_names() -> None:
    def epochs(corpus: str) -> dict[str, int]:
        plan = changed_plan((("pretrain", "overrides"), [{"when": {"corpus": [corpus]}, "set": {"epochs": 9}}]))
        return {name: plan.pretrain(Run(name, "ViT-T-12", "mdc", 0)).recipe.epochs for name in ("dense", "dense_4")}

    assert epochs("dense_4") == {"dense": 2, "dense_4": 9} and epochs("dense") == {"dense": 9, "dense_4": 4}


def test_captions_of_a_variants_runs() -> None:
    plan = changed_plan((("captions", "datasets", "claimed", "pretrained"), "dense_4"))
    assert "captions/dense_4/ViT-T-12/mdc/s0/last/claimed" in plan.jobs
    scores = changed_plan((("tables", "table_retrieval"), {"corpora": {"dense_4": ["mdc"]}, "pairs": 48}))
    assert "data/corpora/dense" in scores.jobs["retrieval/dense_4/ViT-T-12/mdc/s0/last"].inputs
    trained_on = ("captions", "datasets", "split_1", "pretrained")
    splits = changed_plan((VARIANTS, {"split_1": {"epochs": [4]}}), (trained_on, "split_1_4"), scale="flickr8k-claims")
    assert "data/corpora/split_1" in splits.jobs["table_splits"].inputs


@pytest.mark.parametrize(("variants", "said"), read_table(__file__, "variants"), ids=str)
def test_what_can_be_no_variant_is_refused(variants: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        changed_plan((VARIANTS, variants))


def test_a_variant_is_no_corpus_where_data_is_meant() -> None:
    with pytest.raises(UserError, match=r"figure3\.corpora: no corpus is named 'dense_4'"):
        changed_plan((("tables", "figure3", "corpora"), ["dense_4"]))


# --- columns of table 2 -----------------------------------------------------------------------------------------------


def test_a_column_is_the_mean_over_what_its_benchmark_counts() -> None:
    def of(*told: dict[str, Any]) -> Parts:
        return mean_over([CHOICES[one["kind"]].model_validate(one) for one in told])

    aro: dict[str, Any] = {"kind": "aro", "dataset": "aro"}
    relation, attribute = {**aro, "task": "relation"}, {**aro, "task": "attribution"}
    other = {"kind": "sugarcrepe", "dataset": "sugarcrepe", "task": "add_att"}
    scenes = {"kind": "scenes", "items": 8, "seed": 0, "pixels": 48}
    assert of(relation) == Parts(parts="groups", omit=list(ARO_SYMMETRIC))
    assert of(attribute) == Parts(parts="groups", min_items=25)
    assert of({**scenes, "question": "relation"}) == Parts(parts="groups")
    assert (
        of(other)
        == of({**scenes, "question": "attribute"})
        == of(relation, attribute)
        == of(relation, other)
        == Parts()
    )
    table: Any = changed_plan().jobs["table2"]
    assert [column.key for column in table.columns if column.more["parts"] == "groups"] == ["relation"]


# --- snapshots --------------------------------------------------------------------------------------------------------

CONVERGENCE = ("tables", "figure_convergence")


def _snapshots(shares: list[float], methods: list[str]) -> tuple[tuple[str, ...], Any]:
    return ("pretrain", "overrides"), [{"when": {"method": methods}, "set": {"snapshots": shares}}]


def test_a_figure_of_convergence_probes_the_snapshots_that_its_runs_keep() -> None:
    figure = {
        **MINI["tables"]["figure_convergence"],
        "methods": ["mdc", "parallel"],
        "contrasts": [["mdc", "parallel"]],
    }
    plan = changed_plan(_snapshots([0.2, 0.6], ["mdc", "parallel"]), (CONVERGENCE, {**figure, "claimed_at": 0.2}))
    ends = [f"dense/ViT-T-12/{method}" for method in ("mdc", "parallel")]
    for end in ends:
        whole, early = (plan.jobs[f"probe/{end}/s0{at}"].config() for at in ("", "/at-0.2"))
        assert early["snapshot"] == 0.2 and "snapshot" not in whole
        assert early["probes"] == figure["probes"] and early["run_config_sha256"] == whole["run_config_sha256"]
    job: Any = plan.jobs["figure_convergence"]
    assert job.more["shares"] == {
        end + at: share for end in ends for at, share in (("/at-0.2", 0.2), ("/at-0.6", 0.6), ("", 1.0))
    }
    assert job.contrasts == [[end + at for end in ends] for at in ("/at-0.2", "/at-0.6", "")]
    assert job.primary == [[f"{end}/at-0.2" for end in ends]]
    labels = {system.key: system.method.label for system in job.systems}
    assert labels[f"{ends[0]}/at-0.2"] == "MDC · 20 %" and labels[ends[0]] == "MDC"


@pytest.mark.parametrize(
    ("shares", "methods", "said"),
    [
        ([0.12345671, 0.12345672], ["mdc"], r"overrides\[0\].set: snapshots: .* two of them have the same name"),
        ([0.25], ["arc", "mdc"], r"dense/ViT-T-12/parallel/s0 keeps none, dense/ViT-T-12/mdc/s0 \[0.25\]"),
        ([0.25], [], r"tables.figure_convergence: needs the same snapshots .*: dense/ViT-T-12/mdc/s0 keeps none"),
        (
            [0.3],
            ["arc", "mdc", "parallel"],
            r"claimed_at = 0.25: no snapshot of dense/ViT-T-12/mdc/s0; it keeps \[0.3\]",
        ),
    ],
)
def test_snapshots_that_a_figure_of_convergence_cannot_do_without(shares: Any, methods: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        assert changed_plan(_snapshots(shares, methods)).jobs


def test_two_different_jobs_have_two_names() -> None:
    """Here the probes of a run by a head, and those of its snapshot by the linear head."""
    head = {"label": "k-NN", "kind": "knn", "k": 3, "temperature": 0.1}
    table = {"corpora": {"dense": ["mdc"]}, "backbones": ["ViT-T-12"], "probes": ["shape"], "heads": ["at-0.25"]}
    plan = changed_plan((("probe", "heads", "at-0.25"), head), (("tables", "table_neighbours"), table))
    with pytest.raises(UserError, match=r"probe/dense/ViT-T-12/mdc/s0/at-0.25: two different jobs have this name"):
        assert plan.jobs


def test_a_table_of_costs_names_captions_that_there_are() -> None:
    with pytest.raises(
        UserError, match=r"tables.table_cost.datasets: no captioned dataset is named .dense.; allowed: described, codes"
    ):
        assert changed_plan((("tables", "table_cost", "datasets"), ["dense"])).jobs
