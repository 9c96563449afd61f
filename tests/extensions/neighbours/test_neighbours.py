"""The methods of the paper's neighbours through every verb: trained, probed, scored, measured by position, shown."""

from pathlib import Path
from typing import Any

import pytest
import small_project
from PIL import Image
from scale_files import write_params
from shown import read_rows

import mdc
from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import read_json

AS_ARC = ["cappa", "bicaptioning", "arc_half"]
AS_MDC = ["mdc_complementary", "mdc_dropped", "mdc_timed"]
METHODS = ["superclass", *AS_ARC, "mdc_complementary_half", *AS_MDC]


def _values() -> dict[str, Any]:
    found = small_project.values()
    for block in ("tokenizers", "encoders", "encode"):
        del found[block]
    backbone = found["pretrain"]["backbones"]["ViT-T-12"]
    found["pretrain"] |= {
        "backbones": {"ViT-T-12": {**backbone, "decoder": {**backbone["decoder"], "layers": 2}}},
        "overrides": [],
    }
    found["pretrain"]["recipe"] |= {"epochs": 2}
    found["data"]["vocabularies"] = {"words": ["alt", "described", "relation", "order"]}
    del found["data"]["corpora"]["half"]
    write = {"unmask": {"kind": "unmask", "lengths": [4]}, "beam": {"kind": "beam", "num_beams": 2, "max_tokens": 6}}
    systems = {
        name: {
            "label": name,
            "method": name,
            "weights": "last",
            "decode": write["beam" if name in AS_ARC else "unmask"],
        }
        for name in ("cappa", "bicaptioning", "mdc_complementary", "mdc_timed", "mdc_dropped")
    }
    images = {"label": "D", "corpus": "described", "images": 8, "pretrained": "alt", "training": "described"}
    found["captions"] |= {
        "finetunings": {},
        "datasets": {"described": {**images, "tuned": {"plain": None}, "skip_metrics": ["METEOR", "SPICE"]}},
        "systems": systems,
        "clip_score": None,
        "guide": None,
        "judge": None,
    }
    found["tables"] = {
        "table1": {
            "corpora": {"alt": METHODS},
            "backbones": ["ViT-T-12"],
            "probes": ["shape"],
            "contrasts": [["cappa", "superclass"]],
        },
        "table2": {
            "corpora": {"alt": METHODS},
            "backbones": ["ViT-T-12"],
            "columns": {
                "order": {"label": "Order", "sets": ["order"]},
                "relation": {"label": "R", "sets": ["relation"]},
            },
            "language_prior_weights": [0.0, 1.0],
        },
        "table_retrieval": {"corpora": {"alt": ["superclass", "cappa"]}, "backbones": ["ViT-T-12"], "pairs": 10},
        "figure_position": {
            **found["tables"]["figure_position"],
            "corpora": {"alt": [*AS_ARC, *AS_MDC]},
            "backbones": ["ViT-T-12"],
            "reference": "cappa",
            "primary": ["alt/mdc_timed"],
        },
        "table3": {"datasets": ["described"], "systems": list(systems)},
        "figure_loss": {},
    }
    return found


@pytest.fixture(scope="module")
def r(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scale's folder, with every job done."""
    root, values = tmp_path_factory.mktemp("neighbours"), _values()
    write_params(root, values)
    small_project.do_jobs(Plan(validate(values)), root=root)
    return root / "results" / small_project.SCALE


def test_a_run_of_each_learns_and_is_probed(r: Path) -> None:
    for name in METHODS:
        run = read_json(r / f"runs/alt/ViT-T-12/{name}/s0/run.json")
        assert run["steps"] == (4 if name == "mdc_complementary_half" else 8), name
        assert 0 < run["validation_loss"] < 10, name
        assert (r / f"probe/alt/ViT-T-12/{name}/s0/probe.json").is_file()


def test_superclass_is_called_a_bag_of_words_and_ties_where_only_the_order_differs(r: Path) -> None:
    rows = [row for row in read_rows(r / "table2/table2.csv") if row["method"].startswith("SuperClass")]
    assert rows and all(row["method"].startswith("SuperClass (bag of words)") for row in rows)
    # of five and of two options with the same words
    assert {(row["Order"], row["R"]) for row in rows} == {("20.0", "50.0")}


def test_superclass_classifies_by_its_set_of_words_and_has_no_probabilities(r: Path) -> None:
    model, image = mdc.load(r / "runs/alt/ViT-T-12/superclass/s0"), Image.new("RGB", (48, 48), "red")
    found = model.classify(image, ["red", "blue"], "a {class}")
    scores = [one.score for one in model.score(image, ["a red", "a blue"])]
    assert [*found.scores.values()] == pytest.approx(scores, abs=1e-5)
    assert found.label == ("red" if scores[0] > scores[1] else "blue") and found.probabilities is None
