"""The job ``mdc probe``: all probes of one encoder by one head: linear (paper, section 4.2 and appendix B), attentive or k-NN.

Features are computed once per image set and encoder; a head (:mod:`mdc.plan.config.kinds.heads`) is fitted on the training split
and tested on the test split. Its module has ``TOKENS``, whether it reads tokens instead of the pooled feature, and ``fit``.
Writes ``items.parquet``, the result of each test item, for paired comparisons of methods, and last ``probe.json``.
"""

import hashlib
import math
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch
from torch import Tensor

from mdc.data.shards.index import read_index
from mdc.evaluation import features
from mdc.evaluation.features import FeatureCache
from mdc.evaluation.row_files import Columns, Row, write_results
from mdc.models.encoder import build_encoder
from mdc.models.encoders.tower import TOWER, Tower, read_tower
from mdc.models.pixel_encoder import PixelEncoder
from mdc.models.runs import expected_run, read_run
from mdc.plan.config.kinds.backbones import Backbone, FrozenTokens
from mdc.plan.config.kinds.heads import LINEAR
from mdc.plan.config.kinds.known import BACKBONES, ENCODERS
from mdc.plan.config.problems import checked
from mdc.plan.config.scale import ProbeRuntime
from mdc.plan.fingerprint import fingerprint
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import ProbeJob
from mdc.plan.parts import ABILITIES, load
from mdc.plan.processes.store import Store
from mdc.plan.records import UserError, read_json
from mdc.report.statistics.metrics import mean_average_precision, mean_per_class_accuracy, per_item_top1
from mdc.training.device import choose_device
from mdc.training.kept import snapshot_steps

#: of ``items.parquet``: the result of each test item, 0…1, or with several labels its scores and targets
_COLUMNS: Columns = {
    **{"probe": "word", "item": "string"},
    **{"value": "float32", "scores": ["float32"], "targets": ["int8"]},
}


def main(call: Call) -> None:
    """Run the job. ``call``: a :class:`mdc.plan.jobs.call.Call` with job, input, runtime, cache and out. Without a runtime
    no workers are started."""
    from mdc.plan.progress import progress

    job: ProbeJob = call.job
    runtime = _runtime(call.runtime)
    torch.set_num_threads(job.recipe.threads)
    device = choose_device(job.recipe.device)
    encoding = load(ABILITIES, "encode")
    encoder, weights_sha256, training = _encoder(call, encoding)
    store = Store(call.cache, int(runtime.cache_gb * 1e9))
    head = job.head.load() if job.head is not None else import_module(LINEAR)
    pooling = "tokens" if head.TOKENS else job.pooling
    cache = FeatureCache(
        encoding.ImageEncoder(encoder, pooling, job.recipe.precision, device),
        store,
        image_size=job.backbone.image_size,
        batch_size=job.recipe.feature_batch,
        identity={
            "weights": weights_sha256,
            "pooling": pooling,
            "precision": job.recipe.precision,
            "device": device.type,
            "threads": job.recipe.threads,
            "torch": torch.__version__,
        },
        # not the job's fingerprint, which covers a head: features are the same for all
        pixels={
            "code": fingerprint(
                features.__name__, ABILITIES["encode"], *(one.module for one in (*BACKBONES, *ENCODERS.values()))
            ),
            "pillow": PIL.__version__,
        },
        workers=runtime.workers,
    )
    results: dict[str, Any] = {}
    rows: list[Row] = []
    with store.in_use():
        for name in progress(job.probes, desc=job.job, unit="probe"):
            results[name], items = _run_probe(name, call.input(f"data/probes/{name}"), cache, job, head, device)
            rows += items
    # runs and frozen encoders name their weights in their own records
    metadata: dict[str, Any] = {"training": training, "probes": results}
    metadata |= (
        {"initial_weights_sha256": weights_sha256} if job.run is None and isinstance(job.backbone, Backbone) else {}
    )
    write_results(call, "probe", {"items.parquet": (rows, _COLUMNS)}, metadata)


def _runtime(path: Path | None) -> ProbeRuntime:
    return ProbeRuntime() if path is None else checked(ProbeRuntime, read_json(path), path)


def _encoder(call: Call, encoding: Any) -> tuple[PixelEncoder | Tower, str, dict[str, int] | None]:
    """The encoder, the hash of its weights, and, if it was trained, the facts of its training."""
    job: ProbeJob = call.job
    if isinstance(job.backbone, FrozenTokens):
        path = call.input(job.backbone.job)
        return read_tower(path, job.backbone), read_json(path)["outputs"][TOWER], None
    if job.run is None:
        encoder = build_encoder(job.backbone, job.seed)
        digest = hashlib.sha256()
        for name, tensor in encoder.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.numpy().tobytes())
        return encoder, digest.hexdigest(), None
    checkpoint, manifest, training = expected_run(call, job.run, job.run_config_sha256)
    if job.snapshot is not None:
        (step,) = snapshot_steps([job.snapshot], training["steps"])
        checkpoint, _ = read_run(call.input(job.run), f"snapshot-{step:08d}.safetensors")
        training |= {"steps": step, "samples_seen": step * (training["samples_seen"] // training["steps"])}
    return encoding.trained_encoder(checkpoint, job.backbone), manifest["outputs"][checkpoint.name], training


def _run_probe(
    name: str, path: Path, cache: FeatureCache, job: ProbeJob, head: Any, device: torch.device
) -> tuple[dict[str, Any], list[Row]]:
    """Fit and test one probe: its result in per cent, and the test items."""
    index = read_index(path, verify="auto", kind="probe")
    stored = _token_bytes(name, job, index, cache.store.limit) if head.TOKENS else None
    train, train_targets, train_keys = cache.features(path, index, "train")
    if job.held_out is None:
        test, test_targets, keys = cache.features(path, index, "test")
    else:
        fitted, tested = _parts(name, len(train), job.held_out, job.recipe.seed)
        test, test_targets, keys = train[tested], train_targets[tested], [train_keys[item] for item in tested.tolist()]
        train, train_targets = train[fitted], train_targets[fitted]
    classes = len(index["classes"])
    try:
        scores, notes = head.fit(job, train, train_targets, classes, test, device)
    except UserError as error:
        raise UserError(f"probe {name}: {error}") from None
    measured, items = _scored(name, index["task"], scores, test_targets)
    result = {
        "task": index["task"],
        "n": len(keys),
        "train": len(train),
        "classes": classes,
        "chance": 100 * index["chance"],
        "skipped": index["skipped"],
        **({"shortcuts": index["shortcuts"]} if "shortcuts" in index else {}),
    }
    notes |= {"token_bytes_per_image": stored} if stored else {}
    rows = [{"probe": name, "item": key, **item} for key, item in zip(keys, items, strict=True)]
    return {**result, **measured, **notes}, rows


def _parts(name: str, items: int, held_out: int, seed: int) -> tuple[Tensor, Tensor]:
    """The numbers of a training split's items that a probe is fitted on, and of those that it is tested on."""
    if held_out >= items:
        raise UserError(f"probe {name}: {items} training items, of which {held_out} are to be held out; hold out fewer")
    order = torch.randperm(items, generator=torch.Generator().manual_seed(seed))
    return order[held_out:].sort().values, order[:held_out].sort().values


def _token_bytes(name: str, job: ProbeJob, index: dict[str, Any], limit: int | None) -> int:
    """Bytes of an image's stored tokens. UserError if it has none, or if a probe's do not fit the cache."""
    backbone = job.backbone
    frozen = isinstance(backbone, FrozenTokens)
    count = backbone.tokens if frozen else (backbone.image_size // backbone.patch_size) ** 2  # type: ignore[union-attr]
    if count < 2:
        raise UserError(f"{job.job}: {job.backbone_name} gives no patch tokens, which an attentive probe attends to")
    size = 2 * (1 + count) * backbone.width
    total = size * sum(index["splits"][split]["samples"] for split in ("train", "test"))
    if limit is not None and total > limit:
        raise UserError(
            f"probe {name}: its tokens take {total / 1e9:.1f} GB ({size:,} bytes an image), more than probe.runtime.cache_gb = "
            f"{limit / 1e9:g}; raise it, or probe this set by linear and knn alone"
        )
    return size


def _scored(name: str, task: str, logits: Tensor, labels: Tensor) -> tuple[dict[str, Any], list[Row]]:
    """metric, value and mean_per_class in per cent; and the items' value, scores and targets."""
    scores, targets = logits.numpy(), labels.numpy()
    if task == "multi":
        value = mean_average_precision(scores, targets)
        if not math.isfinite(value):
            raise UserError(f"probe {name}: its test split has no image of any class, so there is no average precision")
        each = zip(scores.astype(np.float32), targets.astype(np.int8), strict=True)
        items = [{"value": None, "scores": scored, "targets": labelled} for scored, labelled in each]
        return {"metric": "map", "value": 100 * value, "mean_per_class": None}, items
    correct = per_item_top1(scores, targets)
    per_class = 100 * float(mean_per_class_accuracy(correct, targets))
    items = [{"value": value, "scores": None, "targets": None} for value in correct.astype(np.float32)]
    return {"metric": "top1", "value": 100 * float(correct.mean()), "mean_per_class": per_class}, items
