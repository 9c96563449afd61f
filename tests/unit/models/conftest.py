"""Sets that several files of this folder read."""

from __future__ import annotations

from pathlib import Path

import pytest
from data_samples import use_scenes, write_probe


@pytest.fixture(scope="package")
def probe_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of 70 images to train on and 23 to test on, in shards of 16."""
    path = tmp_path_factory.mktemp("probe_set")
    with pytest.MonkeyPatch.context() as patch:
        use_scenes(patch)
        source = {"kind": "scenes", "task": "colour", "train": 70, "test": 23, "seed": 3, "pixels": 12}
        write_probe("colour", source, path / "colour", path, samples_per_shard=16)
    return path / "colour/index.json"
