"""Datasets as the Hugging Face hub's parquet copies lay them out, for those who have these instead of the archives."""

from pathlib import Path

import pytest
from data_samples import encoded, write_parquet, write_probe
from read_table import read_table

from mdc.plan.config.kinds.sources import ParquetProbe

# the source as params.yaml would have it; the folder in it, file names by split
LAYOUTS = read_table(__file__, "layouts")


@pytest.mark.parametrize("name", LAYOUTS)
def test_probe_set(name: str, tmp_path: Path) -> None:
    keys, inner, files = LAYOUTS[name]
    source = ParquetProbe.model_validate({"kind": "parquet", "path": name, "split_column": None, **keys}).complete()
    image, label, folder = source["image_column"], source["label_column"], tmp_path / name / inner
    for number, file in enumerate(files.values()):
        rows = 6 - 2 * number
        images = [{"bytes": encoded(10 * number + i), "path": f"{i}.png"} for i in range(rows)]
        columns = {image: images, label: [i % 3 for i in range(rows)]}
        if name == "cifar100":
            columns["coarse_label"] = [0] * rows
        folder.mkdir(parents=True, exist_ok=True)
        write_parquet(folder / f"{file}.parquet", columns)
    if name == "imagenet1k":  # its test split has no labels
        hidden = {image: [{"bytes": encoded(99), "path": "x.png"}], label: [-1]}
        write_parquet(folder / "test-00000-of-00001.parquet", hidden)
    index = write_probe(name, source, tmp_path / "out", tmp_path)
    assert {split: index["splits"][split]["samples"] for split in ("train", "test")} == {"train": 6, "test": 4}
    assert len(index["classes"]) == 3
