"""The probe job: features cached by content, records that name what they are of, and refusals in one line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import toy
from PIL import Image

from mdc.evaluation.probe import probe
from mdc.models.build import build_model
from mdc.predictors import Predictor
from mdc.records import UserError, sha256_file, sha256_json, write_json
from mdc.shards.writer import write_probe
from mdc.training.checkpoint import WEIGHTS_FORMAT, save_weights


def _png(rng: np.random.Generator, bright: int) -> bytes:
    pixels = rng.integers(0, 100, (16, 16, 3)) + bright
    stream = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(stream, "png")
    return stream.getvalue()


@pytest.fixture
def sets(tmp_path: Path) -> list[Path]:
    """Bright against dark images, an easy question."""
    rng = np.random.default_rng(0)
    labels = [i % 2 for i in range(120)]
    table = pa.table(
        {
            "image": [_png(rng, 120 * label) for label in labels],
            "label": labels,
            "split": ["train"] * 80 + ["test"] * 40,
        }
    )
    pq.write_table(table, tmp_path / "light.parquet")
    source = {"kind": "parquet", "path": "light.parquet", "split_column": "split", "label_column": "label"}
    source |= {"image_column": "image", "splits": {"train": "train", "test": "test"}}
    write_probe("light", source, tmp_path / "light", tmp_path)
    return [tmp_path / "light/index.json"]


def _config(**changes: Any) -> dict[str, Any]:
    settings = {
        "lr": 0.1,
        "epochs": 5,
        "batch_size": 16,
        "seed": 0,
        "feature_batch": 32,
        "precision": "fp32",
        "threads": 1,
        "device": "cpu",
        "bootstrap": 200,
    }
    return {
        "job": "probe/untrained/toy/patch_mean/s0",
        "scale": "toy",
        "fingerprint": "f",
        "probes": ["light"],
        "recipe": settings,
        "protocol": {"normalise": False, "weight_decay": 0.0, "validation_split": "none"},
        "backbone_name": "toy",
        "backbone": toy.BACKBONE.model_dump(mode="json", exclude={"label"}),
        "seed": 0,
        "corpus": None,
        "method_name": "untrained",
        "pooling": "patch_mean",
        **changes,
    }


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images were encoded, call by call."""
    made: list[int] = []
    encode = Predictor.encode

    def counted(self: Predictor, images: torch.Tensor) -> torch.Tensor:
        made.append(len(images))
        return encode(self, images)

    monkeypatch.setattr(Predictor, "encode", counted)
    return made


def _run_folder(folder: Path, config_sha256: str, seed: int = 0) -> Path:
    folder.mkdir()
    model = build_model(toy.METHODS["mdc"], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed)
    save_weights(folder / "checkpoint.safetensors", model, {"format": WEIGHTS_FORMAT})
    checkpoint = {"file": "checkpoint.safetensors", "sha256": sha256_file(folder / "checkpoint.safetensors")}
    training = {"pairs": 96, "steps": 6, "samples_seen": 96}
    write_json(folder / "run.json", {"config_sha256": config_sha256, "checkpoint": checkpoint, **training})
    return folder / "run.json"


def test_record_and_items(sets: list[Path], tmp_path: Path) -> None:
    config = _config()
    probe(config, sets, None, tmp_path / "cache", tmp_path / "out")
    record = json.loads((tmp_path / "out/probe.json").read_text())
    assert record["config_sha256"] == sha256_json(config)
    result = record["probes"]["light"]
    rows = pq.read_table(tmp_path / "out/items.parquet").to_pylist()
    assert result["n"] == len(rows) == 40 and result["chance"] == 50.0
    assert result["value"] == pytest.approx(100 * np.mean([row["value"] for row in rows]))
    assert result["low"] <= result["value"] <= result["high"]
    assert result["value"] > 90, "brightness is easy to read from any encoder"
    assert record["items"]["sha256"] == sha256_file(tmp_path / "out/items.parquet")
    before = (tmp_path / "out/probe.json").read_bytes(), (tmp_path / "out/items.parquet").read_bytes()
    probe(config, sets, None, tmp_path / "other_cache", tmp_path / "again")
    assert before == ((tmp_path / "again/probe.json").read_bytes(), (tmp_path / "again/items.parquet").read_bytes())


def test_features_are_cached_by_content(sets: list[Path], tmp_path: Path, calls: list[int]) -> None:
    cache = tmp_path / "cache"
    probe(_config(), sets, None, cache, tmp_path / "out")
    assert sum(calls) == 120
    calls.clear()
    changed = _config()
    changed["recipe"] = {**changed["recipe"], "lr": 0.2}
    probe(changed, sets, None, cache, tmp_path / "out")
    assert calls == [], "another probe on the same features computes none"
    probe(_config(pooling="cls"), sets, None, cache, tmp_path / "out")
    assert sum(calls) == 120, "another pooling is another feature"
    calls.clear()
    probe(_config(seed=1), sets, None, cache, tmp_path / "out")
    assert sum(calls) == 120, "other weights are other features"
    calls.clear()
    for path in cache.rglob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:100])
    probe(_config(), sets, None, cache, tmp_path / "out")
    assert sum(calls) == 120, "a damaged file is made again"


def test_trained_encoder_is_its_checkpoint(sets: list[Path], tmp_path: Path) -> None:
    run = _run_folder(tmp_path / "run", "config", seed=1)
    config = _config(method_name="mdc", run_config_sha256="config", seed=1)
    probe(config, sets, run, tmp_path / "cache", tmp_path / "trained")
    # these weights were never trained, so they are the control's of that seed
    probe(_config(seed=1), sets, None, tmp_path / "cache", tmp_path / "control")
    assert (tmp_path / "trained/items.parquet").read_bytes() == (tmp_path / "control/items.parquet").read_bytes()
    record = json.loads((tmp_path / "trained/probe.json").read_text())
    assert record["run_sha256"] == sha256_file(run)
    assert record["training"] == {"pairs": 96, "steps": 6, "samples_seen": 96}
    assert json.loads((tmp_path / "control/probe.json").read_text())["training"] is None


def test_refusals(sets: list[Path], tmp_path: Path) -> None:
    config = _config(method_name="mdc", run_config_sha256="expected")
    with pytest.raises(UserError, match="--run is missing"):
        probe(config, sets, None, tmp_path / "c", tmp_path / "o")
    run = _run_folder(tmp_path / "stale", "another")
    with pytest.raises(UserError, match="another configuration"):
        probe(config, sets, run, tmp_path / "c", tmp_path / "o")
    run = _run_folder(tmp_path / "swapped", "expected")
    other = _run_folder(tmp_path / "other", "expected", seed=9)
    (other.parent / "checkpoint.safetensors").replace(run.parent / "checkpoint.safetensors")
    with pytest.raises(UserError, match="sha256 differs"):
        probe(config, sets, run, tmp_path / "c", tmp_path / "o")
    run = _run_folder(tmp_path / "older", "expected")
    run.write_text(run.read_text().replace('"pairs"', '"samples"'))
    with pytest.raises(UserError, match=r"run.json: lacks pairs; train the run again"):
        probe(config, sets, run, tmp_path / "c", tmp_path / "o")
    with pytest.raises(UserError, match="no image set for probe 'dark'"):
        probe(_config(probes=["dark"]), sets, None, tmp_path / "c", tmp_path / "o")
    assert not (tmp_path / "o/probe.json").exists()
