"""The job ``mdc probe``: all linear probes of one encoder (paper, section 4.2 and appendix B).

Features are computed once per image set and encoder, a linear probe is trained on the training split with
CLIP-benchmark's recipe, and tested on the test split. Writes ``items.parquet`` (what each test item got, so that
methods can be compared on the same items) and last ``probe.json``.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mdc.config import Backbone, Probe, ProtocolProbe
from mdc.evaluation.features import split_features
from mdc.evaluation.linear_probe import ProbeRecipe, predict, train_linear_probe
from mdc.models.encoder import Encoder, build_encoder
from mdc.predictors import Predictor, run_manifest, trained_encoder
from mdc.records import (
    UserError,
    atomic_path,
    clear_leftovers,
    read_json,
    sha256_file,
    sha256_json,
    versions,
    write_json,
)
from mdc.shards.index import read_index
from mdc.statistics.intervals import bootstrap_mean, bootstrap_statistic
from mdc.statistics.metrics import mean_average_precision, mean_per_class_accuracy, per_item_top1
from mdc.training.device import choose_device


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config, sets (list), run (path or None), cache, out."""
    config = read_json(args.config)
    run = Path(args.run) if args.run else None
    probe(config, [Path(p) for p in args.sets], run, Path(args.cache), Path(args.out))


def probe(config: dict[str, Any], sets: list[Path], run: Path | None, cache: Path, out: Path) -> None:
    """Probe the encoder that ``config`` (see mdc.jobs.probe_config) describes on the image sets it names."""
    from tqdm import tqdm

    settings = Probe.model_validate(config["recipe"])
    protocol = ProtocolProbe.model_validate(config["protocol"])
    backbone = Backbone.model_validate({**config["backbone"], "label": config["backbone_name"]})
    torch.set_num_threads(settings.threads)
    device = choose_device(settings.device)
    encoder, weights_sha256, run_sha256, training = _encoder(config, run, backbone)
    predictor = Predictor(encoder, config["pooling"], settings.precision, device)
    recipe = ProbeRecipe(
        lr=settings.lr,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        weight_decay=protocol.weight_decay,
        normalize=protocol.normalise,
    )
    identity = {
        "weights": weights_sha256,
        "pooling": config["pooling"],
        "precision": settings.precision,
        "device": device.type,
        "threads": settings.threads,
        "torch": torch.__version__,
        "code": config["fingerprint"],
    }
    by_name = {path.parent.name: path for path in sets}
    results: dict[str, Any] = {}
    tables: list[dict[str, list[Any]]] = []
    for name in tqdm(config["probes"], desc=config["job"], unit="probe"):
        if name not in by_name:
            raise UserError(f"{config['job']}: no image set for probe '{name}' among {', '.join(map(str, sets))}")
        results[name], table = _one(
            name, by_name[name], predictor, backbone.image_size, settings, recipe, cache, identity
        )
        tables.append(table)
    clear_leftovers(out)
    items = out / "items.parquet"
    _write_items(items, tables)
    write_json(
        out / "probe.json",
        {
            "kind": "probe",
            "id": config["job"],
            "scale": config["scale"],
            "encoder": {
                "id": config["job"].removeprefix("probe/"),
                "corpus": config["corpus"],
                "backbone": config["backbone_name"],
                "method": config["method_name"],
                "pooling": config["pooling"],
                "seed": config["seed"],
                "weights_sha256": weights_sha256,
            },
            "config": config,
            "config_sha256": sha256_json(config),
            "run_sha256": run_sha256,
            "training": training,
            "sets": {name: sha256_file(by_name[name]) for name in config["probes"]},
            "probes": results,
            "items": {"file": items.name, "sha256": sha256_file(items)},
            "versions": versions(),
        },
    )


#: of a run's manifest, what a table says about the training: the pairs of images and captions that there really were
_TOLD = ("pairs", "steps", "samples_seen")


def _encoder(
    config: dict[str, Any], run: Path | None, backbone: Backbone
) -> tuple[Encoder, str, str | None, dict[str, int] | None]:
    """The encoder, the hash of its weights; if it was trained, the hash of the run's manifest and what it tells."""
    if run is None:
        if config["method_name"] != "untrained":
            raise UserError(f"{config['job']}: --run is missing; only the untrained control goes without")
        encoder = build_encoder(backbone, config["seed"])
        digest = hashlib.sha256()
        for name, tensor in encoder.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.numpy().tobytes())
        return encoder, digest.hexdigest(), None, None
    checkpoint, manifest = run_manifest(run)
    if not manifest.get("config_sha256") or manifest["config_sha256"] != config.get("run_config_sha256"):
        raise UserError(f"{run}: made with another configuration than {config['job']} expects; train the run again")
    if missing := [name for name in _TOLD if name not in manifest]:
        raise UserError(f"{run}: lacks {', '.join(missing)}; train the run again")
    training = {name: manifest[name] for name in _TOLD}
    return trained_encoder(checkpoint, backbone), manifest["checkpoint"]["sha256"], sha256_file(run), training


def _one(
    name: str,
    index_path: Path,
    predictor: Predictor,
    image_size: int,
    settings: Probe,
    recipe: ProbeRecipe,
    cache: Path,
    identity: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """One probe: its result in percent with a 95 % interval over test items, and the test items."""
    index = read_index(index_path, verify="auto", kind="probe")

    def features(split: str) -> tuple[torch.Tensor, torch.Tensor, list[str]]:
        return split_features(predictor, index_path, index, split, image_size, settings.feature_batch, cache, identity)

    train, train_targets, _ = features("train")
    test, test_targets, keys = features("test")
    classes = len(index["classes"])
    trained = train_linear_probe(train, train_targets, classes, recipe, seed=settings.seed, device=predictor.device)
    scores = predict(trained, test).numpy()
    targets = test_targets.numpy()
    # items are drawn anew with a generator of the probe's own, the same for every encoder
    rng = np.random.default_rng([settings.seed, int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")])
    common = {
        "task": index["task"],
        "n": len(keys),
        "train": len(train),
        "classes": classes,
        "chance": 100 * index["chance"],
        "skipped": index["skipped"],
        "seed": settings.seed,
    }
    if index["task"] == "multi":
        interval = bootstrap_statistic(
            lambda counts: mean_average_precision(scores, targets, counts), len(keys), rng, settings.bootstrap
        )
        result: dict[str, Any] = {"metric": "map", "mean_per_class": None}
        table = {
            "value": [None] * len(keys),
            "scores": list(scores.astype(np.float32)),
            "targets": list(targets.astype(np.int8)),
        }
    else:
        correct = per_item_top1(scores, targets)
        interval = bootstrap_mean(correct, rng, settings.bootstrap)
        result = {"metric": "top1", "mean_per_class": 100 * float(mean_per_class_accuracy(correct, targets))}
        table = {"value": list(correct.astype(np.float32)), "scores": [None] * len(keys), "targets": [None] * len(keys)}
    percent = interval.times(100)
    values = {"value": percent.value, "low": percent.low, "high": percent.high}
    return {**common, **result, **values}, {"probe": [name] * len(keys), "item": keys, **table}


def _write_items(path: Path, tables: list[dict[str, list[Any]]]) -> None:
    """All test items in one parquet file: probe, item, value (0…1) or, for multi-label, scores and targets."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("probe", pa.dictionary(pa.int32(), pa.string())),
            ("item", pa.string()),
            ("value", pa.float32()),
            ("scores", pa.list_(pa.float32())),
            ("targets", pa.list_(pa.int8())),
        ]
    )
    columns = {name: [row for table in tables for row in table[name]] for name in schema.names}
    with atomic_path(path) as temporary:
        pq.write_table(pa.table(columns, schema=schema), temporary, compression="zstd")
