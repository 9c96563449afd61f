"""Selected learning rates: every method's by the same probes, and a run with the chosen one is the run with that rate."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_project
import torch

from mdc.models.weights import load_weights
from mdc.plan.config.read import validate
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError, sha256_file

GRID = (1.0e-4, 1.0e-3, 1.0e-2)


def values(**pretrain: Any) -> dict[str, Any]:
    found = small_project.values((3, 4))
    found |= {
        "tables": {"table1": {"corpora": {"alt": ["arc", "mdc"]}, "probes": ["shape", "colour"]}, "figure_lr": {}}
    }
    found["tables"]["table1"] |= {"backbones": ["ViT-T-12"], "primary": [["alt/mdc", "alt/arc"]]}
    found["encoders"], found["captions"] = {}, None
    found["pretrain"] |= {"overrides": [], "backbones": {"ViT-T-12": found["pretrain"]["backbones"]["ViT-T-12"]}}
    found["pretrain"]["recipe"] = {key: value for key, value in found["pretrain"]["recipe"].items() if key != "lr"}
    found["pretrain"] |= {
        "lr_selection": {"grid": list(GRID), "seeds": [6, 7], "by": "shape", "held_out": 17},
        **pretrain,
    }
    return found


def judged(folder: ScaleFolder, job: str, right: int) -> None:
    """A probe's result as if so many of its items were right."""
    record = folder.record(job, "probe")
    told, table = json.loads(record.read_text()), pq.read_table(record.with_name("items.parquet"))
    results = pa.array([float(place < right) for place in range(len(table))], pa.float32())
    pq.write_table(
        table.set_column(table.column_names.index("value"), "value", results), record.with_name("items.parquet")
    )
    told["probes"]["shape"]["value"] = 100 * right / len(table)
    told["outputs"]["items.parquet"] = sha256_file(record.with_name("items.parquet"))
    record.write_text(json.dumps(told))


#: rate → right answers of the two seeds
ARC, MDC = {1.0e-4: (4, 4), 1.0e-3: (9, 8), 1.0e-2: (12, 3)}, {1.0e-4: (2, 5), 1.0e-3: (6, 6), 1.0e-2: (9, 1)}


@pytest.fixture(scope="module")
def tried(once: Any) -> Path:
    """Every run that the selection needs, with crafted results of its probes: 0.001 has the best mean of both methods."""

    def make(folder: Path) -> None:
        plan = Plan(validate(values()))
        tries = [name for name in plan.jobs if name.startswith("data/") or "/lr-" in name]
        small_project.do_jobs(plan, tries, folder)
        for method, wanted in (("arc", ARC), ("mdc", MDC)):
            for lr, counts in wanted.items():
                for seed, right in zip((6, 7), counts, strict=True):
                    judged(
                        ScaleFolder(folder / "results/golden"), f"probe/alt/ViT-T-12/{method}/lr-{lr:g}/s{seed}", right
                    )

    return once("lr_selection", make)


def test_a_run_with_a_selected_rate_is_the_run_with_that_rate(tried: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(tried, tmp_path, dirs_exist_ok=True)
    plan, folder = Plan(validate(values())), ScaleFolder(tmp_path / "results/golden")
    probe = json.loads(folder.record("probe/alt/ViT-T-12/mdc/lr-0.001/s6", "probe").read_text())["probes"]["shape"]
    assert (probe["n"], probe["train"]) == (17, 48 - 17)  # of 48 training items
    rest = [name for name in plan.jobs if not name.startswith("data/") and "/lr-" not in name]
    small_project.do_jobs(plan, rest, tmp_path)
    run, chosen = (
        folder.job("runs/alt/ViT-T-12/mdc/s3"),
        json.loads((folder.root / "lr/alt/ViT-T-12/mdc/lr.json").read_text()),
    )
    assert chosen["lr"] == json.loads((run / "run.json").read_text())["lr"] == 1.0e-3
    assert [one["mean"] for one in chosen["tried"]] == pytest.approx([100 * n / 17 for n in (3.5, 6, 5)])

    fixed = values(lr_selection=None)
    fixed["pretrain"]["recipe"]["lr"] = 1.0e-3
    fixed["tables"].pop("figure_lr")
    small_project.do_jobs(other := Plan(validate(fixed)), other.jobs, tmp_path / "fixed")
    same = load_weights(tmp_path / "fixed/results/golden/runs/alt/ViT-T-12/mdc/s3/checkpoint.safetensors")
    own = load_weights(run / "checkpoint.safetensors")
    assert own.keys() == same.keys() and all(torch.equal(own[key], same[key]) for key in own)

    with (folder.root / "table1/table1_contrasts.csv").open() as file:
        assert {row["rates"] for row in csv.DictReader(file) if row["primary"] == "True"} == {"rates selected"}
    with (tmp_path / "fixed/results/golden/table1/table1_contrasts.csv").open() as file:
        assert {row["rates"] for row in csv.DictReader(file) if row["primary"] == "True"} == {"one rate for all"}
    with (folder.root / "figure_lr/figure_lr.csv").open() as file:
        shown = [(row["method"], float(row["lr"]), row["chosen"]) for row in csv.DictReader(file)]
    assert shown == [(method, lr, str(lr == 1.0e-3)) for method in ("ARC", "MDC") for lr in GRID]


@pytest.mark.parametrize(("lr", "counts", "said"), [(1.0e-2, (17, 9), "above 0.01"), (1.0e-4, (9, 8), "below 0.0001")])
def test_a_best_rate_at_the_edge_is_refused(
    tried: Path, tmp_path: Path, lr: float, counts: tuple[int, int], said: str
) -> None:
    """With equal means the least rate counts as the best."""
    import shutil

    shutil.copytree(tried, tmp_path, dirs_exist_ok=True)
    for seed, right in zip((6, 7), counts, strict=True):
        judged(ScaleFolder(tmp_path / "results/golden"), f"probe/alt/ViT-T-12/arc/lr-{lr:g}/s{seed}", right)
    with pytest.raises(UserError, match=rf"lr/alt/ViT-T-12/arc.*edge of the grid.*{said}"):
        small_project.do_jobs(Plan(validate(values())), ["lr/alt/ViT-T-12/arc"], tmp_path)
    assert not (tmp_path / "results/golden/lr/alt/ViT-T-12/arc/lr.json").exists()


def test_an_edit_of_the_grid_reruns_what_it_decides() -> None:
    before = Plan(validate(values())).jobs
    selection = {"grid": list(GRID), "seeds": [6, 7], "by": "shape", "held_out": 17}
    for key, value, judged in (("grid", [*GRID, 3.0e-2], ()), ("held_out", 16, ("probe",))):
        after = Plan(validate(values(lr_selection=selection | {key: value}))).jobs
        changed = {name for name, job in after.items() if name in before and before[name].sha256 != job.sha256}
        decided = {f"{layer}/alt/ViT-T-12/arc/s3" for layer in ("runs", "probe")}
        assert changed >= {"lr/alt/ViT-T-12/arc", *decided, "table1", "figure_lr"}
        assert not any("untrained" in name or name.startswith("data/") for name in changed)
        # the runs that are tried stay; another choice of held-out items probes them anew
        assert {name.partition("/")[0] for name in changed if "/lr-" in name} == {*judged}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seeds": [6, 7]}, "lr_selection.seeds: 6 is also one of seeds"),
        ({"overrides": [{"when": {"method": ["arc"]}, "set": {"lr": 1.0e-3}}]}, "lr_selection chooses the rate"),
        ({"lr_selection": None}, "recipe.lr: this key is missing"),
        ({"lr_selection": {"grid": [1.0e-3, 1.0e-2], "seeds": [6], "by": "shape", "held_out": 9}}, "lr_selection.grid"),
        ({"lr_selection": {"grid": list(GRID), "seeds": [6], "by": "shapes", "held_out": 9}}, "shapes"),
    ],
)
def test_what_a_selection_cannot_mean_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Plan(validate(values(**given)))
