"""From parameters to jobs: the paper's own grid at scale paper, each run once, and what a changed value touches."""

from pathlib import Path
from typing import Any

import pytest
import small_project
from read_table import read_table
from scale_files import scale_values
from scale_plans import changed_plan, plan_of

from mdc.extensions.mc_diffusion.kinds import GumbelVqgan
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone
from mdc.plan.config.pretrain import Average
from mdc.plan.config.read import validate
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.plan import Plan, datasets_of
from mdc.plan.jobs.read import as_job
from mdc.plan.records import UserError
from mdc.plan.registry.datasets import REGISTRY
from mdc.plan.verbs import VERBS, verb_of

VALUES = scale_values("mini")
Step = str | int


@pytest.fixture(scope="module")
def paper() -> Plan:
    return plan_of("paper")


@pytest.fixture(scope="module")
def mini() -> Plan:
    return plan_of("mini")


def touched(before: Plan, after: Plan) -> set[str]:
    """The jobs that stand in one of the plans alone, or are asked with another configuration."""
    old, new = ({name: job.sha256 for name, job in plan.jobs.items()} for plan in (before, after))
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def layers(names: set[str]) -> set[str]:
    return {name.split("/")[0] for name in names}


def trained(job: Any) -> list[str]:
    """The ids of the runs of a table's systems that were trained."""
    return [run for system in job.systems if system.corpus is not None for run in system.runs]


# --- the grid of runs -------------------------------------------------------------------------------------------------


def test_paper_grid_is_of_runs_each_trained_once_for_all_tables_and_figures(paper: Plan) -> None:
    for name, table in paper.scale.tables.needing("probe").items():
        asked = {
            Run(corpus, backbone, method, seed)
            for corpus, methods in table.corpora.items()
            for backbone in table.backbones
            for method in methods
            for seed in paper.scale.training.seeds
        }
        assert {run.id for run in asked} == set(trained(paper.jobs[name])) and asked <= set(paper.runs)
    runs = [f"runs/{run.id}" for run in paper.runs]
    assert sorted(runs) == sorted(name for name in paper.jobs if name.startswith("runs/"))
    shown = {job for name in paper.jobs if name in ARTEFACTS for job in paper.ancestors(name)}
    assert len(set(runs)) == len(runs) and set(runs) <= shown, "no run is trained for nothing"


def test_paper_grid_of_table_1(paper: Plan) -> None:
    runs = trained(paper.jobs["table1"])
    assert len(runs) == len(set(runs)) == 21
    shared = paper.probe(Run("cc12m", "ViT-B-32", "mdc", 0), "linear").probes
    assert shared == ["imagenet1k", "food101", "cifar10", "cifar100", "pets", "stl10", "flowers102", "voc2007"]
    assert paper.probe(Run("cc12m", "ViT-B-32", "mdc_wo_t", 0), "linear").probes == ["imagenet1k"]
    for backbone in ("ViT-B-32", "ViT-B-16", "ViT-L-14"):
        for corpus, methods in (("cc12m", "clip arc mdc"), ("recap10m", "clip_lb clip arc mdc")):
            assert {f"{corpus}/{backbone}/{method}/s0" for method in methods.split()} <= set(runs)


def test_paper_towers_are_those_of_section_4_1(paper: Plan) -> None:
    """Its recipes are those of its Tables 6 to 8: tests/unit/report/test_recipes.py makes these."""
    for name in ("ViT-B-32", "ViT-B-16", "ViT-L-14"):
        backbone = paper.scale.training.backbones[name]
        assert backbone.image_size == 224 and str(backbone.patch_size) in name
        decoder = (12, 768, 12) if name == "ViT-L-14" else (12, 512, 8)
        assert (backbone.decoder.layers, backbone.decoder.width, backbone.decoder.heads) == decoder
        recipe = paper.pretrain(Run("cc12m", name, "mdc", 0)).recipe
        assert recipe.accumulation == {"ViT-B-32": 1, "ViT-B-16": 4, "ViT-L-14": 2}[name]
        assert recipe.batch_size == 1024 and recipe.processes == (8 if name == "ViT-L-14" else 1)


def test_paper_runs_of_mc_diffusion_are_those_of_its_section_4(paper: Plan) -> None:
    runs = [run for run in paper.runs if run.method.startswith("mcd")]
    assert len(runs) == 8
    for run in runs:
        job = paper.pretrain(run)
        recipe, decoder = job.recipe, job.backbone.decoder
        assert (recipe.lr, recipe.warmup_steps, recipe.batch_size, recipe.epochs) == (4.5e-4, 1000, 128, 200)
        assert (recipe.beta1, recipe.beta2, recipe.lr_schedule) == (0.9, 0.96, "constant")
        assert (recipe.weight_decay, recipe.clip_norm, recipe.clip_steps) == (0.045, 0.5, 5000)
        assert recipe.average == Average(decay=0.99, every=25)
        assert (decoder.layers, decoder.width, job.method.diffusion_steps) == (18, 512, 100)
        assert job.method.auxiliary == 5e-4
    matched = paper.pretrain(Run("cub200", "matched", "mdc", 0)).recipe
    codes_run = paper.pretrain(Run("cub200", "on-codes", "mcd", 0)).recipe
    assert matched == codes_run, "MDC beside it is trained alike"
    on_codes = paper.pretrain(Run("cub200", "on-codes", "mcd", 0))
    codes = on_codes.backbone
    assert isinstance(codes, FrozenEncoderBackbone) and (codes.frozen.tokens, codes.frozen.image_size) == (32 * 32, 256)
    assert on_codes.method.words == "clip"
    for name, rate in (("mcd_cfg", None), ("mcd_mcs", 0.1)):
        guidance = paper.params.methods[name].guidance
        assert guidance is not None and (guidance.degraded, guidance.mask_rate) == (0.1, rate)


def test_two_ids_with_equal_configurations_are_refused() -> None:
    twin = {**VALUES["methods"]["mdc"], "label": "another name"}
    methods = [*VALUES["tables"]["table1"]["corpora"]["alt"], "mdc2"]
    table = ("tables", "table1", "corpora", "alt")
    plan = changed_plan((("methods", "mdc2"), twin), (table, methods))
    with pytest.raises(UserError, match=r"alt/ViT-T-8/mdc/s0 and alt/ViT-T-8/mdc2/s0 have equal config"):
        _ = plan.runs
    # a pooling alone is the probe's choice; another weight makes it another run
    plan = changed_plan((("methods", "mdc2"), {**twin, "pooling": "cls"}), (table, methods))
    with pytest.raises(UserError, match="equal configurations"):
        _ = plan.jobs
    plan = changed_plan((("methods", "mdc2"), {**twin, "weight": "none"}), (table, methods))
    assert len(plan.runs) == len(changed_plan().runs) + 3


def test_two_corpora_with_equal_sources_are_refused() -> None:
    data = VALUES["data"]
    plan = changed_plan(
        (("data", "corpora", "again"), {**data["corpora"]["alt"], "label": "Again"}),
        (("data", "vocabularies", "words"), [*data["vocabularies"]["words"], "again"]),
        (("tables", "table1", "corpora", "again"), ["mdc"]),
    )
    with pytest.raises(UserError, match=r"alt/ViT-T-12/mdc/s0 and again/ViT-T-12/mdc/s0 .* equal configurations"):
        _ = plan.runs


def test_untrained_controls_are_one_a_backbone_pooling_and_seed(mini: Plan) -> None:
    controls = sorted(name for name in mini.jobs if name.startswith("probe/untrained/") and name.endswith("/s0"))
    backbones = mini.scale.tables.needing("probe")["table1"].backbones
    expected = [f"probe/untrained/{b}/{p}/s0" for b in backbones for p in ("cls", "patch_mean")]
    assert controls == sorted([*expected, "probe/untrained/ResNet-8/patch_mean/s0"])  # of table_cnn, which has no CLIP
    for name in controls:
        job = mini.jobs[name].config()
        assert job["run"] is None and all(start.startswith("data/probes/") for start in job["inputs"])


# --- what a changed value touches -------------------------------------------------------------------------------------


def test_a_changed_value_touches_what_it_decides_and_nothing_before(mini: Plan) -> None:
    """… beside those whose jobs at scale paper support/edits.yaml lists."""
    probing_names, logs = set(mini.scale.tables.needing("probe")), {"figure_loss"}
    scored_names = set(mini.scale.tables.needing("score"))

    def with_(*path: Step, to: Any) -> set[str]:
        return touched(mini, changed_plan((path, to)))

    # another kernel rounds differently; without it nothing says that there is a choice
    assert layers(with_("probe", "fused", to=True)) == {"probe", *probing_names}
    assert with_("probe", "fused", to=False) == set()
    # a label: what shows it; Table 5 calls its rows by their ranges
    recipes = {"table6", "table7", "table8"}
    assert with_("methods", "mdc", "label", to="MDC (ours)") == probing_names - {
        "table5",
        "table_cnn",
    } | scored_names | logs | recipes | {"table_cost"}
    assert with_("encoders", "codes", "label", to="x") <= set(ARTEFACTS)
    assert with_("pretrain", "backbones", "ViT-T-8", "label", to="tiny") == {
        *{"table1", "figure_loss", "table7"},
        *("table_guidance", "figure_robustness"),  # whose notes name the CLIP that guides
    }
    # one corpus: its own shards; runs follow by the manifest
    assert with_("data", "corpora", "alt", "source", "seed", to=99) == {"data/corpora/alt"}
    # how a verdict is made: the tables; which probe is the main one: those without an average
    assert with_("protocol", "statistics", "margins", to={"top-1": 3.0}) == {
        *probing_names,
        *scored_names,
        *(set(mini.scale.tables.needing("captions")) - {"mcd_examples", "figure6"}),
    }
    # of a recipe what no table of recipes shows: its runs, and no such table
    found = with_("pretrain", "recipe", "threads", to=2)
    assert "runs/alt/ViT-T-12/mdc/s0" in found and not recipes & found


def test_one_key_chooses_the_mirror(paper: Plan) -> None:
    found = touched(paper, changed_plan((("data", "datasets", "cc12m", "from"), "mirror"), scale="paper"))
    assert {"data/obtained/cc12m", "data/corpora/cc12m"} <= found
    # its runs follow by the manifest; only a source's own values stand in the configuration of no other set
    assert not {name for name in found if name.startswith(("data/probes", "data/choices"))}


def test_a_dataset_moved_or_a_fetch_changed_touches_what_it_gives(paper: Plan) -> None:
    found = touched(paper, changed_plan((("data", "datasets", "mscoco", "path"), "elsewhere"), scale="paper"))
    sugarcrepe = {name for name in paper.jobs if name.startswith("data/choices/sugarcrepe")}
    ours = {"data/obtained/mscoco", "data/corpora/mscoco", "data/choices/coco_order"}
    assert found == ours | sugarcrepe and len(sugarcrepe) == 7
    lists = {f"data/{what}/{name}" for what in ("plans", "obtained") for name in ("cc3m", "cc12m", "recap_datacomp_1b")}
    # a mirror is fetched by no address of an image
    mirrored = "data/downloads/winoground/"
    lists |= {name for name in paper.jobs if name.startswith("data/downloads/") and not name.startswith(mirrored)}
    assert touched(paper, changed_plan((("data", "download", "quality"), 90), scale="paper")) == lists


# --- data -------------------------------------------------------------------------------------------------------------


def test_scale_paper_has_every_dataset_of_the_papers_table_9_and_a_set_of_each(paper: Plan) -> None:
    data = paper.scale.data
    printed = {name for name, entry in REGISTRY.items() if entry.paper_label is not None}
    assert len(printed) == 15 and printed <= set(data.datasets)
    sets = [s.source for section in (data.corpora, data.probes, data.choices) for s in section.values()]
    read = {name for source in sets for name in datasets_of(source)}
    read |= {one.dataset for one in paper.scale.tokenizers.values() if isinstance(one, GumbelVqgan) and one.dataset}
    assert read == set(data.datasets)
    assert paper.jobs["tokenizers/vqgan"].inputs == ["data/obtained/vqgan_gumbel_f8"]


def test_scale_paper_fetches_no_image_of_mscoco_that_it_has(paper: Plan) -> None:
    """train2017 holds images of 2014; Karpathy's splits, CHAIR and SugarCrepe need the rest."""
    wanted = {file.name for file in REGISTRY["mscoco"].files if file.part in paper.scale.data.datasets["mscoco"].parts}
    images = {"train2014.zip", "val2014.zip", "val2017.zip"}
    assert wanted == images | {"annotations_trainval2014.zip", "caption_datasets.zip"}


def test_probes_reported_separately_are_made_and_outside_the_average(paper: Plan) -> None:
    job: Any = paper.jobs["table1"]
    assert job.primary_metric == "average" and job.reported_separately == ["stl10", "flowers102", "voc2007"]
    assert all("probes/voc2007" in str(paper.jobs[name].inputs) for name in job.expected if name.startswith("probe/"))
    assert any("VOC2007" in note for note in job.notes)


def test_probes_of_two_metrics_have_no_average_and_claims_name_columns() -> None:
    """CIFAR-10 has top-1, nouns mean average precision."""
    job: Any = plan_of("flickr8k-long").jobs["table1"]
    assert [column.metric for column in job.columns] == ["top1", "map"]
    assert (job.primary_metric, job.also_claimed) == ("cifar10", [])
    both = changed_plan((("tables", "table1", "primary_metric"), ["nouns", "cifar10"]), scale="flickr8k-long")
    named: Any = both.jobs["table1"]
    assert (named.primary_metric, named.also_claimed) == ("nouns", ["cifar10"])


def test_a_set_with_two_columns_is_once_in_the_average(paper: Plan) -> None:
    job: Any = paper.jobs["table2"]
    aro = [column.key for column in job.columns if column.more["ties"] != "shared"]
    pairs = [column.key for column in job.columns if column.more["score"] is not None]
    assert aro and pairs and job.primary_metric == "average"
    assert set(job.reported_separately) == {*aro, *pairs}
    # one column is no average: claims are about it
    text = {"label": "Text", "sets": ["pairs"], "score": "text"}
    columns = {"text": text, "relation": {"label": "Relation", "sets": ["relation"]}}
    alone: Any = changed_plan((("tables", "table2", "columns"), columns)).jobs["table2"]
    assert alone.primary_metric == "relation" and alone.reported_separately == ["text"]


def test_a_source_is_resolved_with_the_place_of_its_dataset(paper: Plan) -> None:
    pairs = paper.corpus("recap10m").config()["source"]
    assert (pairs["path"], pairs["from"], pairs["pairs"]) == ("recap-datacomp-1b", "urls", 10_000_000)
    choices = paper.set_of("choices", "sugarcrepe_add_att")
    source = choices.config()["source"]
    assert (source["path"], source["images"]) == ("sugarcrepe", "mscoco/val2017")
    assert choices.inputs == ["data/obtained/sugarcrepe", "data/obtained/mscoco"]


# --- vocabularies -----------------------------------------------------------------------------------------------------

NEW = {"label": "New", "source": {**VALUES["data"]["corpora"]["alt"]["source"], "seed": 77}}
ADD: list[tuple[tuple[Step, ...], Any]] = [
    (("data", "corpora", "new"), {**NEW, "vocabulary": "own"}),
    (("data", "vocabularies", "own"), ["new"]),
]


def test_a_new_corpus_with_a_vocabulary_of_its_own_changes_no_job_that_exists(mini: Plan) -> None:
    plan = changed_plan(*ADD)
    assert touched(mini, plan) == {"data/corpora/new", "data/vocabularies/own"}
    assert plan.jobs["data/vocabularies/own"].inputs == ["data/corpora/new"]
    trained_on = changed_plan(
        *ADD, (("tables", "figure_loss"), {"corpora": {"new": ["mdc"]}, "backbones": ["ViT-T-12"]})
    )
    run = "runs/new/ViT-T-12/mdc/s0"
    assert touched(plan, trained_on) == {run, "figure_loss"}
    assert trained_on.jobs[run].inputs == ["data/corpora/new", "data/vocabularies/own"]
    assert mini.jobs["runs/alt/ViT-T-12/mdc/s0"].inputs == ["data/corpora/alt", "data/vocabularies/words"]


def test_a_corpus_joined_to_a_vocabulary_makes_every_run_with_it_anew(mini: Plan) -> None:
    listed = [*VALUES["data"]["vocabularies"]["words"], "new"]
    plan = changed_plan((("data", "corpora", "new"), NEW), (("data", "vocabularies", "words"), listed))
    # the runs follow by the vocabulary's manifest
    assert touched(mini, plan) == {"data/corpora/new", "data/vocabularies/words"}


def test_a_corpus_that_is_trained_on_stands_in_its_vocabulary() -> None:
    table = (("tables", "table1", "corpora", "new"), ["mdc"])
    with pytest.raises(
        UserError, match=r"table1\.corpora: the vocabulary words of new is made from alt, .* one of its own"
    ):
        changed_plan((("data", "corpora", "new"), NEW), table)
    with pytest.raises(UserError, match=r"the vocabulary own of alt is made from new"):
        changed_plan(*ADD, (("data", "corpora", "alt", "vocabulary"), "own"))
    with pytest.raises(UserError, match="no vocabulary is named 'none'; allowed: words, own"):
        changed_plan(*ADD, (("data", "corpora", "new", "vocabulary"), "none"))
    # CLIP's own pieces are those of every corpus
    full = (("data", "vocabularies", "own"), "full")
    assert changed_plan(ADD[0], full, table).jobs["data/vocabularies/own"].inputs == []


# --- tables -----------------------------------------------------------------------------------------------------------


def test_systems_stand_in_the_order_of_rows_each_with_its_control(mini: Plan) -> None:
    job: Any = mini.jobs["table1"]
    backbones = list(dict.fromkeys(system.backbone.key for system in job.systems))
    assert backbones == ["ViT-T-12", "ViT-T-8", "ViT-S-12"]
    first = [system for system in job.systems if system.backbone.key == "ViT-T-12"]
    assert [system.key for system in first] == [
        *("untrained/ViT-T-12/cls", "untrained/ViT-T-12/patch_mean"),
        *(f"alt/ViT-T-12/{method}" for method in ("clip", "arc", "mdc")),
        *(f"dense/ViT-T-12/{method}" for method in ("clip_lb", "clip", "arc", "mdc")),
    ]
    for system in job.systems:
        assert system.records == [f"probe/{run}" for run in system.runs] and system.estimator == "linear probe"
        assert [job.expected[record] for record in system.records] == [mini.jobs[r].sha256 for r in system.records]
        if system.corpus is None:
            assert (
                system.role in ("reference", "control")
                and system.control is None
                and system.note.startswith("Untrained")
            )
        else:
            assert system.control == f"untrained/{system.backbone.key}/{system.pooling}"
            assert system.pooling == ("cls" if system.method.key.startswith("clip") else "patch_mean")
            assert (system.role == "ranked") == (system.method.key != "clip_lb")
    assert set(job.inputs) == {*job.expected, *(one.job for one in job.seen)}


def test_primary_comparisons_are_contrasts_on_the_first_backbone(mini: Plan, paper: Plan) -> None:
    job: Any = mini.jobs["table1"]
    assert job.primary[0] == ["dense/ViT-T-12/mdc", "dense/ViT-T-12/arc"] and len(job.primary) == 2
    for plan in (mini, paper):
        for name, table in plan.scale.tables.needing("probe").items():
            job: Any = plan.jobs[name]
            assert all(pair in job.contrasts for pair in job.primary), name
            assert len(job.primary) == len(table.primary)
            assert all(side.split("/")[1] == table.backbones[0] for pair in job.primary for side in pair)
    # one that no contrast asked for is shown too, behind the others
    alone = changed_plan(
        (("tables", "table4", "contrasts"), []),
        (("tables", "table4", "primary"), [["alt/mdc", "alt/mdc_wo_t"]]),
    )
    assert alone.jobs["table4"].contrasts == [["alt/ViT-T-12/mdc", "alt/ViT-T-12/mdc_wo_t"]]
    seven = [["alt/mdc", "alt/clip"]] * 7
    with pytest.raises(UserError, match=r"table1\.primary.*at most 6"):
        changed_plan((("tables", "table1", "primary"), seven))


def test_contrasts_are_within_a_corpus_and_backbone_or_across_named_corpora(mini: Plan) -> None:
    job: Any = mini.jobs["table1"]
    within = [pair for pair in job.contrasts if len({side.split("/")[0] for side in pair}) == 1]
    across = [pair for pair in job.contrasts if pair not in within]
    asked = VALUES["tables"]["table1"]
    by_corpora = ["/" in side for side, _ in asked["contrasts"]]
    # each on every backbone, and those of methods in every corpus
    assert len(across) == sum(by_corpora) * len(asked["backbones"])
    assert len(within) == (len(by_corpora) - sum(by_corpora)) * len(asked["backbones"]) * len(asked["corpora"])
    assert all(len({side.split("/")[1] for side in pair}) == 1 for pair in job.contrasts)


@pytest.mark.parametrize(("name", "probes", "primary_probe", "column"), read_table(__file__, "primary"))
def test_the_primary_comparisons_are_about_the_average_or_the_primary_probe(
    name: str, probes: list[str], primary_probe: str, column: str
) -> None:
    plan = changed_plan((("tables", name, "probes"), probes), (("data", "primary_probe"), primary_probe))
    assert plan.jobs[name].primary_metric == column


def test_in_table_5_mdc_goes_by_its_range_of_t_and_others_by_their_names() -> None:
    table = ("tables", "table5")
    methods = ["parallel", "mdc_30_80", "mdc"]
    plan = changed_plan(((*table, "methods"), methods), ((*table, "contrasts"), []), ((*table, "primary"), []))
    shown = {s.method.key: s.method.label for s in plan.jobs["table5"].systems if s.corpus is not None}
    assert shown == {"parallel": "Parallel decoding", "mdc_30_80": "[0.3, 0.8]", "mdc": "[0.5, 1.0]"}


def test_the_figures_are_told_what_they_are_drawn_over() -> None:
    plan = changed_plan((("tables", "figure4", "methods"), [*VALUES["tables"]["figure4"]["methods"], "arc"]))
    found = {s.method.key: s.more["t_range"] for s in plan.jobs["figure4"].systems if s.corpus is not None}
    ratios = {f"bert_{r}": [r / 100, r / 100] for r in (15, 45, 75)}
    assert found == {"arc": None, "mdc": [0.5, 1.0], **ratios, "parallel": [1.0, 1.0]}
    job: Any = plan.jobs["figure_loss"]
    told = {record: system.more["t_range"] for system in job.systems for record in system.records}
    assert told["runs/brief/ViT-T-12/mdc_30_80/s0"] == [0.3, 0.8] and told["runs/dense/ViT-T-12/arc/s0"] is None


# --- all jobs of all scales -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["mini", "flickr8k", "paper"])
def jobs(request: pytest.FixtureRequest) -> dict[str, Job]:
    return plan_of(request.param).jobs


def test_every_job_is_typed_as_its_file_is_read_and_stands_after_its_inputs(jobs: dict[str, Job]) -> None:
    seen: set[str] = set()
    for name, job in jobs.items():
        assert name == job.job and set(job.inputs) <= seen, name
        assert as_job(job.config(), job.verb, name) == job, name
        seen.add(name)
    assert {name for name in jobs if name in ARTEFACTS} == {n for n in jobs if verb_of(n) == "make"}


def test_the_scales_folder_and_the_verbs_agree_on_every_job(jobs: dict[str, Job]) -> None:
    folder = ScaleFolder(Path("results/x"))
    places: set[Path] = set()
    for name, job in jobs.items():
        verb = verb_of(name)
        assert verb == job.verb, name
        own = {folder.record(name, verb), folder.manifest(name, verb), folder.host(name), folder.config(name)}
        if verb == "make":
            assert folder.record(name, verb) == Path(f"results/x/{name}/{name}.json")
            own |= {folder.job(name) / file for file in ARTEFACTS[name].files}
        own |= {folder.job(name) / file for file in VERBS[verb].outputs}
        assert all(path.is_relative_to(folder.job(name)) for path in own - {folder.config(name)})
        assert not own & places, "two jobs write one file"
        places |= own


def test_who_is_behind_a_job(mini: Plan) -> None:
    assert list(mini.ancestors("probe/alt/ViT-T-12/mdc_wo_t/s0")) == [
        *("runs/alt/ViT-T-12/mdc_wo_t/s0", "data/probes/shape", "data/corpora/alt", "data/vocabularies/words"),
        *(f"data/corpora/{name}" for name in mini.scale.data.vocabularies["words"][1:]),
    ]
    assert list(mini.ancestors("table9")) == list(mini.ancestors("data/corpora/alt")) == []


def test_the_seed_of_the_judges_letters_reaches_its_contests_and_nothing_else_is_judged_anew(mini: Plan) -> None:
    """params.yaml leaves it to its default, so no change of one of its own values shows that."""
    found = touched(mini, changed_plan((("captions", "judge", "seed"), 7)))
    contests = {name for name in mini.jobs if name.startswith("judged/described/")}
    assert contests and contests <= found <= contests | {"table3", "figure6"}


def test_a_table_of_heads_has_a_record_for_each_and_an_edit_of_one_is_its_own() -> None:
    plan = small_project.plan()
    job: Any = plan.jobs["table_neighbours"]
    assert [system.estimator for system in job.systems[::7]] == [
        "linear probe",
        "attentive probe",
        "nearest neighbours",
    ]
    rows = {system.key: system for system in job.systems}
    row = rows["alt/ViT-T-12/mdc/attentive"]
    assert row.records == ["probe/alt/ViT-T-12/mdc/s0/attentive"] and row.runs == ["alt/ViT-T-12/mdc/s0"]
    assert row.control == "untrained/ViT-T-12/patch_mean/attentive" and rows[row.control].role == "control"
    assert rows["alt/ViT-T-12/mdc/linear"].records in [system.records for system in plan.jobs["table1"].systems]
    assert "head" not in plan.jobs["probe/alt/ViT-T-12/mdc/s0"].config()
    assert "lr" not in plan.jobs["probe/alt/ViT-T-12/mdc/s0/knn"].config()["recipe"]
    mdc = [f"alt/ViT-T-12/{method}/" for method in ("mdc", "clip")]
    assert job.contrasts[:3] == [[side + head for side in mdc] for head in ("linear", "attentive", "knn")]
    assert job.primary == [[side + "attentive" for side in mdc], ["alt/ViT-T-12/mdc/linear", "alt/ViT-T-12/arc/linear"]]
    values = small_project.values()
    values["probe"]["heads"]["knn"]["k"] = 6
    found = touched(plan, Plan(validate(values)))
    assert found == {"table_neighbours", *(name for name in plan.jobs if name.endswith("/knn"))}
    values["probe"]["lr"] = 0.2
    assert not [name for name in touched(Plan(validate(values)), plan) if name.endswith("/attentive")]
