"""The probe job: features cached by content, records that name what they are of, refusals, and every value of its recipe."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
import toy
from data_samples import encoded, write_parquet, write_probe

from mdc.data.formats.images import png
from mdc.data.formats.samples import RawSample, Skipped
from mdc.data.loader.labelled import labelled_batches
from mdc.data.shards import probe_set_job
from mdc.data.sources.source import Source
from mdc.evaluation.linear_probe import ProbeRecipe, train_linear_probe
from mdc.evaluation.predictors.encode import ImageEncoder
from mdc.evaluation.probe import main
from mdc.extensions.neighbours.kinds import Neighbours
from mdc.models.encoder import build_encoder
from mdc.models.weights import WEIGHTS_FORMAT, save_weights
from mdc.plan.config.kinds.heads import Attentive, Probe
from mdc.plan.config.kinds.known import HEADS
from mdc.plan.config.params import ProtocolProbe
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.model import ProbeJob
from mdc.plan.records import UserError, sha256_file, write_json

LIGHT, RUN = "data/probes/light", "runs/toy/toy/mdc/s0"


@pytest.fixture
def light(tmp_path: Path) -> ScaleFolder:
    """Bright against dark images, an easy question."""
    rng = np.random.default_rng(0)
    labels = [i % 2 for i in range(120)]
    pixels = [rng.integers(0, 100, (16, 16, 3)) + 120 * label for label in labels]
    images, splits = [png(one.astype(np.uint8)) for one in pixels], ["train"] * 80 + ["test"] * 40
    write_parquet(tmp_path / "light.parquet", {"image": images, "label": labels, "split": splits})
    source = {"kind": "parquet", "path": "light.parquet", "split_column": "split", "label_column": "label"}
    source |= {"image_column": "image", "splits": {"train": "train", "test": "test"}}
    write_probe("light", source, tmp_path / LIGHT, tmp_path)
    return ScaleFolder(tmp_path)


def probe(job: ProbeJob, light: ScaleFolder, cache: Path, out: Path) -> dict[str, Any]:
    """The record."""
    main(Call(job, light, out, cache=cache))
    record: dict[str, Any] = json.loads((out / "probe.json").read_text())
    return record


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images were encoded, call by call."""
    made: list[int] = []
    encode = ImageEncoder.encode

    def counted(self: ImageEncoder, images: torch.Tensor) -> torch.Tensor:
        made.append(len(images))
        return encode(self, images)

    monkeypatch.setattr(ImageEncoder, "encode", counted)
    return made


def _run_folder(folder: Path, config_sha256: str, seed: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    model = toy.build_model(toy.METHODS["mdc"], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed)
    save_weights(folder / "checkpoint.safetensors", model, {"format": WEIGHTS_FORMAT})
    outputs = {"checkpoint.safetensors": sha256_file(folder / "checkpoint.safetensors")}
    training = {"pairs": 96, "steps": 6, "samples_seen": 96}
    write_json(folder / "run.json", {"config_sha256": config_sha256, "outputs": outputs, **training})
    return folder / "run.json"


KNN = Neighbours(label="", kind="knn", k=5, temperature=0.07)
ATTENTIVE = Attentive(label="", kind="attentive", lr=[1e-3, 1e-2], epochs=5, batch_size=16, held_out=0.1)


@pytest.mark.parametrize("head", [None, KNN, ATTENTIVE], ids=["linear", "knn", "attentive"])
def test_record_and_items(head: Any, light: ScaleFolder, tmp_path: Path) -> None:
    job = toy.probe_job(head=head)
    assert ProbeJob.model_validate(json.loads(json.dumps(job.config()))) == job, "it is read as it was written"
    record = probe(job, light, tmp_path / "cache", tmp_path / "out")
    assert record["kind"] == "probe" and record["id"] == job.job and record["config"]["scale"] == "toy"
    assert record["config"] == job.config() and record["config_sha256"] == job.sha256
    assert record["inputs"] == {LIGHT: sha256_file(light.manifest(LIGHT, "probe-set"))}
    assert record["outputs"] == {"items.parquet": sha256_file(tmp_path / "out/items.parquet")}
    result = record["probes"]["light"]
    rows = pq.read_table(tmp_path / "out/items.parquet").to_pylist()
    assert result["n"] == len(rows) == 40 and result["chance"] == 50.0 and result["train"] == 80
    assert result["value"] == pytest.approx(100 * np.mean([row["value"] for row in rows]))
    assert result["value"] > 90, "brightness is easy to read from any encoder"
    before = (tmp_path / "out/probe.json").read_bytes(), (tmp_path / "out/items.parquet").read_bytes()
    probe(job, light, tmp_path / "other_cache", tmp_path / "again")
    assert before == ((tmp_path / "again/probe.json").read_bytes(), (tmp_path / "again/items.parquet").read_bytes())
    if head is ATTENTIVE:
        patches = (toy.BACKBONE.image_size // toy.BACKBONE.patch_size) ** 2
        assert result["lr"] in head.lr and len(result["held_out"]) == 2
        assert result["token_bytes_per_image"] == 2 * (1 + patches) * toy.BACKBONE.width


def test_features_are_cached_by_content(
    light: ScaleFolder, tmp_path: Path, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, out = tmp_path / "cache", tmp_path / "out"
    probe(toy.probe_job(), light, cache, out)
    assert sum(calls) == 120
    calls.clear()
    probe(toy.probe_job(lr=0.2), light, cache, out)
    assert calls == [], "another probe on the same features computes none"
    probe(toy.probe_job(head=KNN, fingerprint="g"), light, cache, out)
    assert calls == [], "… and none that has another head"
    for changes in ({"pooling": "cls"}, {"seed": 1}, {"head": ATTENTIVE}):
        probe(toy.probe_job(**changes), light, cache, out)
        assert sum(calls) == 120, f"{changes} gives other features"
        calls.clear()
    with monkeypatch.context() as patch:
        patch.setattr("mdc.evaluation.probe.fingerprint", lambda *modules: "other code")
        probe(toy.probe_job(), light, cache, out)
        assert sum(calls) == 120, "other code gives other features"
        calls.clear()
    for path in cache.rglob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:100])
    probe(toy.probe_job(), light, cache, out)
    assert sum(calls) == 120, "a damaged file is rebuilt"


def test_tokens_are_those_of_the_encoder_in_half_precision() -> None:
    encoder = build_encoder(toy.BACKBONE, 3)
    images = torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    found = ImageEncoder(encoder, "tokens", "fp32", torch.device("cpu")).encode(images)
    with torch.no_grad():
        cls, patches = encoder(encoder.prepared(images))
    assert (
        found.dtype == torch.float16
        and torch.equal(found[:, 0], cls.half())
        and torch.equal(found[:, 1:], patches.half())
    )


def test_what_a_head_cannot_do(light: ScaleFolder, tmp_path: Path) -> None:
    few = toy.probe_job(head=KNN.model_copy(update={"k": 81}))
    with pytest.raises(UserError, match=r"^probe light: 80 training items, fewer than k = 81 neighbours"):
        probe(few, light, tmp_path / "c", tmp_path / "o")
    one = toy.BACKBONE.model_copy(update={"patch_size": toy.BACKBONE.image_size})
    with pytest.raises(UserError, match="toy gives no patch tokens, which an attentive probe attends to"):
        probe(toy.probe_job(head=ATTENTIVE, backbone=one), light, tmp_path / "c", tmp_path / "o")
    write_json(tmp_path / "runtime.json", {"cache_gb": 1e-6})
    call = Call(toy.probe_job(head=ATTENTIVE), light, tmp_path / "o", cache=tmp_path / "c")
    with pytest.raises(
        UserError, match=r"probe light: its tokens take .* bytes an image\), more than probe.runtime.cache_gb = "
    ):
        main(replace(call, runtime=tmp_path / "runtime.json"))


def test_trained_encoder_is_its_checkpoint(light: ScaleFolder, tmp_path: Path) -> None:
    run = _run_folder(tmp_path / RUN, "config", seed=1)
    job = toy.probe_job(run=RUN, run_config_sha256="config", seed=1)
    trained = probe(job, light, tmp_path / "cache", tmp_path / "trained")
    # these weights were never trained, so they are the control's of that seed
    control = probe(toy.probe_job(seed=1), light, tmp_path / "cache", tmp_path / "control")
    assert (tmp_path / "trained/items.parquet").read_bytes() == (tmp_path / "control/items.parquet").read_bytes()
    assert trained["inputs"] == {LIGHT: sha256_file(light.manifest(LIGHT, "probe-set")), RUN: sha256_file(run)}
    assert "initial_weights_sha256" not in trained and len(control["initial_weights_sha256"]) == 64
    assert trained["training"] == {"pairs": 96, "steps": 6, "samples_seen": 96} and control["training"] is None


def test_a_snapshot_is_probed_in_the_place_of_the_last_weights(light: ScaleFolder, tmp_path: Path) -> None:
    run = _run_folder(tmp_path / RUN, "config", seed=1)
    early = _run_folder(tmp_path / "early", "config", seed=2).with_name("checkpoint.safetensors")
    early.rename(run.with_name("snapshot-00000002.safetensors"))  # after a quarter of six steps, rounded
    outputs = {path.name: sha256_file(path) for path in run.parent.glob("*.safetensors")}
    write_json(run, {**json.loads(run.read_text()), "outputs": outputs})
    job = toy.probe_job(run=RUN, run_config_sha256="config", seed=1, snapshot=0.25)
    found = probe(job, light, tmp_path / "cache", tmp_path / "snapshot")
    probe(toy.probe_job(seed=2), light, tmp_path / "cache", tmp_path / "control")
    assert (tmp_path / "snapshot/items.parquet").read_bytes() == (tmp_path / "control/items.parquet").read_bytes()
    assert found["training"] == {"pairs": 96, "steps": 2, "samples_seen": 32}
    with pytest.raises(UserError, match=r"run.json: .* name no snapshot-00000003"):
        probe(job.model_copy(update={"snapshot": 0.5}), light, tmp_path / "cache", tmp_path / "out")


def test_refusals(light: ScaleFolder, tmp_path: Path) -> None:
    job = toy.probe_job(run=RUN, run_config_sha256="expected")
    cache, out = tmp_path / "c", tmp_path / "o"
    _run_folder(tmp_path / RUN, "another")
    with pytest.raises(UserError, match="another configuration"):
        probe(job, light, cache, out)
    run = _run_folder(tmp_path / RUN, "expected")
    other = _run_folder(tmp_path / "other", "expected", seed=9)
    (other.parent / "checkpoint.safetensors").replace(run.parent / "checkpoint.safetensors")
    with pytest.raises(UserError, match="sha256 differs"):
        probe(job, light, cache, out)
    run = _run_folder(tmp_path / RUN, "expected")
    run.write_text(run.read_text().replace('"pairs"', '"samples"'))
    with pytest.raises(UserError, match=r"run.json: lacks pairs"):
        probe(job, light, cache, out)
    assert not (out / "probe.json").exists()


# --- every value of the recipe, none in another's place ----------------------------------------------------------------

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
    probe_set_job.write_probe("light", _Noise(), folder / LIGHT)
    return folder


def _job(values: dict[str, Any], seed: int = 3, pooling: str = "cls") -> ProbeJob:
    recipe = {"feature_batch": 9, "precision": "fp32", "threads": 1, "device": "cpu"}
    recipe |= {key: values[key] for key in RECIPE}
    protocol = {key: values[key] for key in PROTOCOL}
    return toy.probe_job(recipe=Probe(**recipe), protocol=ProtocolProbe(**protocol), seed=seed, pooling=pooling)


def _scores(job: ProbeJob, noise: Path, folder: Path) -> np.ndarray:
    main(Call(job, ScaleFolder(noise), folder / "out", cache=folder / "cache"))
    return np.array(pq.read_table(folder / "out/items.parquet")["scores"].to_pylist(), dtype=np.float32)


def _expected(job: ProbeJob, values: dict[str, Any], noise: Path) -> np.ndarray:
    """The scores without the job: features by the encoder, one training of the probe, and its layer."""
    encoder = ImageEncoder(build_encoder(job.backbone, job.seed), job.pooling, "fp32", torch.device("cpu"))
    train, test = (
        list(labelled_batches(noise / LIGHT, name, image_size=16, batch_size=20)) for name in ("train", "test")
    )
    names = {key: values[key] for key in ("lr", "epochs", "batch_size", "weight_decay", "fused")}
    recipe = ProbeRecipe(**names, normalize=values["normalise"])
    head = train_linear_probe(encoder.encode(train[0].images), train[0].labels, 3, recipe, seed=values["seed"])
    rows = encoder.encode(test[0].images)
    rows = F.normalize(rows, dim=-1) if values["normalise"] else rows
    return torch.addmm(head.bias, rows, head.weight.t()).numpy()


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


def test_a_head_says_the_same_while_planning_as_its_module() -> None:
    assert len(HEADS) > 1 and all(one.load().TOKENS is one.reads_tokens for one in HEADS.values())
