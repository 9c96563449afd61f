"""The probe's job computes what its configuration says: every value of the recipe, none in another's place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import toy
from calls import Call
from data_samples import encoded

from mdc.config import Probe, ProtocolProbe
from mdc.evaluation.linear_probe import ProbeRecipe, predict, train_linear_probe
from mdc.evaluation.probe import main
from mdc.formats.samples import RawSample, Skipped
from mdc.jobs.model import ProbeJob
from mdc.loader.labelled import labelled_batches
from mdc.predictors.encode import ImageEncoder, untrained_encoder
from mdc.shards.probe_set import write_probe
from mdc.sources.source import Source

CPU = torch.device("cpu")
#: no two values alike, and none a default
RECIPE: dict[str, Any] = {"lr": 0.04, "epochs": 3, "batch_size": 7, "seed": 5, "fused": True}
PROTOCOL: dict[str, Any] = {"normalise": True, "weight_decay": 0.6}
OTHER = {"lr": 0.05, "epochs": 2, "batch_size": 6, "seed": 6, "normalise": False, "weight_decay": 0.5, "fused": False}


class _Noise(Source[RawSample]):
    """Noise with three labels an image: of several labels the scores themselves are written down."""

    task = "multi"

    def __init__(self) -> None:
        super().__init__({"kind": "noise"})
        self.classes = ["a", "b", "c"]

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        for n in range(20):
            labels = tuple(int(bit) for bit in np.random.default_rng([n, len(split)]).integers(0, 2, 3))
            yield RawSample(f"{split}{n:02}", encoded(n + 100 * len(split)), "png", labels=labels)


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noise")
    write_probe("light", _Noise(), folder)
    return folder / "index.json"


def _job(values: dict[str, Any], seed: int = 3, pooling: str = "cls") -> ProbeJob:
    recipe = {"feature_batch": 9, "precision": "fp32", "threads": 1, "device": "cpu"}
    recipe |= {key: values[key] for key in RECIPE}
    protocol = {key: values[key] for key in PROTOCOL}
    return toy.probe_job(recipe=Probe(**recipe), protocol=ProtocolProbe(**protocol), seed=seed, pooling=pooling)


def _scores(job: ProbeJob, noise: Path, folder: Path) -> np.ndarray:
    main(Call(job, folder / "out", {"data/probes/light": noise}, cache=folder / "cache"))
    return np.array(pq.read_table(folder / "out/items.parquet")["scores"].to_pylist(), dtype=np.float32)


def _expected(job: ProbeJob, values: dict[str, Any], noise: Path) -> np.ndarray:
    """The scores without the job: features by the encoder, and one call of the probe."""
    encoder = ImageEncoder(untrained_encoder(job.backbone, job.seed), job.pooling, "fp32", CPU)
    (train, labels), (test, _) = (_features(noise, name, encoder) for name in ("train", "test"))
    names = {key: values[key] for key in ("lr", "epochs", "batch_size", "weight_decay", "fused")}
    recipe = ProbeRecipe(**names, normalize=values["normalise"])
    head = train_linear_probe(train, labels, 3, recipe, seed=values["seed"])
    return predict(head, test).numpy()


def _features(noise: Path, split: str, encoder: ImageEncoder) -> tuple[torch.Tensor, torch.Tensor]:
    batches = list(labelled_batches(noise, split, image_size=16, batch_size=9))
    return torch.cat([encoder.encode(one.images) for one in batches]), torch.cat([one.labels for one in batches])


@pytest.mark.parametrize("changed", [None, *OTHER])
def test_every_value_of_the_recipe_decides_the_probe(changed: str | None, noise: Path, tmp_path: Path) -> None:
    values = RECIPE | PROTOCOL
    if changed is not None:
        values |= {changed: OTHER[changed]}
    job = _job(values)
    found = _scores(job, noise, tmp_path)
    assert np.array_equal(found, _expected(job, values, noise))
    if changed is not None:
        before = _expected(job, RECIPE | PROTOCOL, noise)
        assert not np.array_equal(found, before), f"{changed} changes nothing here, so this test cannot see it"


def test_which_encoder_and_pooling_decide_the_probe(noise: Path, tmp_path: Path) -> None:
    values = RECIPE | PROTOCOL
    jobs = [_job(values), _job(values, seed=4), _job(values, pooling="patch_mean")]
    found = [_scores(job, noise, tmp_path) for job in jobs]
    for job, scores in zip(jobs, found, strict=True):
        assert np.array_equal(scores, _expected(job, values, noise))
    assert len({scores.tobytes() for scores in found}) == 3
