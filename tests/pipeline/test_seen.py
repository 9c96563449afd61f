"""Test images that were trained on are found at other sizes and qualities, counted where shown, and said by `mdc init`."""

import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import own_data
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import small_project
from PIL import Image
from scale_files import write_params
from scale_plans import plan_of
from shown import read_rows
from tampering import edit, flip, put

from mdc.app.cli import main
from mdc.app.init import estimate
from mdc.data.formats.samples import held_out
from mdc.data.shards.image_hashes import difference_hash, find, read_hashes
from mdc.data.shards.index import ShardReader
from mdc.evaluation.zero_shot import sampled
from mdc.plan.config.read import validate
from mdc.plan.config.yaml_core import read_yaml
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.shown import Seen
from mdc.plan.records import UserError, json_text, sha256_file
from mdc.report.seen import Counted, mark, sentences, unknown

PHOTOS, TESTED, OTHERS = 40, 16, 5
SCENES = {"kind": "scenes", "pixels": 96, "seed": 1}


def _photo(path: Path, number: int, size: tuple[int, int], quality: int) -> None:
    """Photo ``number``: smooth fields of colour and some grain."""
    draw = np.random.default_rng(number)
    coarse = Image.fromarray(draw.integers(0, 256, (7, 9, 3), np.uint8)).resize((240, 180), Image.Resampling.BICUBIC)
    grained = np.clip(np.asarray(coarse) + draw.normal(0, 6, (180, 240, 3)), 0, 255).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(grained).resize(size, Image.Resampling.LANCZOS).save(path, quality=quality)


def _data(data: Path) -> None:
    """Captioned photos, and labelled ones: the first of them tested in another size and quality, beside others."""
    for number in range(PHOTOS):
        _photo(data / f"caps/p{number:03d}.jpg", number, (240, 180), 95)
    rows = [(f"p{number:03d}.jpg", f"a {'cat' if number % 2 else 'dog'} on a sofa") for number in range(PHOTOS)]
    own_data.table(data / "caps/captions.csv", rows)
    tested = [*range(TESTED), *range(1000, 1000 + OTHERS)]
    for split, numbers in (("train", range(500, 520)), ("test", tested)):
        for number in numbers:
            _photo(data / f"pets/{split}/{'cat' if number % 2 else 'dog'}/{number:04d}.jpg", number, (96, 72), 70)


def _values() -> dict[str, Any]:
    found = small_project.values()
    for section in ("tokenizers", "encoders", "encode", "captions", "score"):
        del found[section]
    caps = {"kind": "caption_table", "path": "caps/captions.csv", "images": "caps", "val_fraction": 0.4}
    found["data"] |= {
        "vocabularies": {"words": ["caps", "scenes"]},
        "choices": {},
        "corpora": {
            "caps": {"label": "Captions", "source": caps},
            "scenes": {"label": "Scenes", "source": {**SCENES, "style": "alt", "train": 200, "val": 16}},
        },
        "probes": {
            "pets": {"label": "Pets", "source": {"kind": "class_folder", "path": "pets"}},
            "shape": {"label": "Shape", "source": {**SCENES, "task": "shape", "train": 40, "test": 100}},
        },
        "primary_probe": "pets",
    }
    found["pretrain"]["backbones"] = {"ViT-T-12": found["pretrain"]["backbones"]["ViT-T-12"]}
    found["pretrain"]["overrides"] = []
    found["pretrain"]["recipe"]["snapshots"] = []
    shown = {"caps": ["arc", "mdc"], "scenes": ["mdc"]}
    claim = {"primary": [["caps/mdc", "caps/arc"]], "primary_metric": "pets"}
    found["tables"] = {"table1": {"corpora": shown, "probes": ["pets", "shape"], **claim}}
    return found


def test_a_table_counts_test_images_of_its_training_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _data(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MDC_DATA", raising=False)
    write_params(tmp_path, _values())
    small_project.do_jobs(Plan(validate(_values())))
    r = Path("results") / small_project.SCALE
    reader = ShardReader(r / "data/corpora/caps", "train")
    trained = {int(re.findall(r"\d+", reader.read(n)[0])[-1]) for n in range(len(reader))}
    expected = len(trained & set(range(TESTED)))
    assert 0 < expected < TESTED, "some are in the training split, some in the held-out one"
    counts = {
        str(path.parent.relative_to(r / "data/overlaps")): len(json.loads(path.read_bytes())["seen"])
        for path in r.glob("data/overlaps/**/overlap.json")
    }
    rest = dict.fromkeys(("caps/probes/shape", "scenes/probes/pets", "scenes/probes/shape"), 0)
    assert counts == {"caps/probes/pets": expected, **rest}
    found = json.loads((r / "data/overlaps/caps/probes/pets/overlap.json").read_bytes())
    assert {int(re.findall(r"\d+", row["training"])[-1]) for row in found["seen"]} == trained & set(range(TESTED))
    assert found["images"] == TESTED + OTHERS
    scenes = ShardReader(r / "data/corpora/scenes", "train")
    assert not read_hashes(r / "data/corpora/scenes", scenes.index, "train")[1].any(), "compared by their bytes alone"
    said = f"{expected} of {TESTED + OTHERS} test images of Pets were trained on (Captions)"
    assert said in (r / "table1/table1.md").read_text() and "of Shape were" not in (r / "table1/table1.md").read_text()
    assert main(["index", "--scale", small_project.SCALE]) == 0
    page = Path("results/index.html").read_text()
    claim = re.search(r"<strong>(.*?)</strong>", page)
    assert said in page and claim and f"Pets {expected} of {TESTED + OTHERS}" in claim[1]
    assert f"Pets {expected} of" in (r / "claims.csv").read_text()


def test_of_a_finetuned_run_both_corpora_count_and_of_external_models_it_is_unknown() -> None:
    jobs: dict[str, Any] = small_project.plan().jobs
    assert {(entry.training, entry.test) for entry in jobs["table3"].seen} == {
        ("Alt-text", "Described"),
        ("Described", "Described"),
    }
    assert jobs["table_retrieval"].seen[0].job.endswith("/val")
    of_alt = next(entry for entry in jobs["table1"].seen if entry.training == "Alt-text")
    assert {"alt/ViT-T-12/mdc", "frozen/clip"} <= set(of_alt.systems), "a frozen encoder of ours was trained on it, too"
    assert not jobs["table1"].unknown
    assert not jobs["mcd_table1"].unknown, "a tokenizer of ours was trained on a corpus of ours"
    assert {entry.training for entry in jobs["mcd_table1"].seen} == {"Alt-text", "Described"}
    paper: Any = plan_of("paper").jobs
    assert paper["table3"].unknown == ["CoCa"] and "CoCa" in unknown(paper["table3"])[0]
    assert paper["mcd_table3"].unknown == ["VQGAN codes"], "an imported one is not"


def test_sets_count_that_are_shown_and_an_encoder_of_random_weights_saw_none() -> None:
    values = small_project.values()
    drawn = {"label": "Drawn", "kind": "timm", "model": "resnet18", "weights": "random"}
    values["encoders"]["drawn"] = {**drawn, "image_size": 48, "tokens": 4, "width": 8}
    values["tables"]["table1"]["encoders"] = ["clip", "drawn"]
    values["tables"]["table_neighbours"]["probes"] = ["shape"]  # beside zero-shot columns of both
    jobs: dict[str, Any] = Plan(validate(values)).jobs
    assert jobs["table1"].seen and not jobs["table1"].unknown
    assert {entry.name for entry in jobs["table4"].seen} == {"shape"}, "though the same jobs probe colour, too"
    assert {entry.name for entry in jobs["table_neighbours"].seen} == {"shape", "colour"}


def test_pictures_without_steps_of_brightness_hide_no_copy() -> None:
    """A hash with few bits is near that of every picture that has none."""
    others = [io.BytesIO() for _ in range(2)]
    for file, seed in zip(others, (1, 2), strict=True):
        draw = np.random.default_rng(seed).integers(0, 256, (64, 64, 3), np.uint8)
        Image.fromarray(draw).save(file, "PNG")
    other, copy = (file.getvalue() for file in others)
    tested = np.array([[0b11111, 0, 0, 0]], np.uint64)
    looks = np.zeros((30, 4), np.uint64)
    looks[20] = tested[0] ^ np.array([0, 0b1111111, 0, 0], np.uint64)
    matches = find(
        (np.arange(30, dtype=np.uint64), looks),
        (np.array([99], np.uint64), tested),
        lambda number: copy if number == 20 else other,
        lambda _: copy,
    )
    assert matches == {0: (20, 7)}


def test_of_many_pictures_each_near_one_is_found_and_the_nearest_is_named() -> None:
    """Against a comparison of all with all: up to 20 bits of 256, the least first; of equal bytes the first."""
    draw = np.random.default_rng(0)
    pictures = []
    for _ in range(2):
        Image.fromarray(draw.integers(0, 256, (64, 64, 3), np.uint8)).save(file := io.BytesIO(), "PNG")
        pictures.append(file.getvalue())
    tested, trained = (draw.integers(0, 2, (count, 256), np.uint8) for count in (120, 20_000))
    for number, places in enumerate(draw.permutation(20_000).reshape(-1, 5)[:120]):
        for more, place in enumerate(places):
            trained[place] = tested[number]
            trained[place, draw.permutation(256)[: number % 21 + more]] ^= 1
    looks = [np.packbits(bits, axis=1).view(np.uint64) for bits in (trained, tested)]
    names = [np.arange(1, 20_001, dtype=np.uint64), np.zeros(120, np.uint64)]
    names[1][::9] = names[0][5::9][:14]
    names[0][700:900] = names[0][:200]  # twice there
    expected: dict[int, tuple[int, int | None]] = {}
    for number, bits in enumerate(tested):
        equal, distance = np.flatnonzero(names[0] == names[1][number]), (trained != bits).sum(1)
        near = [
            place for place in np.argsort(distance, kind="stable") if distance[place] <= 20 and place % 2 == number % 2
        ]
        if len(equal):
            expected[number] = int(equal[0]), None
        elif near:
            expected[number] = int(near[0]), int(distance[near[0]])
    training, test = zip(names, looks, strict=True)
    assert find(training, test, lambda place: pictures[place % 2], lambda number: pictures[number % 2]) == expected
    assert 60 < len(expected) < 120 and max(place for place, _ in expected.values()) > 17_000


def test_drawings_whose_shorter_side_is_small_are_found_by_their_bytes_alone(tmp_path: Path) -> None:
    for size, some in (((240, 180), True), ((240, 48), False)):
        _photo(tmp_path / "photo.jpg", 3, size, 90)
        assert any(difference_hash((tmp_path / "photo.jpg").read_bytes())) == some


def _trained_on(r: Path, job: str, test: str, split: str, first: int) -> None:
    """Say in the record of ``job`` that the images of a test set from number ``first`` on were trained on."""
    reader = ShardReader(r / test, split)
    keys = [reader.read(number)[0] for number in range(first, len(reader))]
    rows = [{"number": first + n, "key": key, "training": key, "bits": None} for n, key in enumerate(keys)]
    put(r / job / "overlap.json", json_text({"kind": "overlap", "images": len(reader), "seen": rows}))
    sha256 = sha256_file(r / job / "overlap.json")
    edit(r / job / "made.json", lambda made: made["outputs"].update({"overlap.json": sha256}))


#: table or figure → a test set and its split; how many of its images are tested, and how many of them from number 4 on
COUNTS = {
    "table_zero_shot": ("probes/shape", "test", 20, sum(number >= 4 for number in sampled(32, 20))),
    # of several records all images count
    "table_neighbours": ("probes/shape", "test", 32, 28),
    "table2": ("choices/pairs", "test", 8, 6),
    "table_retrieval": ("corpora/alt", "val", 9, 6),
    "table3": ("corpora/described", "test", 8, 4),
    "figure_position": ("corpora/alt", "val", 16, 12),
}


@pytest.mark.usefixtures("own_copy")
@pytest.mark.parametrize("name", COUNTS)
def test_what_counts_are_the_images_that_are_tested(name: str) -> None:
    """Random ones of a probe, held-out pairs that fit the context, several items of one image."""
    r, (test, split, images, count) = Path("results") / small_project.SCALE, COUNTS[name]
    for path in r.glob("retrieval/**/retrieval.json"):
        edit(path, lambda record: record["keys"].pop(0))
    for path in r.glob("scores/**/scores.parquet"):
        rows = [{**row, "image": row["image"].partition("-")[0]} for row in parquet.read_table(path).to_pylist()]
        path.unlink()
        parquet.write_table(pa.Table.from_pylist(rows), path)
        sha256 = sha256_file(path)
        edit(
            path.with_name("scores.json"),
            lambda record, sha256=sha256: record["outputs"].update({"scores.parquet": sha256}),
        )
    jobs: dict[str, Any] = small_project.plan((0, 1)).jobs
    (entry,) = (entry for entry in jobs[name].seen if f"alt/{test}" in entry.job)
    _trained_on(r, entry.job, f"data/{test}", split, 4)
    manifests = {name: ScaleFolder(r).manifest(name, jobs[name].verb) for name in jobs[name].inputs}
    expected = f"{count} of {images} test images of {entry.test} were trained on (Alt-text)."
    assert sentences(jobs[name], manifests) == [expected]


@pytest.mark.parametrize("order", [1, -1])
def test_a_claim_counts_what_its_own_systems_and_columns_saw_and_of_several_corpora_the_most(order: int) -> None:
    seen = [
        ("A", "Pets", 90, ["pets"]),
        ("B", "Pets", 5, ["pets"]),
        ("A", "Shape", 7, ["shape"]),
        ("B", "Held out", 2, []),
    ]
    counts = [
        Counted(Seen(job="", training=t, test=test, name="", records=[], columns=c, systems=[t]), n, 111)
        for t, test, n, c in seen[::order]
    ]
    assert mark(counts, ["A", "B"], ["pets"]) in (
        "Pets 90 of 111, Held out 2 of 111",
        "Held out 2 of 111, Pets 90 of 111",
    )
    assert (mark(counts, ["A"], ["pets"]), mark(counts, ["A", "C"], ["shape"])) == ("Pets 90 of 111", "Shape 7 of 111")
    assert mark(counts, ["C"], ["pets"]) == mark(counts, ["A"], ["count"]) == ""


@pytest.mark.usefixtures("own_copy")
def test_a_claim_over_splits_counts_the_images_of_all() -> None:
    r, plan = Path("results") / small_project.SCALE, small_project.plan((0, 1))
    _trained_on(r, "data/overlaps/alt/corpora/described/val", "data/corpora/described", "val", 3)
    small_project.do_jobs(plan, ["table_splits"])
    rows = [row for row in read_rows(r / "table_splits/table_splits_over.csv") if row["kind"] == "splits"]
    assert (
        rows
        and {row["seen"] for row in rows} == {"Described 5 of 8"}
        and {row["predicted"] for row in rows} <= {"higher", ""}
    )


@pytest.mark.usefixtures("own_copy")
def test_hashes_that_were_changed_are_refused_with_the_call_that_mends_them() -> None:
    r = Path("results") / small_project.SCALE
    flip(r / "data/corpora/alt/images.safetensors")
    with pytest.raises(UserError, match=r"images\.safetensors.*--forcerun results/golden/data/corpora/alt/index\.json"):
        small_project.do_jobs(small_project.plan((0, 1)), ["data/overlaps/alt/probes/shape"])


@pytest.mark.parametrize("same", [True, False])
def test_init_warns_of_test_images_that_are_captioned(
    same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_data.parameters(tmp_path)
    _data(tmp_path / "data")
    own_data.classes(tmp_path / "data/birds")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MDC_DATA", raising=False)
    monkeypatch.setattr(estimate, "training_seconds", lambda *_: (600.0, "CPU"))
    assert main(["init", "petcaps", "caps", "--probe", "pets" if same else "birds"]) == 0
    assert (f"{TESTED} of {TESTED + OTHERS} test images" in capsys.readouterr().out) == same


def test_init_tells_the_training_split_of_the_data_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A picture that is in both splits is trained on."""
    own_data.parameters(tmp_path)
    _data(tmp_path / "data")
    shutil.copy(tmp_path / "data/caps/p000.jpg", tmp_path / "data/caps/q000.jpg")
    rows = [(f"p{number:03d}.jpg", "a pet", "val" if number < 6 else "train") for number in range(PHOTOS)]
    own_data.table(
        tmp_path / "data/caps/captions.csv", [*rows, ("q000.jpg", "a pet", "train")], ("image", "caption", "split")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MDC_DATA", raising=False)
    monkeypatch.setattr(estimate, "training_seconds", lambda *_: (600.0, "CPU"))
    assert main(["init", "petcaps", "caps", "--probe", "pets"]) == 0
    warning = next(line for line in capsys.readouterr().out.splitlines() if "warning" in line)
    assert [int(word) for word in re.findall(r"\d+", warning)] == [TESTED, TESTED + OTHERS, TESTED - 5]


def test_init_compares_the_bytes_of_all_files_and_tells_the_training_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_data.parameters(tmp_path)
    for number in range(1300):  # small ones are found by their bytes alone
        draw = np.random.default_rng(number).integers(0, 256, (9, 9, 3), np.uint8)
        split = "test" if number % 4 == 0 else "train"
        for place in (f"caps/p{number:04d}.png", f"pets/{split}/{'cat' if number % 8 < 4 else 'dog'}/{number:04d}.png"):
            (tmp_path / "data" / place).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(draw).save(tmp_path / "data" / place)
    own_data.table(tmp_path / "data/caps/captions.csv", [(f"p{number:04d}.png", "a pet") for number in range(1300)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MDC_DATA", raising=False)
    monkeypatch.setattr(estimate, "training_seconds", lambda *_: (600.0, "CPU"))
    assert main(["init", "petcaps", "caps", "--probe", "pets"]) == 0
    fraction = read_yaml("scales/petcaps.yaml")["data"]["corpora"]["petcaps"]["source"]["val_fraction"]
    trained = sum(not held_out(f"p{number:04d}.png", fraction) for number in range(0, 1300, 4))
    warning = next(line for line in capsys.readouterr().out.splitlines() if "warning" in line)
    assert 0 < trained < 325 and [int(word) for word in re.findall(r"\d+", warning)] == [325, 325, trained]
