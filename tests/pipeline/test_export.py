"""`mdc export`: open_clip and CLIP-benchmark read the folders, and what they make of images and texts is what we make of them."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from clip_benchmark_peer import retrieval
from confined import full_disk
from PIL import Image, ImageOps
from safetensors import safe_open
from shown import read_rows
from small_project import ARC, CLIP, MDC, TUNED, exported
from tampering import put

from mdc.app.cli import main
from mdc.app.export.results import Result, Results, results_of
from mdc.data.formats.images import center_resize, decode
from mdc.data.shards.index import ShardReader
from mdc.evaluation.predictors.score import caption_tokens
from mdc.models.encoder import pool
from mdc.models.runs import open_run
from mdc.plan.records import read_json, sha256_file, write_json
from mdc.report.csv_file import write_csv
from mdc.report.frame import CLAIMS, LEVELS, RUNS
from mdc.report.words import claimed

ROOT = Path(__file__).resolve().parents[2]


def photos(r: Path) -> list[bytes]:
    """Images of a corpus, and one that is neither square nor of the models' size."""
    reader = ShardReader(r / "data/corpora/alt/index.json", "val")
    wide = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (90, 150, 3), dtype=np.uint8)
    Image.fromarray(noise).save(wide, "PNG")
    return [*(reader.read(number)[1] for number in range(6)), wide.getvalue()]


def theirs(place: Path) -> tuple[Any, Any, Any]:
    """(model, preprocess, tokenizer) as anybody gets them."""
    import open_clip

    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{place}")
    return model.eval(), preprocess, open_clip.get_tokenizer(f"local-dir:{place}")


@torch.no_grad()
def ours(r: Path, run: str, weights: str = "last") -> tuple[Any, torch.Tensor, torch.Tensor]:
    """A run's model, its [CLS] and its patch tokens of the photos."""
    model = open_run(r / "runs" / run, weights)[0].load().eval()
    pixels = np.stack([center_resize(decode(data), 48) for data in photos(r)])
    images = model.encoder.prepared(torch.from_numpy(pixels).permute(0, 3, 1, 2))
    return (model, *model.encoder(images))


def shown(r: Path, place: Path) -> torch.Tensor:
    model, preprocess, _ = theirs(place)
    images = torch.stack([preprocess(Image.open(io.BytesIO(data))) for data in photos(r)])
    with torch.no_grad():
        found: torch.Tensor = model.encode_image(images)
    return found


@pytest.mark.parametrize(("run", "weights"), [(MDC, "last"), (MDC, "best"), (ARC, "last"), (TUNED, "best")])
def test_a_captioners_image_feature_is_the_one_that_is_probed(r: Path, run: str, weights: str, tmp_path: Path) -> None:
    place = exported(r, run, tmp_path / "out", "open_clip", "--weights", weights)
    _, cls, patches = ours(r, run, weights)
    torch.testing.assert_close(shown(r, place), pool(cls, patches, "patch_mean"), atol=1e-5, rtol=0)


def test_pictures_that_are_stored_otherwise_are_prepared_as_the_docs_say(r: Path, tmp_path: Path) -> None:
    """open_clip takes pixels as they are stored; after what docs/export.md says of them its features are ours."""
    noise = np.random.default_rng(1).integers(0, 256, (60, 90, 4), dtype=np.uint8)
    turned, glassy = io.BytesIO(), io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # a camera that was held upright
    Image.fromarray(noise[..., :3]).save(turned, "PNG", exif=exif)
    Image.fromarray(noise, "RGBA").save(glassy, "PNG")
    model, preprocess, _ = theirs(exported(r, MDC, tmp_path / "out"))
    own = open_run(r / "runs" / MDC)[0].load().eval()
    text = (ROOT / "docs/export.md").read_text(encoding="utf-8")
    for line in (
        'ImageOps.exif_transpose(image).convert("RGBA")',
        'Image.new("RGBA", image.size, "white"), image).convert("RGB")',
    ):
        assert line in text
    for file in (turned, glassy):
        pixels = torch.from_numpy(center_resize(decode(file.getvalue()), 48)).permute(2, 0, 1)[None]
        wanted = pool(*own.encoder(own.encoder.prepared(pixels)), "patch_mean")
        image = ImageOps.exif_transpose(Image.open(file)).convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
        with torch.no_grad():
            torch.testing.assert_close(model.encode_image(preprocess(image)[None]), wanted, atol=1e-5, rtol=0)
            stored = model.encode_image(preprocess(Image.open(file))[None])
        assert (stored - wanted).abs().max() > 0.01, "it matters"


def test_clip_comes_whole_with_its_texts(r: Path, tmp_path: Path) -> None:
    place = exported(r, CLIP, tmp_path / "out")
    model, cls, _ = ours(r, CLIP)
    with torch.no_grad():
        images = torch.nn.functional.normalize(model.image_projection(cls), dim=-1)
        torch.testing.assert_close(torch.nn.functional.normalize(shown(r, place), dim=-1), images, atol=1e-5, rtol=0)
        reader = ShardReader(r / "data/corpora/alt/index.json", "val")
        texts = [reader.read(number)[2]["captions"][0] for number in range(6)]
        run, _ = open_run(r / "runs" / CLIP)
        ids = [caption_tokens(run.vocabulary, text, run.context_length) for text in texts]
        embedded = torch.cat([model.embed_texts(torch.tensor([one]), torch.tensor([len(one)])) for one in ids])
        their, _, tokenizer = theirs(place)
        found = their.encode_text(tokenizer(texts), normalize=True)
        torch.testing.assert_close(found, embedded, atol=1e-5, rtol=0)
        torch.testing.assert_close(their.logit_scale, model.logit_scale)
    assert torch.unique(embedded, dim=0).shape[0] > 1, "captions differ"


def test_a_piece_that_was_never_trained_has_zeros(r: Path, tmp_path: Path) -> None:
    place = exported(r, CLIP, tmp_path / "out")
    their, _, tokenizer = theirs(place)
    told = read_json(place / "open_clip_config.json")["mdc"]
    (row,) = tokenizer(["zeppelin"])[0, 1:2].tolist()
    assert not their.token_embedding.weight[row].any()
    rows = their.token_embedding.weight.any(dim=1)
    assert int(rows.sum()) == len(told["pieces"]) + 2, "SOT and EOT"
    known = set(told["pieces"])
    kept = tokenizer.decode([piece for piece in tokenizer.encode("a red zebra circle") if piece in known])
    assert torch.equal(tokenizer(kept), tokenizer("a red circle")), "as the card says"


def test_a_captioner_is_marked_and_its_texts_are_all_alike(r: Path, tmp_path: Path) -> None:
    place = exported(r, MDC, tmp_path / "out")
    assert read_json(place / "open_clip_config.json")["mdc"]["text_tower"] == "none"
    model, _, tokenizer = theirs(place)
    with torch.no_grad():
        assert not model.encode_text(tokenizer(["a dog", "two red circles"]), normalize=True).any()


def test_clip_benchmark_reads_the_folders(r: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own command line, in a process of its own; a captioner's zero-shot tasks are refused by ours."""
    clip = exported(r, CLIP, tmp_path / "clip")
    words = [*retrieval(r, tmp_path / "wds"), "--model_type", "open_clip", "--pretrained", ""]
    call = "from clip_benchmark.cli import main; main()"
    output = tmp_path / "found.json"
    given = [*words, "--model", f"local-dir:{clip}", "--output", str(output)]
    done = subprocess.run([sys.executable, "-c", call, *given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    own = tmp_path / "own.json"
    given = [*words, "--model_type", "mdc", "--model", CLIP, "--pretrained", "last", "--output", str(own)]
    assert main(["clip-benchmark", "--scale", r.name, *given]) == 0
    assert json.loads(output.read_text())["metrics"] == json.loads(own.read_text())["metrics"]
    captioner = exported(r, MDC, tmp_path / "mdc")
    (tmp_path / "models.txt").write_text(f"local-dir:{captioner},\n")
    for option, name in (
        ("--model", f"local-dir:{captioner}"),
        ("--pretrained_model", f"local-dir:{captioner},"),
        ("--pretrained_model", str(tmp_path / "models.txt")),
    ):
        capsys.readouterr()
        assert main(["clip-benchmark", *words, option, name, "--output", str(tmp_path / "refused.json")]) == 2
        assert "without a trained text tower" in capsys.readouterr().err.splitlines()[-1]
        assert not (tmp_path / "refused.json").exists()


def test_a_hub_folder_says_what_the_record_says(r: Path, tmp_path: Path) -> None:
    place = exported(r, MDC, tmp_path / "hub", "hub")
    manifest = read_json(r / "runs" / MDC / "run.json")
    card = (place / "README.md").read_text()
    head = yaml.safe_load(card.split("---\n")[1])
    assert head["license"] == "mit" and head["library_name"] == "open_clip"
    assert head["pipeline_tag"] == "image-feature-extraction"
    for key, value in manifest["config"]["recipe"].items():
        assert f"| {key} | {value} |" in card
    for said in (
        manifest["config_sha256"],
        manifest["outputs"]["checkpoint.safetensors"],
        f"{manifest['pairs']} pairs",
    ):
        assert said in card
    for table in ("table1", "table2", "table_ratio"):
        rows = read_rows(r / table / f"{table}_long.csv")
        methods = {row["system"]: row["method"] for row in rows}
        own = {row["system"] for row in read_rows(r / table / f"{table}_runs.csv") if row["run"] == MDC}
        rows = [row for row in rows if row["system"] in own and row.get("shown", "own") == "own"]
        rows = [row for row in rows if row.get("is_control") != "True"]
        differences = read_rows(r / table / f"{table}_contrasts.csv")
        claims, gains = (
            [x for x in differences if x[key] == is_] for key, is_ in (("primary", "True"), ("kind", "gain"))
        )
        if table != "table1":  # of probes every number
            columns = [row["column"] for row in claims] or [rows[0]["column"]]
            column = "average" if table == "table2" else columns[0]
            rows = [row for row in rows if row["column"] == column]
        assert rows
        for row in claims:
            if own & {row["first"], row["second"]}:
                assert re.search(
                    rf"\| {table} \| {re.escape(row['method'])} − .*{row['direction']} \(checkpoints\)", card
                )
        for row in rows:
            low, value, high = (f"{float(row[name] or 0):.1f}".replace("-", "−") for name in ("low", "value", "high"))
            bounds = rf"\[{low}, {high}\] <sup>[a-c]</sup>" if row["low"] else "–"
            gained = "–"
            if row["gain"]:  # over what it names, which is no untrained encoder where a table has another control
                (gain,) = [x for x in gains if (x["first"], x["column"]) == (row["system"], row["column"])]
                gained = re.escape(f"{claimed(gain).difference} ({methods[row['control']]})")
            # a number that several tables show is the first's
            line = rf"\| \w+ \| {row['label']}.* \| {value} \| {bounds} \| {gained} \|.* {row['n']} \|"
            assert re.search(line, card), (line, row)
            assert not row["low"] or f"</sup> 95 %, {row['interval'].replace('_', ' ')}" in card
    card = card.partition("Claims of the scale")[0]
    shown = [line.split("|")[2] for line in card.splitlines() if line.startswith("| table")]
    assert not [one for one in shown if "mismatched" in one], "control rows say nothing of it"
    numbers = [line.split("|", 2)[2] for line in card.splitlines() if line.startswith("| table")]
    assert len(numbers) == len(set(numbers)), "what several tables show stands there once"
    assert "no trained text tower" in card and "| cost |" not in card
    # nothing is pickled; that the run itself is there too, test_export_elsewhere sees
    assert {path.suffix for path in place.rglob("*") if path.is_file()} == {".json", ".md", ".safetensors"}


def test_a_finetuned_runs_card_names_all_that_it_was_trained_on(r: Path, tmp_path: Path) -> None:
    card = (exported(r, TUNED, tmp_path / "hub", "hub") / "README.md").read_text()
    first, last = (read_json(r / "runs" / run / "run.json") for run in (MDC, TUNED))
    data, recipe = card.split("## Training data")[1].split("## Results")[0].split("## Recipe")
    for word, manifest in (("Pretrained on", first), ("Finetuned on", last)):
        assert f"{word} {manifest['config']['corpus']}: " in data and f"{manifest['pairs']} pairs" in data
    before, after = recipe.split("Finetuning (")
    assert before.strip().startswith(f"Pretraining (`{first['id']}`)")
    for text, manifest in ((before, first), (after, last)):
        for key in ("lr", "epochs", "batch_size"):
            assert f"| {key} | {manifest['config']['recipe'][key]} |" in text


def test_a_card_holds_foreign_labels_and_differing_licences(r: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    from mdc.app.export.model_card import Stage, data_of, write_model_card

    run, manifest = open_run(r / "runs" / MDC)
    index = read_json(r / "data/corpora/alt/index.json")
    own = Stage(manifest, run.job, data_of(index))
    foreign = replace(own, data=data_of({**index, "source": {"kind": "pairs", "dataset": "cc12m"}}))
    told: dict[str, Any] = {"weights": "last", "pieces": None, "folder": "", "checkpoint_sha256": ""}
    row = dict.fromkeys(LEVELS, "1") | {"metric": "top-1", "interval": "seeds_and_items", "pooling": ""}
    number = Result("table_mine", row, "a | b", dict.fromkeys(CLAIMS, "1") | {"second_method": "no | one"}, 0.9)
    claim = claimed(dict.fromkeys(CLAIMS, "1") | {"method": "x | y"})
    results = Results([number], [("table_mine", claim)], [])
    write_model_card(tmp_path / "card.md", [foreign, own], told, {}, results, "a scale")
    _, head, text = (tmp_path / "card.md").read_text().split("---\n", 2)
    named = {"license": "other", "license_name": "training-data", "license_link": "README.md"}
    assert named.items() <= yaml.safe_load(head).items()
    rows = [line.replace(r"\|", "") for line in text.splitlines() if line.startswith("| table_mine")]
    assert [row.count("|") for row in rows] == [11, 5], "a cell for each heading"
    assert "90 %" in text and "95 %" not in text
    for stage in (foreign, own):
        assert f"Licence of the data: {stage.data.licence}." in text


def test_a_card_has_numbers_of_the_weights_that_it_comes_with(r: Path, tmp_path: Path) -> None:
    """Captions by a finetuned run are of its best weights, probes of the last ones; a run's own default is exported."""
    assert "- weights: best;" in (exported(r, TUNED, tmp_path / "tuned", "hub") / "README.md").read_text()
    assert "- weights: last;" in (exported(r, MDC, tmp_path / "plain", "hub") / "README.md").read_text()
    run = tmp_path / "runs" / MDC / "run.json"
    write_json(run, {})
    for table, more in (("table1", {}), ("table3", {"weights": "best", "is_control": "False"})):
        line = {"system": "s", "column": "shape", "method": "MDC", "label": "Shape", "metric": "top-1", "chance": "25"}
        line |= {"value": f"{len(table)}{len(more)}", "low": "0", "high": "1", "interval": "exact", "n": "9"}
        numbers = tmp_path / table / f"{table}_long.csv"
        write_csv(numbers, [dict.fromkeys(LEVELS, "") | line | more], (*LEVELS, *more))
        runs = numbers.with_name(f"{table}_runs.csv")
        write_csv(runs, [dict.fromkeys(RUNS, "") | {"system": "s", "run": MDC}], RUNS)
        outputs = {path.name: sha256_file(path) for path in (numbers, runs)}
        record = {
            "inputs": {f"runs/{MDC}": sha256_file(run)},
            "outputs": outputs,
            "config": {"statistics": {"level": 0.9}},
        }
        write_json(numbers.parent / f"{table}.json", record)
    found = {
        weights: [one.table for one in results_of(tmp_path, MDC, {weights}).numbers] for weights in ("last", "best")
    }
    assert found == {"last": ["table1"], "best": ["table3"]}
    # a run whose best weights are its last ones has the numbers of both
    assert [one.table for one in results_of(tmp_path, MDC, {"last", "best"}).numbers] == ["table1", "table3"]
    # tables of captions say whose they are
    rows = read_rows(r / "table3/table3_long.csv")
    assert {(row["weights"], row["system"].endswith("most_frequent")) for row in rows} == {("best", False), ("", True)}


@pytest.mark.usefixtures("own_copy")
def test_a_card_leaves_out_tables_of_another_state_of_the_run(
    r: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def left_out(run: str = MDC) -> dict[str, str]:
        found = results_of(r, run, {"last", "best"})
        assert not {one.table for one in found.numbers} & {table for table, _ in found.left_out}
        return dict(found.left_out)

    assert not left_out() and not left_out(ARC)
    numbers = r / "table2/table2_long.csv"
    whole = numbers.read_bytes()
    put(numbers, whole + b"\n")
    assert left_out().keys() == {"table2"} and left_out()["table2"].startswith("table2/table2_long.csv: not the file")
    put(numbers, whole)
    probe = r / "probe" / MDC / "probe.json"
    probe.rename(tmp_path / "probe.json")
    assert left_out()["table1"].startswith("probe/")
    (tmp_path / "probe.json").rename(probe)
    record = r / "table1/table1.json"
    record.rename(tmp_path / "table1.json")
    assert left_out()["table1"].startswith("table1/table1.json: ")
    (tmp_path / "table1.json").rename(record)
    assert not left_out()
    # the run is trained anew, and no table is made of it
    path = r / "runs" / MDC / "run.json"
    write_json(path, {**read_json(path), "loss": 0.0})
    why = f"runs/{MDC} has been rebuilt since"
    assert set(left_out().values()) == {why} and {"table1", "table2", "table_ratio"} <= set(left_out())
    assert not left_out(ARC), "the other run's numbers follow from it still"
    card = (exported(r, MDC, tmp_path / "hub", "hub") / "README.md").read_text()
    assert f"table1: left out of the card, since {why}\n" in capsys.readouterr().out
    assert f"table1 is left out: {why}." in card and "| table1 |" not in card
    assert "No table of this scale that shows the run as it is has been made." in card


def test_clips_card_says_which_feature_was_probed_and_how_to_get_it(r: Path, tmp_path: Path) -> None:
    card = (exported(r, CLIP, tmp_path / "hub", "hub") / "README.md").read_text()
    assert re.search(r"\| table1 \| .* \| \[CLS\] \|", card)
    assert "`model.visual.proj = None`" in card and "before the projection" in card


def test_data_that_the_registry_does_not_know_has_no_licence_that_we_could_tell(r: Path, tmp_path: Path) -> None:
    from mdc.app.export.model_card import data_of

    index = read_json(r / "data/corpora/alt/index.json")
    own = data_of({**index, "source": {"kind": "parquet", "path": "mine.parquet"}})
    assert own.licence == "not known to this project" and "mine.parquet" in own.source
    listed = data_of({**index, "source": {"kind": "pairs", "dataset": "cc12m"}})
    assert "CC12M" in listed.source and listed.licence != own.licence


def test_the_same_run_gives_the_same_bytes(r: Path, tmp_path: Path) -> None:
    first, second = (exported(r, CLIP, tmp_path / name, "hub") for name in ("one", "two"))
    files = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(second) for path in second.rglob("*") if path.is_file())
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in files)
    with safe_open(str(first / "open_clip_model.safetensors"), framework="pt") as file:
        assert json.loads(file.metadata()["mdc"])["run"] == f"runs/{CLIP}"


def test_a_link_to_an_empty_folder_is_filled(r: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    exported(r, MDC, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "disk/open_clip_config.json").is_file()


@pytest.mark.usefixtures("own_copy")
def test_what_cannot_be_exported_ends_in_one_line(
    r: Path, tmp_path: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "out"
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").write_text("mine")
    for name, folder, said in (
        (MDC, tmp_path / "full", "already exists"),
        (MDC, tmp_path / "full/mine.txt", "already exists"),
        ("alt/on-clip/mdc/s0", place, "uses the frozen encoder encoders/clip"),
        ("alt/ViT-T-12/nobody/s0", place, "no folder with a run.json"),
    ):
        assert said in refused("export", name, folder, "--to", "hub", "--scale", r.name)
    for to in ("open_clip", "hub"):
        with full_disk(50_000):
            said = refused("export", MDC, place, "--to", to, "--scale", r.name)
        assert f"{place}: " in said and "resumes" not in said, "an export keeps no state"
    (tmp_path / "empty").mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path / "empty")
        run = tmp_path / "project" / r / "runs" / MDC
        assert "is the current folder" in refused("export", run, ".", "--to", "open_clip")
    # a text tower that sees the padding is no open_clip model
    causal = r / "runs" / CLIP / "run.json"
    record = read_json(causal)
    record["config"]["protocol"]["pretrain"]["clip_text_attention"] = "bidirectional"
    write_json(causal, record)
    assert "its text tower" in refused("export", CLIP, place, "--to", "open_clip", "--scale", r.name)
    assert (tmp_path / "full/mine.txt").read_text() == "mine" and not place.exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "nothing half-written"
