"""Tables 6 to 8 from the runs' own configurations: the paper's, cell by cell, at scale paper."""

import csv
from pathlib import Path
from typing import Any

from scale_files import scale_values

from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.shown import ArtefactJob
from mdc.report.tables.recipes import make, scientific, settings

# "Masked Diffusion Captioning for Visual Feature Learning", appendix A, typed in; the three differ in these rows only
PAPER = """\
config,CC12M,Recap-DataComp-10M
optimizer,AdamW,AdamW
base lr,{lr},{lr}
warmup steps,"10,000","10,000"
weight decay,{decay},{decay}
β_1,0.9,0.9
β_2,0.98,0.98
batch size,1024,1024
lr schedule,Cosine,Cosine
epochs,32,32
"""
TABLES = {
    "table6": PAPER.format(lr="5e-4", decay="0.1"),
    "table7": PAPER.format(lr="5e-4", decay="0.2"),
    "table8": PAPER.format(lr="4e-4", decay="0.2") + "grad norm (for AR only),1.0,-\n",
}


def made(tmp_path: Path, values: dict[str, Any]) -> dict[str, Path]:
    """The folders of the tables of hyper-parameters that a scale names."""
    jobs = [
        job for job in Plan(validate(values)).jobs.values() if isinstance(job, ArtefactJob) and job.artefact in TABLES
    ]
    for job in jobs:
        make(job, {}, tmp_path / job.artefact)
    return {job.artefact: tmp_path / job.artefact for job in jobs}


def test_at_scale_paper_they_are_the_papers_cell_by_cell(tmp_path: Path) -> None:
    out = made(tmp_path, scale_values("paper"))
    for name, text in TABLES.items():
        found = list(csv.reader((out[name] / f"{name}.csv").read_text(encoding="utf-8").splitlines()))
        assert [row[:-1] for row in found] == list(csv.reader(text.splitlines())), name
    for ending in ("html", "md", "tex"):
        assert "CLIP-LB: batch size 2048." in (out["table6"] / f"table6.{ending}").read_text(encoding="utf-8")


def test_an_edited_recipe_is_an_edited_table(tmp_path: Path) -> None:
    values = scale_values("paper")
    values["pretrain"]["recipe"]["warmup_steps"] = 2000
    values["pretrain"]["overrides"].append({"when": {"corpus": ["recap10m"], "method": ["mdc"]}, "set": {"epochs": 16}})
    text = (made(tmp_path, values)["table7"] / "table7.csv").read_text(encoding="utf-8")
    assert 'warmup steps,"2,000","2,000",paper' in text
    assert "epochs,32,32,paper\nepochs (for MDC only),-,16,paper\n" in text


def test_another_scale_has_its_own(tmp_path: Path) -> None:
    text = (made(tmp_path, scale_values("flickr8k"))["table6"] / "table6.csv").read_text(encoding="utf-8")
    assert "base lr,3e-3,3e-3,3e-3,flickr8k\nbase lr (for CLIP only),1e-3,1e-3,1e-3,flickr8k\n" in text


def test_who_differs_is_named() -> None:
    usual: dict[str, Any] = {**dict.fromkeys(("lr", "beta1", "beta2", "weight_decay"), 0.5), "warmup_steps": 5}
    usual |= {"batch_size": 8, "clip_norm": 1.0, "epochs": 2}

    def run(label: str, objective: str, **changes: Any) -> dict[str, Any]:
        more = {"optimizer": "x", "lr_schedule": "x", **usual, **changes}
        return {"label": label, "objective": objective, "ranked": True, **more}

    corpus = [run("A", "masked"), run("B", "masked"), run("C", "masked", epochs=3), run("D", "contrastive", epochs=3)]
    found = {line[0]: line[1:] for line in settings([corpus, corpus[:2]])}
    assert found["grad norm"] == ("1.0", "1.0") and found["epochs (for C, D only)"] == ("3", "-")


def test_learning_rates_as_the_paper_writes_them() -> None:
    told = {5e-4: "5e-4", 4e-4: "4e-4", 1e-3: "1e-3", 2.5e-5: "2.5e-5", 0.1: "1e-1"}
    assert {value: scientific(value) for value in told} == told
