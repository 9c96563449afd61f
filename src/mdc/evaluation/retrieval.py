"""The job ``mdc score-pairs``: all pairs of held-out images and captions under every estimator of a run.

N held-out pairs of the run's own corpus give N × N scores for each estimator. From them come retrieval in both
directions, and the best weight of the mismatched-image control (see :mod:`mdc.report.held_out`). Writes
``matrix.safetensors``, a tensor (N images, N captions) float64 for each estimator with one of standard errors, and last
``retrieval.json``.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from mdc.data.formats.images import decode_named
from mdc.data.shards.index import ShardReader, read_index
from mdc.evaluation.job_models import scored_run
from mdc.evaluation.parts import device_of, identity_of, ranges, sharded
from mdc.evaluation.predictors.caption_scores import Draws, Pair
from mdc.models.text import clip_pieces
from mdc.models.weights import save_tensors
from mdc.plan.jobs.call import Call, record
from mdc.plan.jobs.model import RetrievalJob
from mdc.plan.processes.group import global_rank, process_group
from mdc.plan.records import UserError, clear_leftovers, write_json

MATRIX = "matrix.safetensors"
SPLIT = "val"
_PART = 8  # images that are scored at a time


def main(call: Call) -> None:
    """Run the job, or one process's share of it. ``call.job``: a :class:`mdc.plan.jobs.model.RetrievalJob`."""
    job: RetrievalJob = call.job
    scoring = job.scoring
    device = device_of(scoring)
    run = scored_run(call, device)
    path = call.input(f"data/corpora/{run.job.corpus}")
    index = read_index(path, verify="auto", kind="corpus")
    pairs = HeldOut.of(path, job.pairs, run.job.protocol.data.context_length)
    tokens = [run.scorer.tokens(caption) for caption in pairs.captions]
    pictures = torch.stack([run.scorer.picture(image) for image in pairs.images])
    # a caption has the same masks with every image
    places = run.scorer.context_length
    draws = [Draws(f"retrieval/{n}", scoring.seed, scoring.samples, places) for n in range(len(tokens))]

    def part(images: range) -> dict[str, Any]:
        memory = run.scorer.look(pictures[images.start : images.stop])
        queries = [Pair(image, ids, n) for image in range(len(images)) for n, ids in enumerate(tokens)]
        return {
            name: [[score.value, score.error] for score in run.scorer.score(name, memory, queries, draws)]
            for name in run.scorer.estimators
        }

    identity = identity_of(job.fingerprint, run.weights, scoring, device)
    shards = [shard["sha256"] for shard in index["splits"][SPLIT]["shards"]]
    with process_group(scoring.processes, device) as group:
        identity |= {"shards": shards, "pairs": job.pairs, "retrieval": True}
        results = sharded(call, group, ranges(len(tokens), _PART), part, identity)
    if global_rank():
        return
    clear_leftovers(call.out)
    tensors: dict[str, Tensor] = {}
    for name in run.scorer.estimators:
        scores = torch.tensor([score for done in results for score in done[name]], dtype=torch.float64)
        scores = scores.view(len(tokens), len(tokens), 2)
        tensors[name], tensors[f"{name}.error"] = scores[..., 0].contiguous(), scores[..., 1].contiguous()
    tensors["pieces"] = torch.tensor([len(clip_pieces(caption)) for caption in pairs.captions])
    save_tensors(call.out / MATRIX, tensors, {"config_sha256": job.sha256})
    metadata = {
        "estimators": list(run.scorer.estimators),
        "training": run.training,
        "weights_step": run.weights_step,
        "pairs": len(tokens),
        "too_long": pairs.too_long,
        "keys": pairs.keys,
        # equal captions are all right answers to a query
        "captions": [tuple(ids) for ids in tokens],
    }
    write_json(call.out / "retrieval.json", record(call, "retrieval", [call.out / MATRIX]) | metadata)


@dataclass
class HeldOut:
    """The first N held-out pairs of a corpus whose first caption fits the context; ``too_long`` counts those skipped."""

    keys: list[str]
    images: list[Image.Image]
    captions: list[str]
    too_long: int = 0

    @classmethod
    def of(cls, path: Path, count: int, context_length: int) -> "HeldOut":
        """UserError if the corpus has no held-out split or fewer than two such pairs."""
        reader, pairs = ShardReader(path, SPLIT), cls([], [], [])
        for number in range(len(reader)):
            if len(pairs.keys) == count:
                break
            key, data, record = reader.read(number)
            caption = record["captions"][0]
            if len(clip_pieces(caption)) > context_length - 2:
                pairs.too_long += 1
                continue
            pairs.images.append(decode_named(data, f"{path}: held-out image {key}"))
            pairs.keys.append(key)
            pairs.captions.append(caption)
        if len(pairs.keys) < 2:
            raise UserError(f"{path}: {len(pairs.keys)} held-out pairs fit the context; at least two are needed")
        return pairs
