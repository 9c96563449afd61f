"""Test images that were trained on are found at other sizes and qualities, counted where shown, and said by `mdc init`."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import own_data
import pytest
import small_project
from PIL import Image
from scale_files import write_params
from scale_plans import plan_of

from mdc.app.cli import main
from mdc.app.init import estimate
from mdc.data.shards.image_hashes import read_hashes
from mdc.data.shards.index import ShardReader
from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.report.seen import unknown

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
    for section in ("tokenizers", "encoders", "encode", "finetune", "mc_diffusion", "claims", "caption", "score"):
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
    scenes = ShardReader(r / "data/corpora/scenes", "train")
    assert not read_hashes(r / "data/corpora/scenes", scenes.index, "train")[1].any(), "compared by their bytes alone"
    said = f"{expected} of {TESTED + OTHERS} test images of Pets were trained on (Captions)"
    assert said in (r / "table1/table1.md").read_text() and "of Shape were" not in (r / "table1/table1.md").read_text()
    assert main(["index", "--scale", small_project.SCALE]) == 0
    page = Path("results/index.html").read_text()
    claim = re.search(r"<strong>(.*?)</strong>", page)
    assert said in page and claim and f"Pets {expected} of {TESTED + OTHERS}" in claim[1]
    assert f"Pets {expected} of" in (r / "claims.csv").read_text()


def test_of_a_finetuned_run_both_corpora_count_and_of_models_of_others_it_is_unknown() -> None:
    jobs: dict[str, Any] = small_project.plan().jobs
    assert {(one.training, one.test, one.images) for one in jobs["table3"].seen} == {
        ("Alt-text", "Described", 8),
        ("Described", "Described", 8),
    }
    assert jobs["table_retrieval"].seen[0].job.endswith("/val")
    of_alt = next(one for one in jobs["table1"].seen if one.training == "Alt-text")
    assert {"alt/ViT-T-12/mdc", "frozen/clip"} <= set(of_alt.systems), "a frozen encoder of ours was trained on it, too"
    assert not jobs["table1"].unknown
    paper: Any = plan_of("paper").jobs["table3"]
    assert paper.unknown == ["CoCa"] and "CoCa" in unknown(paper)[0]


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
