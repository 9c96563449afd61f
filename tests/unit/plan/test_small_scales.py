"""A scale names only what it has: what is not named is neither asked for nor planned."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from changed import put
from scale_files import common_values, scale_values
from scale_plans import changed_plan, plan_of

from mdc.plan.config.read import validate
from mdc.plan.jobs import context
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError

MINI = scale_values("mini")
CORPUS = {"label": "Scenes", "source": MINI["data"]["corpora"]["alt"]["source"]}
PROBE = {"label": "Shape", "source": MINI["data"]["probes"]["shape"]["source"]}
METHODS = ["clip", "arc", "mdc"]
RUNS = {"corpora": {"own": METHODS}, "backbones": ["ViT-T-12"]}


def _with(scale: dict[str, Any]) -> dict[str, Any]:
    """The values of ``scale``, with what all scales share."""
    return {**common_values(), **copy.deepcopy(scale), "scale": "own"}


def _pretrain() -> dict[str, Any]:
    found = copy.deepcopy(MINI["pretrain"])
    found["backbones"] = {"ViT-T-12": found["backbones"]["ViT-T-12"]}
    found |= {"overrides": [], "variants": {}}  # some are of other backbones and corpora
    return found


def _data(**more: Any) -> dict[str, Any]:
    return {"samples_per_shard": 4000, "max_skipped": 0.0, "corpora": {"own": CORPUS}, **more}


ONE_TABLE = {
    "label": "One table",
    "data": _data(vocabularies={"words": ["own"]}, probes={"shape": PROBE}),
    "pretrain": _pretrain(),
    "probe": MINI["probe"],
    "tables": {"table1": {**RUNS, "probes": ["shape"]}},
}
NO_PROBE = {
    "label": "No probe",
    "data": _data(vocabularies={"clip": "full"}),
    "pretrain": _pretrain(),
    "tables": {"figure_loss": RUNS, "figure3": {"corpora": ["own"]}},
}
ONLY_DATA = {"label": "Only data", "data": _data()}


def _jobs(scale: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(context, "fingerprint", lambda *modules: "0" * 64)
    return sorted(Plan(validate(_with(scale))).jobs)


def _refusal(scale: dict[str, Any]) -> str:
    with pytest.raises(UserError) as error:
        validate(_with(scale))
    assert "\n" not in str(error.value)
    return str(error.value)


def _changed(scale: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """``scale`` with another value at ``path``, or without that key if it is ..."""
    return put(copy.deepcopy(scale), path, None if value is ... else value)


UNTRAINED = [f"probe/untrained/ViT-T-12/{pooling}/s0" for pooling in ("cls", "patch_mean")]
TRAINED = [f"runs/own/ViT-T-12/{method}/s0" for method in METHODS]


SINGLE_PROCESS = ["data/corpora/own", "data/vocabularies/words", *TRAINED]
PROBED = [*(run.replace("runs", "probe", 1) for run in TRAINED), *UNTRAINED]


@pytest.mark.parametrize(
    ("scale", "jobs"),
    [
        (ONE_TABLE, [*SINGLE_PROCESS, *PROBED, "data/probes/shape", "data/overlaps/own/probes/shape", "table1"]),
        (NO_PROBE, ["data/corpora/own", "data/vocabularies/clip", *TRAINED, "figure3", "figure_loss"]),
    ],
    ids=["one table", "no probe"],
)
def test_of_one_corpus(scale: dict[str, Any], jobs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert _jobs(scale, monkeypatch) == sorted(jobs)


def test_nothing_but_data(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _jobs(ONLY_DATA, monkeypatch) == ["data/corpora/own"]
    with_figure = {**ONLY_DATA, "tables": {"figure3": {"corpora": ["own"]}, "table9": {}}}
    assert _jobs(with_figure, monkeypatch) == ["data/corpora/own", "figure3", "table9"]
    assert _jobs(_changed(ONLY_DATA, ("data", "corpora"), ...), monkeypatch) == []
    # too few for a batch: of no account where nothing is trained
    few = _changed(ONLY_DATA, ("data", "corpora", "own"), {**CORPUS, "source": {**CORPUS["source"], "train": 1}})
    assert _jobs(few, monkeypatch) == ["data/corpora/own"]


def test_figure_3_of_captions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"list": {"label": "List", "source": {"kind": "caption_list", "path": "captions.csv"}}}
    data = {**_data(texts=texts), "corpora": {}}
    scale = {"label": "Texts", "data": data, "tables": {"figure3": {"texts": ["list"]}}}
    assert _jobs(scale, monkeypatch) == ["data/texts/list", "figure3"]


@pytest.mark.parametrize("needing", ["table2", "table3"])
def test_the_figure_of_losses_shows_runs_of_any_kind(needing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {needing: MINI["tables"][needing], "figure_loss": {}}
    assert "figure_loss" in _jobs({**MINI, "tables": tables}, monkeypatch)


@pytest.mark.parametrize("name", MINI["tables"])
def test_each_artefact_of_mini_can_stay_away(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rests_on = {"table1": ("table6", "table7", "table8"), "table_zero_shot": ("table_neighbours",)}
    gone = {name, *rests_on.get(name, ())}
    tables = {key: table for key, table in MINI["tables"].items() if key not in gone}
    planned = _jobs({**MINI, "tables": tables}, monkeypatch)
    assert set(planned) & set(MINI["tables"]) == set(tables)


@pytest.mark.parametrize(("name", "scale"), [("one table", ONE_TABLE), ("no probe", NO_PROBE)])
def test_what_cannot_do_without(name: str, scale: dict[str, Any]) -> None:
    for where, *value, said in yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text())[name]:
        path = tuple(where.split("."))
        assert said in _refusal(_changed(scale, path, *(value or [...]))), where


def test_a_table_of_probes_may_claim_of_one_alone() -> None:
    """… or of their mean."""
    plan = changed_plan((("tables", "figure_repetition", "primary_metric"), "relation"), scale="scenes")
    assert plan.jobs["figure_repetition"].primary_metric == "relation"  # type: ignore[union-attr]
    assert plan_of("scenes").jobs["figure_repetition"].primary_metric == "average"  # type: ignore[union-attr]
