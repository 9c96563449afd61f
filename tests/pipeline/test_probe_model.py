"""``mdc probe MODEL``: encoders of timm and open_clip, folders and runs on probes; and as rows of tables."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_project
import timm
import torch
from shown import read_rows
from small_project import CLIP, MDC, do_jobs, exported
from timm.models import save_for_hf
from tiny_clip import write_clip

from mdc.app.cli import main
from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import read_json

pytestmark = pytest.mark.usefixtures("own_copy")
RANDOM = {
    "rand_timm": {"kind": "timm", "model": "vit_tiny_patch16_224", "image_size": 32, "tokens": 4, "width": 192},
    "rand_open_clip": {"kind": "open_clip", "model": "ViT-S-32", "image_size": 224, "tokens": 49, "width": 384},
}


def probed(capsys: pytest.CaptureFixture[str], r: Path, model: str, *more: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["probe", model, "--scale", r.name, "--probes", "shape", "--json", *more]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def values(found: dict[str, Any]) -> dict[tuple[str, str], tuple[float, float, float]]:
    return {(one["probe"], one["head"]): (one["value"], one["low"], one["high"]) for one in found["results"]}


@pytest.mark.parametrize("run", [CLIP, MDC])
def test_a_run_gets_what_its_own_record_says(r: Path, run: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path for path in Path("results").rglob("*") if path.is_file()}
    found = values(probed(capsys, r, run, "--probes", "shape,colour", "--heads", "linear,attentive,knn"))
    for head, place in (("linear", ""), ("attentive", "/attentive"), ("knn", "/knn")):
        own = read_json(r / f"probe/{run}{place}/probe.json")["probes"]
        for probe in ("shape", "colour"):
            value, low, high = found[probe, head]
            assert value == own[probe]["value"] and low < value < high
        assert found["Average", head][0] == pytest.approx(sum(own[one]["value"] for one in own) / 2)
    assert {path for path in Path("results").rglob("*") if path.is_file()} == before, "results stay as they were"


def test_a_folder_is_read_as_what_it_is(r: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run's, one that was exported for open_clip, whose feature is the one that is probed, and one of timm."""
    own = values(probed(capsys, r, MDC))
    assert values(probed(capsys, r, str(r / "runs" / MDC))) == own
    assert values(probed(capsys, r, str(exported(r, MDC, tmp_path / "out")))) == own
    torch.manual_seed(3)
    net = timm.create_model("resnet18", pretrained=False)
    net.pretrained_cfg["input_size"] = (3, 64, 64)
    save_for_hf(net, str(tmp_path / "net"), safe_serialization=True)
    found = probed(capsys, r, str(tmp_path / "net"))
    assert found["image_size"] == 64 and found == {
        **probed(capsys, r, f"timm:local-dir:{tmp_path / 'net'}"),
        "model": str(tmp_path / "net"),
    }
    assert values(found) != values(probed(capsys, r, "timm:resnet18/random", "--image-size", "64"))


def test_an_attentive_probe_of_an_open_clip_reads_what_is_as_wide_as_its_tokens(
    r: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its embedding has 16 numbers, its tokens 32."""
    found = probed(capsys, r, f"open_clip:local-dir:{write_clip(tmp_path)}", "--heads", "linear,attentive")
    assert set(values(found)) == {("shape", "linear"), ("shape", "attentive")}


def test_without_a_repository_the_installed_parameters_serve(
    r: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    params = Path("params.yaml").resolve()
    monkeypatch.setattr("mdc.app.probe_model.INSTALLED", params)
    told = probed(capsys, r, MDC)
    (tmp_path / "results").symlink_to(r.parent.resolve())
    monkeypatch.chdir(tmp_path)
    assert probed(capsys, r, MDC)["results"] == told["results"]


def test_a_probe_that_is_not_made_yet_says_how(r: Path, refused: Callable[..., str]) -> None:
    (r / "data/probes/shape/index.json").unlink()
    assert "snakemake" in refused("probe", MDC, "--scale", r.name, "--probes", "shape")


def test_encoders_of_each_library_are_rows_by_every_head(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With random weights, as the row says; and by their keys `mdc probe` finds the numbers of the table."""
    found = small_project.values((0, 1))
    pooled: dict[str, Any] = {"rand_timm": {"pooled": True}, "rand_open_clip": {"pooled": True}}
    found["encoders"] |= {
        key: {"label": key, "weights": "random", **entry, **pooled.get(key, {})} for key, entry in RANDOM.items()
    }
    found["tables"]["table1"]["encoders"] = list(RANDOM)
    found["tables"]["table_neighbours"] |= {"encoders": list(RANDOM), "probes": ["shape"]}
    small_project.write_params(Path(), found)
    plan = Plan(validate(found))
    probes = [name for name in plan.jobs if name.startswith("probe/frozen/")]
    assert len(probes) == 2 * 3
    do_jobs(plan, [*(f"encoders/{key}" for key in RANDOM), *probes])
    do_jobs(plan, [name for name in plan.jobs if name.startswith("probe/") and "frozen" not in name])
    do_jobs(plan, ["table1", "table_neighbours"])
    lines = read_rows(r / "table_neighbours/table_neighbours_long.csv")
    rows = {(row["system"], row["column"]): row for row in lines}
    for key in RANDOM:
        told = values(probed(capsys, r, key, "--heads", "linear,attentive,knn"))
        for head in ("linear", "attentive", "knn"):
            row = rows[f"frozen/{key}/{head}", "shape"]
            assert row["backbone"] == f"{key}, random weights"
            shown = [float(row[name]) for name in ("value", "low", "high")]
            assert shown == pytest.approx(told["shape", head], abs=1e-4)
        assert f"{key}, random weights" in (r / "table1/table1_long.csv").read_text()
