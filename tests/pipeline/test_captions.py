"""Captions through the real jobs: written, measured, judged, and shown in Table 3 and Figure 6."""

import json
import re
from collections import Counter
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
import small_project
import torch
from PIL import Image
from shown import read_rows
from small_project import MDC, TUNED, do_jobs, options
from small_project import config as config_of

from mdc.app.cli import main
from mdc.data.shards.index import ShardReader
from mdc.evaluation.captioned import Captioned
from mdc.evaluation.job_models import run_scorer
from mdc.evaluation.metrics.java import java
from mdc.evaluation.metrics.metrics import tokens
from mdc.evaluation.metrics.words import distinct, self_bleu
from mdc.models.runs import open_run
from mdc.plan.config.read import validate
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.records import read_json, sha256_file, write_json
from mdc.plan.verbs import verb_of
from mdc.report.caption_numbers import Captioned as Numbers
from mdc.report.figures import figure6

JOB = f"captions/{TUNED}/best/described"

Rows = dict[str, dict[str, dict[str, Any]]]


def _rows(path: Path) -> Rows:
    """system → image → its row."""
    found: Rows = {}
    for row in parquet.read_table(path).to_pylist():
        found.setdefault(row["system"], {})[row["image"]] = row
    return found


def _of_seed(r: Path, layer: str, seed: int = 0) -> Rows:
    """What a seed's runs and the baseline wrote, or what was measured of it, by system."""
    paths = sorted((r / layer).rglob(f"described/{layer}.parquet"))
    return {
        system: rows
        for path in paths
        if f"/s{seed}/" in str(path) or "/most_frequent/" in str(path)
        for system, rows in _rows(path).items()
    }


def _measured(r: Path, seed: int = 0) -> Rows:
    return _of_seed(r, "metrics", seed)


def _captions(r: Path, job: str = JOB) -> Rows:
    return _rows(r / job / "captions.parquet")


def _images(r: Path) -> Captioned:
    return Captioned.open(r / "data/corpora/described", "test", 8)


# --- finetuning ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("own_copy")
def test_a_finetuned_run_names_what_it_goes_on_from(r: Path, refused: Callable[..., str]) -> None:
    run, before = read_json(r / f"runs/{TUNED}/run.json"), f"runs/{MDC}"
    assert run["inputs"][before] == sha256_file(r / before / "run.json")
    start = run["config"]["start"]
    assert start["run"] == before and start["config_sha256"] == read_json(r / before / "run.json")["config_sha256"]
    assert run["config"]["corpus"] == "described" and run["best"] is not None
    # a training that is not the one meant is refused
    config = json.loads(config_of(r, f"runs/{TUNED}").read_text())
    config["start"]["config_sha256"] = "0" * 64
    Path("stale.json").write_text(json.dumps(config))
    places = {"folder": r, "out": Path("out"), "state": Path("state"), "runtime": Path("runtime.json")}
    refused("pretrain", "stale.json", *options(**places))
    assert not Path("out/run.json").exists()


# --- captions -----------------------------------------------------------------------------------------------------------


def test_another_images_caption_is_the_one_that_this_image_has(r: Path) -> None:
    """The mismatched row writes for an image what the same policy writes for the image that replaces it."""
    rows, images = _captions(r), _images(r)
    assert list(rows) == ["mdc_6", "mdc_6_other"] and list(rows["mdc_6"]) == images.keys
    others = [images.other(n, 0) for n in range(len(images))]
    assert sorted(others) == list(range(8)) and all(n != other for n, other in enumerate(others))
    for n, key in enumerate(images.keys):
        assert rows["mdc_6_other"][key]["caption"] == rows["mdc_6"][images.keys[others[n]]]["caption"]
        assert len(rows["mdc_6"][key]["pieces"]) == 6
        assert sorted(rows["mdc_6"][key]["step"]) == [1, 2, 3, 4, 5, 6]


def test_the_baseline_is_the_most_frequent_training_caption(r: Path) -> None:
    reader = ShardReader(r / "data/corpora/described", "train")
    counts = Counter(c for n in range(len(reader)) for c in reader.read(n)[2]["captions"])
    most = {row["caption"] for row in _captions(r, "captions/most_frequent/described")["most_frequent"].values()}
    assert len(most) == 1 and counts[most.pop()] == max(counts.values())


# --- metrics ------------------------------------------------------------------------------------------------------------


def test_clip_score_is_that_of_the_run_called_alone(r: Path) -> None:
    images, measured = _images(r), _measured(r)
    run, _ = open_run(r / "runs/alt/ViT-T-12/clip/s0")
    from mdc.plan.config.score import Scoring

    how = {"samples": 16, "mismatched": 1, "seed": 0, "batch_tokens": 4096, "precision": "fp32"}
    scoring = Scoring(**how, processes=1, threads=1, device="cpu")
    clip = run_scorer(run, scoring, torch.device("cpu"))
    for system, rows in {**_captions(r), **_captions(r, "captions/most_frequent/described")}.items():
        for n, key in enumerate(images.keys):
            caption, ids, row = rows[key]["caption"], rows[key]["clip_ids"], measured[system][key]
            image = clip.look(clip.picture(images.image(n))[None])[0]
            tokens = clip.tokens(caption) if ids is None else clip.vocabulary.encode_pieces(ids)
            text, reference = clip.read([tokens, clip.tokens(images.references[n][0])])
            own, near = 2.5 * max(float(image @ text), 0), max(float(text @ reference), 0)
            assert row["CLIPScore"] == pytest.approx(100 * own, abs=1e-3)
            both = 2 * own * near / (own + near) if own + near else 0
            assert row["RefCLIPScore"] == pytest.approx(100 * both, abs=1e-3)


def test_table_3_is_what_was_measured(r: Path) -> None:
    job = ArtefactJob.model_validate_json(json.dumps(read_json(config_of(r, "table3"))))
    found = Numbers(job, {name: ScaleFolder(r).manifest(name, verb_of(name)) for name in job.inputs})
    measured = [_measured(r, seed) for seed in (0, 1)]
    records = [
        read_json(r / f"metrics/{TUNED.replace('s0', f's{seed}')}/best/described/metrics.json") for seed in (0, 1)
    ]
    told = [record["systems"]["mdc_6"]["values"] for record in records]
    key = "described/mdc_6"
    for metric in ("BLEU-1", "BLEU-4", "CIDEr", "ROUGE-L"):
        assert found.levels[key, metric].value == pytest.approx(np.mean([one[metric] for one in told]), abs=1e-6)
    tallies = [
        np.array([row["truth"] for row in one["arc"].values()]).reshape(-1, 4, 4).sum(axis=0) for one in measured
    ]
    # of what is stated the true share, of the facts the told share
    shares = [100 * one[:, 0].sum() / max(one[:, 1].sum(), 1) for one in tallies]
    assert found.levels["described/arc", "precision"].value == pytest.approx(np.mean(shares))
    shares = [100 * one[0, 2] / one[0, 3] for one in tallies]
    assert found.levels["described/arc", "recall_objects"].value == pytest.approx(np.mean(shares))
    words = np.mean([row["words"] for one in measured for row in one["mdc_6"].values()])
    assert found.levels[key, "words"].value == pytest.approx(words)
    # what is not there is told, and never a number
    assert set(found.missing) == {"METEOR", "SPICE"}
    text = (r / "table3/table3.md").read_text()
    assert "SPICE (not available)" in text and "SPICE is not available: the scale leaves it out." in text
    assert not any(",METEOR," in line for line in (r / "table3/table3_long.csv").read_text().splitlines())


@pytest.mark.usefixtures("own_copy")
def test_chair_stands_where_instances_are_and_is_told_where_not(r: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in world names no object of MSCOCO's, but for what is written into a caption here."""
    text = (r / "table3/table3.md").read_text()
    assert "CHAIR" not in text
    values = small_project.values((0, 1))
    values["captions"]["datasets"]["described"]["instances"] = "instances.json"
    plan = Plan(validate(values))
    jobs = [name for name in plan.jobs if name.startswith("metrics/") and name.endswith("/described")]
    jobs += ["judged/described/s0", "judged/described/s1", "table3"]
    monkeypatch.setenv("MDC_DATA", str(Path.cwd()))
    small_project.do_jobs(plan, jobs)
    text = (r / "table3/table3.md").read_text()
    assert "Described: CHAIR is not available: MSCOCO's instances.json" in text
    assert "Objects that are not there" not in text

    numbers = [int(re.findall(r"\d+$", key)[0]) for key in _images(r).keys]
    content = {"images": [{"id": n} for n in numbers], "categories": [], "annotations": []}
    Path("instances.json").write_text(json.dumps(content))
    small_project.do_jobs(plan, jobs)
    text = (r / "table3/table3.md").read_text()
    part = text.split("### Objects that are not there (CHAIR)")[1].split("###")[0]
    rows = [line for line in part.splitlines() if line.startswith("| MDC | 6 ")]
    assert len(rows) == 1 and rows[0].count(" 0.0 ") == 3, part


def test_a_contest_by_clip_score_is_won_by_the_highest(r: Path) -> None:
    measured = _measured(r)
    rows = parquet.read_table(r / "judged/described/s0/judged.parquet").to_pylist()
    assert [row["image"] for row in rows] == _images(r).keys
    for row in rows:
        scores = {system: measured[system][row["image"]]["CLIPScore"] for system in row["systems"]}
        assert set(scores) == {"arc", "mdc_6", "mdc_ends"}
        best = [system for system, score in scores.items() if score == max(scores.values())]
        found = dict(zip(row["systems"], row["votes"], strict=True))
        assert found == {system: 1 / len(best) if system in best else 0 for system in scores}
        named = [system for system in ("arc", "mdc_6", "mdc_ends") if system in best]
        assert row["systems"]["ABC".index(row["letter"])] == named[0]
    other = parquet.read_table(r / "judged/described/s1/judged.parquet").to_pylist()
    assert [row["systems"] for row in rows] != [row["systems"] for row in other]
    text = (r / "table3/table3.md").read_text()
    assert "Judge: a CLIP, which is no language model." in text


def test_how_often_each_is_chosen_is_a_number_like_any_other(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """… with its interval, seeds and chance; and where the letters stood is told beside it."""
    rows = [parquet.read_table(r / f"judged/described/s{seed}/judged.parquet").to_pylist() for seed in (0, 1)]
    lines = [line for line in read_rows(r / "table3/table3_long.csv") if line["label"] == "chosen"]
    labels = {"arc": ("ARC", "–"), "mdc_6": ("MDC · 6", "6"), "mdc_ends": ("MDC · free", "free")}
    assert {line["method"]: line["length"] for line in lines} == {"ARC": "", "MDC · 6": "6", "MDC · free": ""}
    for line in lines:
        (system,) = (key for key, (method, _) in labels.items() if method == line["method"])
        shares = [
            np.mean([dict(zip(row["systems"], row["votes"], strict=True))[system] for row in some]) for some in rows
        ]
        assert float(line["value"]) == pytest.approx(100 * np.mean(shares), abs=1e-3)
        assert float(line["low"]) < float(line["value"]) < float(line["high"])
        assert (line["seeds"], line["n"], float(line["chance"])) == ("2", "8", pytest.approx(100 / 3, abs=1e-3))
        assert line["published"] == "" and line["dataset"] == "Described"
    told = {line["method"]: f"{float(line['value']):.1f}" for line in lines}
    text = (r / "table3/table3.md").read_text()
    first = text.split("### More")[0]
    for key, (method, length) in labels.items():
        (row,) = [line for line in first.splitlines() if line.startswith(f"| {key[:3].upper()} | {length} |")]
        assert told[method] in re.sub(r"\*|</?ins>", "", row.split("|")[9]), row
    assert "(the paper's footnote)" in first
    letters = np.array([row["votes"] for some in rows for row in some]).sum(axis=0)
    part = text.split("### The judge's answers")[1].split("###")[0]
    (row,) = [line for line in part.splitlines() if line.startswith("| Described")]
    assert [cell.strip() for cell in row.split("|")[5:8]] == [f"{100 * one / 16:.1f}" for one in letters]
    assert "| 16 chosen |" in row
    assert main(["why", str(r / "table3/table3.csv"), "--row", "Described, MDC · 6", "--column", "chosen"]) == 0
    said = capsys.readouterr().out
    assert "judged/described/s1" in said and "\n  mean of" not in said


def test_how_varied_and_descriptive_captions_are_is_counted_from_their_tokens(r: Path) -> None:
    images, program = _images(r), java()
    assert program is not None
    lines = read_rows(r / "table3/table3_sets.csv")
    sets = {(line["method"], line["dataset"], line["seed"]): line for line in lines}
    for system, label in (("mdc_6", "MDC · 6"), ("mdc_ends", "MDC · free"), ("arc", "ARC")):
        captions = {key: measured_of["caption"] for key, measured_of in _of_seed(r, "captions")[system].items()}
        split = tokens(program, {"": captions}, dict(zip(images.keys, images.references, strict=True)))
        assert split is not None
        ours = [split.systems[""][key][0] for key in images.keys]
        line = sets[label, "Described", "0"]
        assert int(line["vocabulary"]) == len({word for text in ours for word in text.split()})
        for name, value in (("distinct_1", distinct(ours, 1)), ("self_bleu", self_bleu(ours))):
            assert float(line[name]) == pytest.approx(100 * value, abs=1e-3)


def test_figure_6_shows_images_that_the_seed_chose(r: Path) -> None:
    images = _images(r)
    chosen = sorted(np.random.default_rng([0, 6]).choice(8, size=2, replace=False).tolist())
    page = (r / "figure6/figure6.html").read_text()
    for n, key in enumerate(images.keys):
        assert (f'alt="image {key}"' in page) == (n in chosen)
    row = _captions(r)["mdc_6"][images.keys[chosen[0]]]
    # each piece with the step in which it was revealed beside it
    told = [(piece, str(step)) for piece, step in zip(row["pieces"], row["step"], strict=True)]
    lines = [
        re.findall(r'class="piece"[^>]*>([^<]*)<sub>(\d+)</sub>', line)
        for line in re.findall(r"<dd><span.*</dd>", page)
    ]
    assert told in [[(unescape(piece), step) for piece, step in line] for line in lines]
    assert len({step for _, step in told}) == len(told), "one a step, as in the paper"
    assert row["caption"] in (r / "figure6/figure6.csv").read_text()


@pytest.mark.usefixtures("own_copy")
def test_figure_6_names_images_as_the_persons_files(r: Path) -> None:
    folder = r / "data/corpora/described"
    rows = [{"split": "test", "key": key, "file": f"my photos/{key} $x$.jpg"} for key in _images(r).keys]
    (folder / "names.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = {"names": {"file": "names.jsonl", "sha256": sha256_file(folder / "names.jsonl")}}
    write_json(folder / "index.json", read_json(folder / "index.json") | names)
    made = read_json(folder / "made.json")
    write_json(folder / "made.json", made | {"outputs": {"index.json": sha256_file(folder / "index.json")}})
    do_jobs(small_project.plan(), ["figure6"])
    page, table = ((r / f"figure6/figure6.{ending}").read_text() for ending in ("html", "csv"))
    named = [page.count(f'alt="image {start}') for start in ("", "my photos/")]
    assert named[0] == named[1] > 1 and table.count(",my photos/") == len(table.splitlines()) - 1


def test_figure_6s_page_shows_all_systems_and_its_picture_those_that_are_not_left_out(r: Path) -> None:
    config = read_json(ScaleFolder(r).config("figure6"))
    systems = [system for dataset in config["more"]["datasets"] for system in dataset["systems"]]
    assert [system["key"] for system in systems if not system["pictured"]] == ["mdc_6_other"]
    page, table = ((r / f"figure6/figure6.{ending}").read_text() for ending in ("html", "csv"))
    for label in {system["label"] for system in systems}:
        assert label in unescape(page) and label in table
    row = {"caption": "a caption"}
    shown = [(figure6.ShownCaptions(**system), row) for system in systems]
    dataset = figure6.CaptionExamples.model_validate(config["more"]["datasets"][0])
    text = figure6._text(figure6._Example(dataset, "key", Image.new("RGB", (1, 1)), ["a reference"], shown))
    assert "MDC · mismatched image" not in text and "MDC · 6:" in text and "reference:  a reference" in text
