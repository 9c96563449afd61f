"""Tables that show a part of the claims' captions."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from shown import read_rows

from mdc.app.cli import main
from mdc.data.formats.images import decode
from mdc.data.shards.index import ShardReader
from mdc.extensions.blog.distortions import distort
from mdc.extensions.blog.kinds import Corruption
from mdc.models.runs import open_run
from mdc.plan.config.decoding import Unmasking
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.parts import ABILITIES, load
from mdc.plan.records import read_json, write_json
from mdc.report.statistics.claims import Claim, decide
from mdc.report.statistics.estimate import over_splits


def test_the_table_of_ratios_shows_each_run_and_what_was_measured_of_it(r: Path) -> None:
    rows = [row for row in read_rows(r / "table_ratio/table_ratio_long.csv") if row["label"] == "CIDEr"]
    assert [row["method"] for row in rows] == [
        "most frequent training caption",
        "100 %",
        "MDC",
        "MDC · mismatched image",
    ]
    # the claim is the difference of the rows that it names
    lines = [row for row in read_rows(r / "table_ratio/table_ratio_contrasts.csv") if row["label"] == "CIDEr"]
    (claim,) = [row for row in lines if row["kind"] == "difference"]
    (gain,) = [row for row in lines if row["kind"] == "gain"]
    assert (gain["method"], gain["second_method"]) == ("MDC", "MDC · mismatched image")
    values = {row["method"]: float(row["value"]) for row in rows}
    assert float(claim["value"]) == pytest.approx(values["MDC"] - values["100 %"], abs=1e-3)
    assert (claim["primary"], claim["direction"], claim["groups"]) == ("True", "too few groups", "8")


def test_a_few_examples_change_what_a_run_writes(r: Path) -> None:
    rows = {row["method"]: row for row in read_rows(r / "table_few/table_few_long.csv") if row["label"] == "CIDEr"}
    assert set(rows) == {"most frequent training caption", "MDC", "MDC, 32 examples"}
    assert [rows[name]["tuned"] for name in ("MDC", "MDC, 32 examples")] == ["", "tuned"]
    run_of = {row["system"]: row["run"] for row in read_rows(r / "table_few/table_few_runs.csv")}
    assert len({run_of[row["system"]] for row in rows.values()}) == 3


def test_the_table_of_splits_compares_over_them(r: Path) -> None:
    rows = [row for row in read_rows(r / "table_splits/table_splits_over.csv") if row["label"] == "CIDEr"]
    rows = [*rows[1:], rows[0]]  # what was claimed stands first
    assert [row["dataset"] for row in rows] == ["Described", "Described (val)", "all"]
    contrasts = read_rows(r / "table_splits/table_splits_contrasts.csv")
    within = {row["dataset"]: row["value"] for row in contrasts if row["label"] == "CIDEr"}
    for row in rows[:2]:
        assert row["value"] == within[row["dataset"]] and (row["method"], row["second_method"]) == ("MDC", "100 %")
    share = 8 / read_json(r / "data/corpora/alt/index.json")["splits"]["train"]["samples"]
    values = [float(row["value"]) for row in rows[:2]]
    whole = over_splits(values, share)
    assert [float(rows[2][key]) for key in ("value", "low", "high")] == pytest.approx(
        [whole.value, whole.low, whole.high], abs=2e-3
    )
    assert (rows[2]["higher"], rows[2]["datasets"]) == (str(sum(value > 0 for value in values)), "2")
    # one comparison alone is what Holm's correction leaves as it is
    (decision,) = decide([Claim(whole)])
    assert rows[2]["direction"] == decision.direction and float(rows[2]["p_holm"]) == pytest.approx(whole.p, abs=2e-3)
    assert rows[2]["scope"] == "splits" and not any(row["direction"] for row in rows[:2])
    page = (r / "table_splits/table_splits.md").read_text()
    assert "Over all 2 splits" in page and "MDC − 100 %" in page
    assert "Primary comparisons over 2 splits on CIDEr" in page


@pytest.mark.usefixtures("own_copy")
def test_an_official_split_stands_beside_random_ones(r: Path) -> None:
    """The same table with a third dataset, which is shown and changes nothing of what is said over the other two."""
    record = read_json(r / "table_splits/table_splits.json")
    first = read_rows(r / "table_splits/table_splits_over.csv")
    config = record["config"]
    beside = [{**config["more"]["over"]["datasets"][0]}]
    config["more"]["over"]["beside"] = beside
    write_json("beside.json", config)
    assert main(["make", "beside.json", "--folder", str(r), "--out", str(r / "again")]) == 0
    second = read_rows(r / "again/table_splits_over.csv")
    assert [row for row in second if row["dataset"] == "all"] == [row for row in first if row["dataset"] == "all"]
    assert len([row for row in second if row["dataset"] == beside[0]["label"]]) == 2 * len(
        [row for row in first if row["dataset"] == beside[0]["label"]]
    )
    assert f"Not among them: {beside[0]['label']}." in (r / "again/table_splits.md").read_text()


def test_captions_of_distorted_images_are_those_of_images_distorted_by_hand(r: Path) -> None:
    job = "captions/alt/ViT-T-12/mdc/s0/ft-tuned/best/claimed"
    rows = parquet.read_table(r / job / "captions.parquet").to_pylist()
    strengths = [f"robust_noise_{strength}" for strength in range(1, 6)]
    assert {row["system"] for row in rows} >= {"robust", *strengths}
    run, _ = open_run(r / "runs/alt/ViT-T-12/mdc/s0/ft-tuned", "best")
    config = ScaleFolder(r).config(job)
    policies, seed = read_json(config)["policies"], read_json(config)["seed"]
    how = policies["robust_noise_5"]
    assert (
        how["distortion"] == {"kind": "noise", "strength": 5, "level": 0.38} and "distortion" not in policies["robust"]
    )
    writer = load(ABILITIES, "generate").RunWriter(run, precision="fp32", device="cpu", batch_tokens=4096)
    reader = ShardReader(r / "data/corpora/described/index.json", "test")
    for number in range(3):
        key, data, _ = reader.read(number)
        worse = distort(decode(data), Corruption.at_all_strengths("noise")[-1], key, seed)
        assert not np.array_equal(np.asarray(worse), np.asarray(decode(data)))
        (written,) = writer.write(writer.look(writer.picture(worse)[None]), Unmasking(**how["decode"]), [key])
        (row,) = [row for row in rows if (row["system"], row["image"]) == ("robust_noise_5", key)]
        assert row["caption"] == writer.text(written)


def test_guided_captions_are_those_that_a_clip_has_a_say_in(r: Path) -> None:
    """… another one than CLIPScore is by; captions of the record against a writer and a CLIP opened by hand."""
    job = "captions/alt/ViT-T-12/mdc/s0/ft-tuned/best/claimed"
    config, rows = read_json(ScaleFolder(r).config(job)), parquet.read_table(r / job / "captions.parquet").to_pylist()
    guide = config["guide"]["run"]
    measured = read_json(r / job.replace("captions", "metrics") / "metrics.json")
    assert guide == "runs/alt/ViT-T-12/clip_lb/s0" != measured["clip"]["model"]
    assert guide in config["inputs"]
    told = {"precision": "fp32", "device": torch.device("cpu")}
    run, _ = open_run(r / "runs/alt/ViT-T-12/mdc/s0/ft-tuned", "best")
    clip, _ = open_run(r / guide, "last")
    writer = load(ABILITIES, "generate").RunWriter(run, **told)
    scorer = load(ABILITIES, "score").RunScorer(clip, samples=16, **told)
    reader = ShardReader(r / "data/corpora/described/index.json", "test")
    how = Unmasking(**config["policies"]["guided"]["decode"])
    by = {(row["system"], row["image"]): row["caption"] for row in rows}
    keys = [reader.read(number)[0] for number in range(8)]
    for number, key in enumerate(keys[:3]):
        image = decode(reader.read(number)[1])
        seen = scorer.look(scorer.picture(image)[None])
        (written,) = writer.write(writer.look(writer.picture(image)[None]), how, [key], writer.guiding(scorer, seen))
        assert by["guided", key] == writer.text(written)
    assert any(by["guided", key] != by["robust", key] for key in keys)
    # a scale's own metric stands in the table's claim
    (claim,) = [row for row in read_rows(r / "table_guidance/table_guidance_contrasts.csv") if row["primary"] == "True"]
    assert (claim["column"], claim["method"]) == ("precision", "MDC, guided")
    page = (r / "table_guidance/table_guidance.md").read_text()
    assert "a CLIP, the scale's own CLIP-LB, seed 0, scores the candidates" in page
    assert "the diffusion writes" not in page


def test_the_figure_of_robustness_has_every_strength_and_its_claims(r: Path) -> None:
    folder = r / "figure_robustness"
    rows = [row for row in read_rows(folder / "figure_robustness.csv") if row["column"] == "CIDEr"]
    places = [(row["distortion"], row["curve"], int(row["strength"])) for row in rows]
    assert places == [
        (kind, system, strength)
        for kind in ("noise", "cutout")
        for system in ("robust", "robust_arc")
        for strength in range(6)
    ]
    # every kind begins at the same untouched images
    assert len({(row["system"], row["value"]) for row in rows if row["strength"] == "0"}) == 2
    run_of = {row["system"]: row["run"] for row in read_rows(folder / "figure_robustness_runs.csv")}
    assert all(run_of[a["system"]] == run_of[b["system"]] for a, b in pairwise(rows) if a["curve"] == b["curve"])
    # captioners so small see nothing: what they write is no better on its own images, so nothing is kept
    claims = read_rows(folder / "figure_robustness_contrasts.csv")
    assert [(claim["direction"], claim["value"]) for claim in claims] == [("below control", "")]
    for ending in ("png", "svg", "pdf"):
        assert (folder / f"figure_robustness.{ending}").stat().st_size > 1000
