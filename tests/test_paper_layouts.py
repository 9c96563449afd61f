"""The paper's probe sets as the Hugging Face hub's parquet copies lay them out, through scale paper's own entries."""

from __future__ import annotations

from pathlib import Path

import pytest
from data_samples import encoded, write_parquet

from mdc.config import load
from mdc.data.shard_writer import write_corpus, write_probe
from mdc.jobs import corpus_config, probe_set_config

PARAMS = load(Path(__file__).resolve().parent.parent / "params.yaml", "paper")

# folder, image column, label column, file names by split, and a split without labels if the hub has one
LAYOUTS = {
    "imagenet1k": (
        "imagenet-1k/data",
        "image",
        "label",
        {"train": "train-00000-of-00001", "test": "validation-00000-of-00001"},
    ),
    "food101": (
        "food101/data",
        "image",
        "label",
        {"train": "train-00000-of-00001", "test": "validation-00000-of-00001"},
    ),
    "cifar10": ("cifar10/plain_text", "img", "label", {"train": "train-00000-of-00001", "test": "test-00000-of-00001"}),
    "cifar100": (
        "cifar100/cifar100",
        "img",
        "fine_label",
        {"train": "train-00000-of-00001", "test": "test-00000-of-00001"},
    ),
    "pets": ("pets/data", "image", "label", {"train": "train-00000-of-00001", "test": "test-00000-of-00001"}),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_probe_set(name: str, tmp_path: Path) -> None:
    folder, image, label, files = LAYOUTS[name]
    for number, file in enumerate(files.values()):
        rows = 6 - 2 * number
        images = [{"bytes": encoded(10 * number + i), "path": f"{i}.png"} for i in range(rows)]
        columns = {image: images, label: [i % 3 for i in range(rows)]}
        if name == "cifar100":
            columns["coarse_label"] = [0] * rows
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        write_parquet(tmp_path / folder / f"{file}.parquet", columns)
    if name == "imagenet1k":  # its test split has no labels
        hidden = {image: [{"bytes": encoded(99), "path": "x.png"}], label: [-1]}
        write_parquet(tmp_path / folder / "test-00000-of-00001.parquet", hidden)
    config = probe_set_config(PARAMS, name)
    index = write_probe(name, config["source"], tmp_path / "out", tmp_path)
    assert {split: index["splits"][split]["samples"] for split in ("train", "test")} == {"train": 6, "test": 4}
    assert len(index["classes"]) == 3


@pytest.mark.parametrize("name", ["cc12m", "recap10m"])
def test_corpus(name: str, tmp_path: Path) -> None:
    config = corpus_config(PARAMS, name)
    folder = tmp_path / config["source"]["path"]
    folder.mkdir()
    for part in range(2):
        columns = {
            "image": [encoded(10 * part + i) for i in range(3)],
            "caption": [f"a photo {part} {i}" for i in range(3)],
        }
        write_parquet(folder / f"{part:05d}.parquet", columns)
    index = write_corpus(name, config["source"], tmp_path / "out", tmp_path)
    assert index["splits"]["train"]["samples"] == 6
