"""The job ``mdc score-pairs``: held-out images and captions, each against each, under every estimator of a run.

N held-out pairs of the run's own corpus give N × N scores for each estimator. From them a table takes retrieval in both
directions, and how much of a caption's blind score is best taken off (see :mod:`mdc.report.held_out`). Writes
``matrix.safetensors``, a tensor (N images, N captions) float64 for each estimator with one of standard errors, and last
``retrieval.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from mdc.data.formats.images import decode_named
from mdc.data.shards.index import ShardReader, read_index
from mdc.evaluation.asked_models import scored_run
from mdc.evaluation.parts import device_of, identity_of, ranges, sharded
from mdc.evaluation.predictors.caption_scores import Pair
from mdc.evaluation.predictors.draws import Draws
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
    # a caption's masks are the same against every image
    places = run.scorer.context_length
    draws = [Draws(f"retrieval/{n}", scoring.seed, scoring.samples, places) for n in range(len(tokens))]

    def part(images: range) -> dict[str, Any]:
        seen = run.scorer.look(pictures[images.start : images.stop])
        asked = [Pair(image, ids, n) for image in range(len(images)) for n, ids in enumerate(tokens)]
        return {
            name: [[one.value, one.error] for one in run.scorer.score(name, seen, asked, draws)]
            for name in run.scorer.estimators
        }

    identity = identity_of(job.fingerprint, run.weights, scoring, device)
    shards = [shard["sha256"] for shard in index["splits"][SPLIT]["shards"]]
    with process_group(scoring.processes, device) as group:
        identity |= {"shards": shards, "pairs": job.pairs, "retrieval": True}
        found = sharded(call, group, ranges(len(tokens), _PART), part, identity)
    if global_rank():
        return
    clear_leftovers(call.out)
    tensors: dict[str, Tensor] = {}
    for name in run.scorer.estimators:
        both = torch.tensor([one for done in found for one in done[name]], dtype=torch.float64)
        both = both.view(len(tokens), len(tokens), 2)
        tensors[name], tensors[f"{name}.error"] = both[..., 0].contiguous(), both[..., 1].contiguous()
    tensors["pieces"] = torch.tensor([len(clip_pieces(caption)) for caption in pairs.captions])
    save_tensors(call.out / MATRIX, tensors, {"config_sha256": job.sha256})
    told = {
        "estimators": list(run.scorer.estimators),
        "training": run.training,
        "weights_step": run.weights_step,
        "pairs": len(tokens),
        "too_long": pairs.too_long,
        "keys": pairs.keys,
        # captions that are equal cannot be told apart: a query's right answers
        "captions": [tuple(ids) for ids in tokens],
    }
    write_json(call.out / "retrieval.json", record(call, "retrieval", [call.out / MATRIX]) | told)


@dataclass
class HeldOut:
    """The first N held-out pairs of a corpus whose first caption fits the context; before them, so many were ``too_long``."""

    keys: list[str]
    images: list[Image.Image]
    captions: list[str]
    too_long: int = 0

    @classmethod
    def of(cls, path: Path, count: int, context_length: int) -> HeldOut:
        """UserError if the corpus has no held-out split or fewer than two such pairs."""
        reader, found = ShardReader(path, SPLIT), cls([], [], [])
        for number in range(len(reader)):
            if len(found.keys) == count:
                break
            key, data, record = reader.read(number)
            caption = record["captions"][0]
            if len(clip_pieces(caption)) > context_length - 2:
                found.too_long += 1
                continue
            found.images.append(decode_named(data, f"{path}: held-out image {key}"))
            found.keys.append(key)
            found.captions.append(caption)
        if len(found.keys) < 2:
            raise UserError(f"{path}: {len(found.keys)} held-out pairs fit the context; at least two are needed")
        return found
