"""The grid of jobs: the paper's own at scale paper, each run once, and what a changed value touches."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from mdc import jobs
from mdc.config import Params, load, read_yaml, validate
from mdc.job_configs import check_job_config
from mdc.records import UserError, sha256_json
from mdc.registry.datasets import REGISTRY

ROOT = Path(__file__).resolve().parents[2]
VALUES = read_yaml(ROOT / "params.yaml")


def _table(params: Params, name: str) -> list[jobs.Run]:
    expected = jobs.table_config(params, name)["expected"]
    return [jobs.parse_run(params, id_) for id_ in expected if not id_.startswith("untrained/")]


def _runs_of(params: Params, *names: str) -> set[jobs.Run]:
    """Corpus, backbone and method of a table and each seed, read from params.yaml anew."""
    tables = VALUES["scales"][params.scale]["tables"]
    return {
        jobs.Run(corpus, backbone, method, seed)
        for name in names
        for corpus, methods in tables[name]["corpora"].items()
        for backbone in tables[name]["backbones"]
        for method in methods
        for seed in VALUES["scales"][params.scale]["pretrain"]["seeds"]
    }


def test_paper_grid_is_44_runs_each_trained_once_for_all_tables_and_figures() -> None:
    params = load(ROOT / "params.yaml", "paper")
    seen: set[jobs.Run] = set()
    new = {}
    for name in params.current().tables.probing():
        asked = _runs_of(params, name)
        new[name] = len(asked - seen)
        seen |= asked
    assert new == {"table1": 21, "table4": 2, "table5": 4, "figure4": 14, "figure5": 3}
    runs = jobs.runs(params)
    assert len(runs) == len(set(runs)) == 44 and set(runs) == seen


def test_paper_grid_of_table_1() -> None:
    params = load(ROOT / "params.yaml", "paper")
    runs = _table(params, "table1")
    assert len(runs) == len(set(runs)) == 21
    shared = jobs.probe_config(params, jobs.Run("cc12m", "ViT-B-32", "mdc", 0))["probes"]
    assert shared == ["imagenet1k", "food101", "cifar10", "cifar100", "pets"]
    assert jobs.probe_config(params, jobs.Run("cc12m", "ViT-B-32", "mdc_wo_t", 0))["probes"] == ["imagenet1k"]
    for backbone in ("ViT-B-32", "ViT-B-16", "ViT-L-14"):
        methods = {
            c: {r.method for r in runs if r.corpus == c and r.backbone == backbone} for c in ("cc12m", "recap10m")
        }
        assert methods == {"cc12m": {"clip", "arc", "mdc"}, "recap10m": {"clip", "clip_lb", "arc", "mdc"}}


# the paper's Tables 6, 7 and 8: base lr and weight decay differ by backbone, all else is shared
RECIPES = {"ViT-B-32": (5e-4, 0.1), "ViT-B-16": (5e-4, 0.2), "ViT-L-14": (4e-4, 0.2)}


def test_paper_recipes_are_those_of_tables_6_to_8() -> None:
    params = load(ROOT / "params.yaml", "paper")
    for run in jobs.runs(params):
        recipe = jobs.recipe(params, run)
        lr, decay = RECIPES[run.backbone]
        assert (recipe.lr, recipe.weight_decay) == (lr, decay)
        assert (recipe.beta1, recipe.beta2, recipe.warmup_steps, recipe.epochs) == (0.9, 0.98, 10000, 32)
        assert recipe.batch_size == (2048 if run.method == "clip_lb" else 1024)
        assert recipe.accumulation == (2 if run.backbone == "ViT-L-14" else 1)
        clipped = (run.corpus, run.backbone, run.method) == ("cc12m", "ViT-L-14", "arc")
        assert recipe.clip_norm == (1.0 if clipped else None)


def test_paper_towers_are_those_of_section_4_1() -> None:
    backbones = load(ROOT / "params.yaml", "paper").current().pretrain.backbones
    for name, backbone in backbones.items():
        assert backbone.image_size == 224
        assert str(backbone.patch_size) in name
        large = name == "ViT-L-14"
        assert (backbone.decoder.layers, backbone.decoder.width, backbone.decoder.heads) == (
            (12, 768, 12) if large else (12, 512, 8)
        )


def _changed(path: list[Any], value: Any, scale: str = "mini") -> dict[str, str]:
    values = copy.deepcopy(VALUES)
    values["scale"] = scale
    inner = values
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return {name: sha256_json(config) for name, config in jobs.configs(validate(values)).items()}


def _touched(path: list[Any], value: Any) -> set[str]:
    before = _changed(["scale"], "mini")
    after = _changed(path, value)
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _layers(names: set[str]) -> set[str]:
    return {name.split("/")[0] for name in names}


def test_a_changed_value_touches_what_it_decides_and_nothing_before() -> None:
    scale = ["scales", "mini"]
    # a probe's learning rate: all probes and what follows, no training and no data
    assert _layers(_touched([*scale, "probe", "lr"], 0.2)) == {"probe", *jobs.TABLES}
    # a label: what shows it; Table 5 calls its rows by their ranges
    logs = {"figure_loss", "figure_schedules"}
    shows = set(jobs.TABLES) - {"table5"} | logs | {"recipes"}
    assert _touched(["methods", "mdc", "label"], "MDC (ours)") == shows
    assert _touched([*scale, "data", "corpora", "brief", "label"], "x") == {"table5", *logs}
    labels = {"table1", *logs, "recipes"}
    assert _touched([*scale, "pretrain", "backbones", "ViT-T-8", "label"], "tiny") == labels
    # one method's range: its runs, their probes, what shows them
    touched = _touched(["methods", "mdc", "t_range"], [0.35, 0.8])
    assert _layers(touched) == {"runs", "probe", "figure_schedules", *jobs.TABLES}
    assert all("/mdc/" in name for name in touched if "/" in name)
    # one corpus: its own shards (the runs follow by the manifest)
    assert _touched([*scale, "data", "corpora", "alt", "source", "seed"], 99) == {"data/corpora/alt"}
    # how a run proceeds: nothing
    assert _touched([*scale, "pretrain", "runtime", "checkpoint_every"], 7) == set()
    # another scale: nothing
    assert _touched(["scales", "paper", "pretrain", "recipe", "lr"], 1e-3) == set()


def test_scale_paper_has_every_dataset_of_the_papers_table_9_and_a_set_of_each() -> None:
    data = load(ROOT / "params.yaml", "paper").current().data
    printed = {name for name, entry in REGISTRY.items() if entry.paper_label is not None}
    assert len(printed) == 15 and printed <= set(data.datasets)
    sets = [s.source for section in (data.corpora, data.probes, data.choices) for s in section.values()]
    assert {name for source in sets for name in jobs.datasets_of(source)} == set(data.datasets)


def test_a_source_is_resolved_with_the_place_of_its_dataset() -> None:
    params = load(ROOT / "params.yaml", "paper")
    pairs = jobs.corpus_config(params, "recap10m")["source"]
    assert (pairs["path"], pairs["from"], pairs["pairs"]) == ("recap-datacomp-1b", "urls", 10_000_000)
    choices = jobs.choice_set_config(params, "sugarcrepe_add_att")["source"]
    assert (choices["path"], choices["images"]) == ("sugarcrepe", "mscoco/val2017")
    assert jobs.datasets_of(params.current().data.choices["sugarcrepe_add_att"].source) == ["sugarcrepe", "mscoco"]


def test_one_key_chooses_the_mirror() -> None:
    before = _changed(["scale"], "paper", "paper")
    after = _changed(["scales", "paper", "data", "datasets", "cc12m", "from"], "mirror", "paper")
    touched = {name for name in before if before[name] != after[name]}
    assert {"data/obtained/cc12m", "data/corpora/cc12m"} <= touched
    # its runs follow by the manifest; only a source's own values stand in the configuration of no other set
    assert not {name for name in touched if name.startswith(("data/probes", "data/choices"))}


def test_a_dataset_moved_or_a_fetch_changed_touches_what_it_gives() -> None:
    before = _changed(["scale"], "paper", "paper")
    moved = _changed(["scales", "paper", "data", "datasets", "mscoco", "path"], "elsewhere", "paper")
    touched = {name for name in before if before[name] != moved[name]}
    sugarcrepe = {name for name in before if name.startswith("data/choices/sugarcrepe")}
    ours = {"data/obtained/mscoco", "data/corpora/mscoco", "data/corpora/mscoco2017", "data/choices/coco_order"}
    assert touched == ours | sugarcrepe and len(sugarcrepe) == 7
    lists = {"data/obtained/cc3m", "data/obtained/cc12m", "data/obtained/recap_datacomp_1b"}
    finer = _changed(["scales", "paper", "data", "download", "quality"], 90, "paper")
    assert {name for name in before if before[name] != finer[name]} == lists
    # how a download proceeds: nothing
    assert _changed(["scales", "paper", "data", "download", "runtime", "threads"], 3, "paper") == before


def test_in_table_5_mdc_goes_by_its_range_of_t_and_others_by_their_names() -> None:
    values = copy.deepcopy(VALUES)
    values["scales"]["mini"]["tables"]["table5"]["corpora"]["brief"] = ["parallel", "mdc_30_80", "mdc"]
    values["scales"]["mini"]["tables"]["table5"]["contrasts"] = []
    told = jobs.table_config(validate({**values, "scale": "mini"}), "table5")["methods"]
    shown = {"parallel": "Parallel decoding", "mdc_30_80": "[0.3, 0.8]", "mdc": "[0.5, 1.0]"}
    assert {name: method["label"] for name, method in told.items()} == shown


def test_the_figures_are_told_what_they_are_drawn_over() -> None:
    values = copy.deepcopy(VALUES)
    mini = values["scales"]["mini"]
    mini["tables"]["figure4"]["corpora"]["alt"].append("arc")
    # the same method warms up for longer on another corpus
    mini["tables"]["table5"]["corpora"]["alt"] = ["mdc_0_100", "mdc"]
    override = {"when": {"corpus": ["alt"], "method": ["mdc"]}, "set": {"warmup_steps": 50, "clip_norm": None}}
    mini["pretrain"]["overrides"] = [override]
    params = validate({**values, "scale": "mini"})
    methods = jobs.table_config(params, "figure4")["methods"]
    found = {name: told["t_range"] for name, told in methods.items()}
    assert found == {
        "arc": None,
        "mdc": [0.5, 1.0],
        **{f"bert_{r}": [r / 100, r / 100] for r in (15, 45, 75)},
        "parallel": [1.0, 1.0],
    }
    assert all("t_range" not in told for told in jobs.table_config(params, "figure5")["methods"].values())
    config = jobs.schedules_config(params)
    assert config["runs"] == [
        *(f"brief/ViT-T-12/{name}/s0" for name in ("mdc_0_100", "mdc_30_80", "mdc_40_90", "mdc")),
        *(f"alt/ViT-T-12/{name}/s0" for name in ("mdc_0_100", "mdc")),
    ]
    assert config["reference"] == "mdc" and config["schedules"]["mdc_30_80"] == {"t_range": [0.3, 0.8]}
    assert config["warmup"] == {"mdc_0_100": 30, "mdc_30_80": 30, "mdc_40_90": 30, "mdc": 50}
    assert config["clip_norm"].pop("alt/ViT-T-12/mdc/s0") is None and set(config["clip_norm"].values()) == {1.0}
    for name, config in jobs.configs(params).items():
        check_job_config(config, config["verb"], name)


def test_untrained_controls_are_one_a_backbone_pooling_and_seed() -> None:
    params = load(ROOT / "params.yaml", "mini")
    controls = jobs.untrained(params)
    backbones = params.current().tables.table1.backbones
    assert sorted(c.id for c in controls) == sorted(
        f"untrained/{b}/{p}/s0" for b in backbones for p in ("cls", "patch_mean")
    )


def test_two_ids_with_equal_configurations_are_refused() -> None:
    values = copy.deepcopy(VALUES)
    values["methods"]["mdc2"] = {**values["methods"]["mdc"], "label": "another name"}
    values["scales"]["mini"]["tables"]["table1"]["corpora"]["alt"].append("mdc2")
    with pytest.raises(UserError, match="equal configurations"):
        jobs.runs(validate(values))


def test_run_ids_are_paths_and_parse() -> None:
    params = load(ROOT / "params.yaml", "mini")
    for run in jobs.runs(params):
        assert jobs.parse_run(params, run.id) == run
    with pytest.raises(UserError, match="no run 'alt/ViT-T-12/gan/s0'"):
        jobs.parse_run(params, "alt/ViT-T-12/gan/s0")
