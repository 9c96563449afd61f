"""On real files, where they are: what the protocol says about them holds."""

import os
from collections import Counter
from pathlib import Path

import pytest
from data_samples import write_corpus, write_probe

from mdc.data.formats.samples import Skipped
from mdc.data.sources.source import open_choices
from mdc.models.text import Vocabulary, clip_pieces
from mdc.plan.config.read import load
from mdc.plan.jobs.plan import Plan

ROOT = Path(__file__).resolve().parents[3]
DATA = Path(os.environ.get("MDC_DATA") or ROOT / "data")
FLICKR = DATA / "flickr8k.parquet"

needs_flickr = pytest.mark.skipif(
    not FLICKR.is_file(), reason="needs flickr8k.parquet in the folder that MDC_DATA names"
)


@pytest.mark.data
@needs_flickr
def test_flickr8k_corpora_are_the_protocols(tmp_path: Path) -> None:
    jobs = Plan(load(ROOT / "params.yaml", "flickr8k")).jobs
    found = {}
    for name in ("single", "dense"):
        config = jobs[f"data/corpora/{name}"].config()
        splits = tuple(config["source"]["splits"])
        found[name] = write_corpus(name, config["source"], tmp_path / name, DATA, splits=splits)
    for index in found.values():
        assert [index["splits"][s]["samples"] for s in ("train", "val", "test")] == [6000, 1000, 1000]
    assert found["single"]["captions"]["per_split"]["train"]["count"] == pytest.approx(30000, abs=5)
    assert found["dense"]["captions"]["per_split"]["train"]["count"] == 6000
    assert round(found["dense"]["captions"]["per_split"]["train"]["mean"]) == 61
    assert len(Vocabulary.corpus(*(i["pieces"] for i in found.values())).pieces or ()) == 8018


@pytest.mark.data
@needs_flickr
def test_flickr8k_nouns(tmp_path: Path) -> None:
    config = Plan(load(ROOT / "params.yaml", "flickr8k")).jobs["data/probes/nouns"].config()
    index = write_probe("nouns", config["source"], tmp_path, DATA)
    assert index["task"] == "multi" and len(index["classes"]) == 60
    assert {"dog", "man", "water"} <= set(index["classes"])
    assert [index["splits"][s]["samples"] for s in ("train", "test")] == [1000, 1000]
    assert all(min(counts) > 0 for counts in index["class_counts"].values())


@pytest.mark.data
@pytest.mark.skipif(
    not (DATA / "sugarcrepe_images.parquet").is_file(), reason="needs sugarcrepe_images.parquet in MDC_DATA"
)
def test_the_sets_of_flickr8k_long_are_as_many_as_was_counted() -> None:
    """415 items of 84 images in SugarCrepe's seven files, and one caption of each of COCO's 245; five options each."""
    jobs = Plan(load(ROOT / "params.yaml", "flickr8k-long")).jobs
    sources = {
        name.rpartition("/")[2]: jobs[name].config()["source"] for name in jobs if name.startswith("data/choices/")
    }
    found = {name: list(open_choices(source, DATA).samples("test", Skipped())) for name, source in sources.items()}
    crepe = [sample for name, samples in found.items() if name != "coco_order" for sample in samples]
    assert len(found) == 8 and len(crepe) == 415 and len({sample.image_name for sample in crepe}) == 84
    assert {len(sample.options) for sample in crepe} == {2}
    order = found["coco_order"]
    assert Counter(len(sample.options) for sample in order) == {5: 245}
    assert len({sample.image_name for sample in order}) == 245
    assert all(len(clip_pieces(option)) <= 75 for sample in [*crepe, *order] for option in sample.options)
