"""On real files, where they are: what the protocol says about them holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from data_samples import write_corpus, write_probe

from mdc.config import load
from mdc.jobs.plan import Plan
from mdc.text import Vocabulary

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
