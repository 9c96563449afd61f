"""What sections of params.yaml ask for: scores, captions, the claims of captions, and MC-Diffusion."""

from typing import Any

import pytest
from read_table import read_table
from scale_files import SCALES, scale_values
from scale_plans import changed_plan, plan_of

from mdc.models.build import build_for
from mdc.models.initial import count_parameters
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError

VALUES = scale_values("mini")


# --- scores -------------------------------------------------------------------------------------------------------


def test_mini_has_the_papers_seven_columns_of_500_items_or_more_each() -> None:
    job: Any = plan_of("mini").jobs["table2"]
    sets = plan_of("mini").scale.data.choices
    columns = [column for column in job.columns if column.more["score"] is None]  # the others are Winoground's
    assert [column.key for column in columns] == [
        *("relation", "attribute", "dense_order", "alt_order", "add", "replace", "swap")
    ]
    for column in columns:
        sources: Any = [sets[name].source for name in column.more["sets"]]
        assert sum(source.items for source in sources) >= 500, column.key


def test_paper_scores_by_1024_masks_and_eight_other_images() -> None:
    job: Any = plan_of("paper").jobs["table2"]
    assert (job.more["samples"], job.more["others"]) == (1024, 8)
    # all of SugarCrepe's files and ARO's sets, each once; the order columns stand a second time by ARO's own rule for ties
    parts = ("add_obj", "add_att", "replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att")
    aro = ["aro_relation", "aro_attribution", "coco_order", "flickr30k_order"]
    papers = [column for column in job.columns if column.more["score"] is None]  # the others are Winoground's
    shared = [column for column in papers if column.more["ties"] == "shared"]
    assert sorted(name for column in shared for name in column.more["sets"]) == sorted(
        aro + [f"sugarcrepe_{part}" for part in parts]
    )
    assert [column.more["sets"] for column in papers if column not in shared] == [["coco_order"], ["flickr30k_order"]]
    relation, attribute = job.columns[:2]
    assert relation.more["parts"] == attribute.more["parts"] == "groups" and attribute.more["min_items"] == 25
    assert {"next to", "near", "with", "beside"} <= set(relation.more["omit"]), "relations without a direction"
    assert not {"to the left of", "on", "under"} & set(relation.more["omit"])


def test_flickr8k_long_is_what_was_fixed_beforehand() -> None:
    scale, jobs = plan_of("flickr8k-long").scale, plan_of("flickr8k-long").jobs
    job: Any = jobs["table2"]
    assert len(scale.training.seeds) >= 3 and scale.training.recipe.epochs >= 40 and job.more["others"] == 8
    corpora = scale.data.corpora
    as_single = {name for name, corpus in corpora.items() if corpus.source == corpora["single"].source}
    words = {*as_single, "dense", *scale.data.choices}
    assert set(scale.data.vocabularies["words"]) == words, "it covers what is scored"
    for table in (scale.tables["table1"], scale.tables["table2"]):
        assert table.corpora == {corpus: ["clip", "arc", "mdc", "parallel"] for corpus in ("single", "dense")}
    assert {system.weights for system in job.systems if system.corpus} == {"last", "best"}


@pytest.mark.parametrize("scale", ["mini", "flickr8k-long", "paper"])
def test_the_figure_has_mdc_on_prefix_masks_and_arc_from_right_to_left_beside(scale: str) -> None:
    plan = plan_of(scale)
    job: Any = plan.jobs["figure_position"]
    by_corpus: dict[str, set[str]] = {}
    for system in job.systems:
        by_corpus.setdefault(system.corpus.key, set()).add(system.method.key)
        assert system.more["reverse"] == (system.method.key == "arc_rtl")
        for record in system.records:
            run: Any = plan.jobs[record.replace("positions/", "runs/", 1).removesuffix("/last")]
            assert run.recipe.snapshots, "how the learning signal changes over the training"
    assert len(by_corpus) == 2 and all({"arc", "mdc"} <= methods for methods in by_corpus.values())
    assert any({"arc_rtl", "mdc_0_100"} <= methods for methods in by_corpus.values())
    assert job.more["reference"] == "arc" and set(job.more["claimed"]) == {f"{corpus}/mdc" for corpus in by_corpus}


# --- captions -----------------------------------------------------------------------------------------------------


def test_a_run_keeps_its_vocabulary() -> None:
    words = [name for name in VALUES["data"]["vocabularies"]["words"] if name != "described"]
    others = ("data", "corpora", "described", "vocabulary"), "others"
    with pytest.raises(UserError, match=r"described has the vocabulary others, and dense, .* has words; a run keeps"):
        changed_plan(others, (("data", "vocabularies"), {"words": words, "others": ["described"]}))


def test_a_finetuned_run_is_a_run_like_any_other() -> None:
    plan = plan_of("mini")
    before, after = Run("dense", "ViT-T-12", "mdc", 0), Run("dense", "ViT-T-12", "mdc", 0, "described")
    assert after.id == "dense/ViT-T-12/mdc/s0/ft-described" and after.system == "dense/ViT-T-12/mdc/ft-described"
    assert after.pretrained == before and plan.runs.index(before) < plan.runs.index(after)
    job = plan.pretrain(after)
    assert job.inputs == [f"runs/{before.id}", "data/corpora/described", "data/vocabularies/words"]
    assert job.start is not None and job.start.config_sha256 == plan.pretrain(before).sha256
    captions: Any = plan.scale.captions
    assert job.recipe == captions.finetunings["described"].recipe and job.corpus == "described"
    # nothing of a run that is not finetuned speaks of it
    assert "start" not in plan.pretrain(before).config()
    # and the figure of losses shows pretraining alone
    assert not any("/ft-" in name for name in plan.jobs["figure_loss"].inputs)


def test_systems_of_one_run_are_captioned_by_one_job() -> None:
    plan = plan_of("mini")
    written = [name for name in plan.jobs if name.startswith("captions/") and name.endswith("/described")]
    tuned = ("arc/s0/ft-described", "mdc/s0/ft-described", "mdc/s0/ft-described_ends")
    runs = [f"captions/dense/ViT-T-12/{run}/best/described" for run in tuned]
    assert written == ["captions/most_frequent/described", *runs]
    # … and measured by one, so that another method measures its own captions alone
    assert all(name in plan.jobs[name.replace("captions/", "metrics/")].inputs for name in written)
    asked = [key for name in written for key in plan.jobs[name].policies]  # type: ignore[attr-defined]
    assert sorted(asked) == sorted(plan.scale.captioned["described"])


@pytest.mark.parametrize("scale", [name for name in SCALES if "table_few" in scale_values(name)["tables"]])
def test_a_guide_is_trained_for_the_datasets_alone_whose_captions_it_guides(scale: str) -> None:
    plan = plan_of(scale)
    (dataset,) = scale_values(scale)["tables"]["table_few"]["datasets"]
    section: Any = plan.scale.captions
    guided = [name for name in plan.jobs if getattr(plan.jobs[name], "guide", None) is not None]
    assert guided and {name.rpartition("/")[2] for name in guided} == {dataset}
    trained = {plan.jobs[name].guide.run for name in guided}  # type: ignore[attr-defined]
    (run,) = trained
    assert run.split("/")[1] == section.datasets[dataset].pretrained
    others = {one.pretrained for name, one in section.datasets.items() if name != dataset} - {run.split("/")[1]}
    if scale == "flickr8k-claims":
        assert others and not any(f"runs/{one}/ViT-T-8/clip/s1" in plan.jobs for one in others)


CONTEST = {"arc": None, "mdc_10": [10], "mdc_15": [15], "mdc_20": [20]}


@pytest.mark.parametrize("scale", ["mini", "flickr8k-long", "paper"])
def test_every_table_3_holds_the_papers_contest_and_its_controls(scale: str) -> None:
    """The published contest is of four systems and no others; free length and CoCa enter a second one."""
    table: Any = plan_of(scale).scale.captions
    shown: Any = plan_of(scale).scale.tables["table3"]
    systems, contests = {key: table.systems[key] for key in shown.systems if key in table.systems}, table.judge.contests
    assert next(iter(contests)) == "paper" and contests["paper"].systems == list(CONTEST)
    assert [set(one.systems) for one in list(contests.values())[1:]] == [{*CONTEST, "mdc_free", *table.coca}]
    for name, lengths in CONTEST.items():
        way = systems[name].decode
        if lengths is None:  # beam search that is free to end
            assert systems[name].method == "arc" and way.kind == "beam" and (way.num_beams, way.min_tokens) == (6, 1)
            continue
        assert systems[name].method == "mdc" and way.kind == "unmask" and way.lengths == lengths
        # one piece a step, the likeliest
        assert (way.tokens_per_step, way.threshold, way.temperature, way.ends) == (1, None, None, False)
        control = systems[f"arc_{lengths[0]}"].decode
        assert (
            control.kind == "beam"
            and control.num_beams == 6
            and (control.min_tokens, control.max_tokens) == (*lengths, *lengths)
        )
    assert systems["mdc_free"].decode.ends and systems["mdc_15_3"].decode.tokens_per_step == 3
    assert {one.method for one in systems.values() if one.images == "other"} == {"arc", "mdc"}
    assert bool(table.coca) == (scale == "paper")
    by = table.judge.by
    assert by.kind == ("endpoint" if scale == "paper" else "clip_score")
    clip = table.clip_score
    assert clip is not None and clip.kind == ("open_clip" if scale == "paper" else "run")
    if scale == "paper":
        assert "Qwen2.5-VL-72B" in by.model and (clip.model, clip.weights) == ("ViT-B-32-quickgelu", "openai")
        datasets = [table.datasets[name] for name in shown.datasets]
        sets = [(one.label, one.split, one.instances is not None) for one in datasets]
        assert sorted(sets) == [("Flickr30k", "test", False), ("MSCOCO", "test", True)]


# --- claims of captions -------------------------------------------------------------------------------------------


def test_a_table_alone_of_captions_needs_a_section() -> None:
    alone = ("tables",), {"table_ratio": VALUES["tables"]["table_ratio"]}
    with pytest.raises(UserError, match="captions: this key is missing; needed by table_ratio"):
        changed_plan(alone, (("captions",), None))


@pytest.mark.parametrize("name", [name for name in SCALES if "table_ratio" in scale_values(name)["tables"]])
def test_a_table_of_claims_is_made_from_its_own_sections_captions(name: str) -> None:
    """… and needs no run of the section's other tables."""
    plan = plan_of(name)
    job: Any = plan.jobs["table_ratio"]
    shown = {f"runs/{run}" for system in job.systems for run in system.runs if not run.startswith("captions/")}
    behind = {name for name in plan.ancestors("table_ratio") if name.startswith("runs/")}
    assert {name for name in behind if "/clip" not in name} == shown
    assert {record.partition("/")[0] for system in job.systems for record in system.records} == {"metrics"}
    keys = [system.key for system in job.systems]
    asked = scale_values(name)["tables"]["table_ratio"]["systems"]
    assert keys == ["claimed/most_frequent", *(f"claimed/{key}" for key in asked)]
    # each is another run, but for the one that is shown other images
    runs = [system.runs[0] for system in job.systems if system.role != "control"]
    assert len(set(runs)) == len(runs)


def test_a_dataset_that_lists_its_systems_is_shown_worse_images_too() -> None:
    """What stands for five systems more needs not be named six times."""
    systems = {
        key: one for key, one in VALUES["captions"]["systems"].items() if key not in ("mcd_continuous", "mcd_patches")
    }
    plain = [*systems, *(f"{key}_other" for key, one in systems.items() if one.get("mismatched") is True)]
    listed = changed_plan((("captions", "datasets", "claimed", "systems"), plain)).jobs["figure_robustness"]
    assert listed == plan_of("mini").jobs["figure_robustness"]


def test_a_figure_of_worse_images_has_six_claims_at_most() -> None:
    place = ("tables", "figure_robustness")
    pairs = [["mdc_tuned", "arc_tuned"], ["cnn_mdc", "cnn_arc_greedy"], ["cnn_mdc", "cnn_lstm_greedy"]]

    def with_pairs(key: str, value: Any) -> Plan:
        return changed_plan(((*place, "primary"), pairs), ((*place, key), value), scale="flickr8k-long")

    for key, value, said in (
        ("primary_kinds", None, "primary: 3 pairs on 4 kinds are 12 claims, allowed: 6"),
        ("primary_kinds", ["noise", "jpeg", "blur"], "3 pairs on 3 kinds are 9 claims, allowed: 6"),
        ("kinds", ["noise"], r"primary_kinds: no kind of this figure \(kinds\) is named 'jpeg'; allowed: noise"),
    ):
        with pytest.raises(UserError, match=said):
            with_pairs(key, value)
    job: Any = with_pairs("primary_kinds", []).jobs["figure_robustness"]
    assert job.more["claimed"] == [] and len(job.more["between"]) == 3


@pytest.mark.parametrize(("method", "backbone", "epochs", "said"), read_table(__file__, "does_not_fit"))
def test_a_method_that_its_backbone_or_its_recipe_does_not_fit(
    method: str, backbone: dict[str, Any], epochs: int, said: str
) -> None:
    plan = _neighbours(method, backbone, epochs)
    with pytest.raises(UserError, match=rf"run alt/ViT-T-12/{method}/s0: .*{said}|{said}"):
        _ = plan.jobs


def test_clip_trains_its_encoder() -> None:
    shown = {"figure_loss": {"corpora": {"described": ["clip"]}, "backbones": ["on-codes"]}}
    with pytest.raises(UserError, match=r"backbones.on-codes: clip trains its encoder and cannot use this backbone"):
        _ = changed_plan((("tables",), shown)).jobs


def test_a_scene_corpus_has_a_batch_of_the_run_s_own_recipe() -> None:
    changes = [
        (("tables",), {"figure_loss": {"corpora": {"alt": ["mdc"]}, "backbones": ["ViT-T-12"]}}),
        (("data", "corpora", "alt", "source", "train"), 32),
    ]
    with pytest.raises(UserError, match=r"run alt/.*: data.corpora.alt.source.train = 32: fewer than one batch of 64"):
        _ = changed_plan(*changes).jobs
    smaller = [{"when": {"corpus": ["alt"]}, "set": {"batch_size": 16}}]
    assert changed_plan(*changes, (("pretrain", "overrides"), smaller)).jobs


def test_superclass_counts_its_corpus_once_and_half_the_steps_are_half_the_epochs() -> None:
    jobs = _neighbours("superclass", {}, 2).jobs
    counted = [name for name in jobs if name.startswith("data/frequencies/")]
    assert counted == ["data/frequencies/alt"] and jobs[counted[0]].inputs == ["data/corpora/alt"]
    assert list(jobs).index(counted[0]) < list(jobs).index("runs/alt/ViT-T-12/superclass/s0")
    assert counted[0] in jobs["runs/alt/ViT-T-12/superclass/s0"].inputs
    assert not any("frequencies" in name for name in plan_of("flickr8k").jobs), "no run of SuperClass, no frequencies"
    for method, epochs in (("mdc_complementary", 4), ("mdc_complementary_half", 2)):
        run: Any = _neighbours(method, {}, 4).jobs[f"runs/alt/ViT-T-12/{method}/s0"]
        assert run.recipe.epochs == epochs and run.method.steps is None


def _neighbours(method: str, backbone: dict[str, Any], epochs: int) -> Plan:
    """Mini's corpus under one method, in its losses alone."""
    return changed_plan(
        (("tables",), {"figure_loss": {"corpora": {"alt": [method]}, "backbones": ["ViT-T-12"]}}),
        (("pretrain", "recipe", "epochs"), epochs),
        *((("pretrain", "backbones", "ViT-T-12", key), value) for key, value in backbone.items()),
    )


def test_objects_are_read_of_rendered_scenes_alone() -> None:
    """A scale may have such a backbone beside corpora of photos, as long as no run puts both together."""
    plan = changed_plan((("pretrain", "backbones", "ViT-T-8-mean", "visual_context"), "objects"), scale="flickr8k-long")
    said = (
        r"scales/flickr8k-long.yaml: run single/ViT-T-8-mean/mdc/s1: pretrain.backbones.ViT-T-8-mean.visual_context = objects: "
        r"cannot read a corpus of kind \w+ \(single\); allowed here: patches"
    )
    with pytest.raises(UserError, match=said):
        _ = plan.jobs


# --- MC-Diffusion -------------------------------------------------------------------------------------------------


def test_systems_of_the_first_seed_ask_for_no_other() -> None:
    plan = changed_plan((("pretrain", "seeds"), [0, 1]))
    of_second = plan.jobs["captions/described/on-codes/mcd_mcs_50/s1/best/codes"]
    assert "mcs_50_3" in of_second.policies and "mcs_50_3_image" not in of_second.policies  # type: ignore[attr-defined]
    assert plan.jobs["mcd_grid"].seeds == [0] and plan.jobs["mcd_table4"].seeds == [0, 1]  # type: ignore[attr-defined]


def test_a_system_that_names_no_steps_takes_the_tables_and_else_the_diffusions() -> None:
    job = "captions/described/on-codes/mcd/s0/best/codes"

    own, tables = ("captions", "systems", "mcd_first", "decode", "steps"), ("captions", "usual")
    for changes, expected in (([], 25), ([(tables, {})], None)):
        policies = changed_plan((own, 7), *changes).jobs[job].policies  # type: ignore[attr-defined]
        assert policies["mcd"].decode.steps == expected and policies["mcd_first"].decode.steps == 7


# sizes of the scales' vocabularies, with SOT, EOT and [MASK]
@pytest.mark.parametrize(("scale", "run", "size"), [("mini", "described", 146), ("flickr8k-long", "single", 8114)])
def test_mdc_on_codes_has_as_many_trainable_parameters(scale: str, run: str, size: int) -> None:
    plan = plan_of(scale)
    seed, counted = plan.scale.training.seeds[0], []
    for backbone, method in (("on-codes", "mcd"), ("matched", "mdc")):
        job = plan.pretrain(Run(run, backbone, method, seed))
        counted.append(count_parameters(build_for(job, size)))
    assert counted[1] == pytest.approx(counted[0], rel=0.01)


def test_the_best_is_chosen_among_what_captions_the_other_images() -> None:
    plan = plan_of("mini")
    table: Any = plan.scale.captions
    other = plan.scale.captioned["codes_dev"]
    chosen = plan.jobs["mcd_table4"].more.get("choose")  # type: ignore[attr-defined]
    assert chosen is not None and set(chosen["systems"]) < set(table.members(plan.scale.tables["mcd_table4"].systems))  # type: ignore[union-attr]
    assert (
        set(chosen["systems"]) <= set(other)
        and "mcs_3_printed" not in chosen["systems"]
        and "mcs_3" in chosen["systems"]
    )
