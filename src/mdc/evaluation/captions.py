"""The job ``mdc write-captions``: captions of a corpus's images by one run, in each way that Table 3 asks for.

Writes ``captions.parquet``, a row for each system and image: the caption, its tokens in CLIP's numbers (null if no run of ours
wrote it), how often the model was called for it, and for each token when it was written and how sure the model was; and last
``captions.json``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from PIL import Image

from mdc.data.shards.index import ShardReader
from mdc.evaluation.asked_models import clip_scorer, trained_run
from mdc.evaluation.captioned import Captioned
from mdc.evaluation.coca import NOTHING, of_coca
from mdc.evaluation.distortions import distort
from mdc.evaluation.parts import device_of, identity_of, ranges, sharded
from mdc.evaluation.row_files import Columns, Row, write_results
from mdc.plan.config.caption import Unmasking
from mdc.plan.config.distortion import AtLevel
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import CaptionsJob, Policy
from mdc.plan.parts import ABILITIES, load
from mdc.plan.processes.group import global_rank, process_group

_PART = 64  # images that are captioned at a time, and lost at most by a kill
_COLUMNS: Columns = {
    **{"system": "word", "image": "string", "caption": "string", "clip_ids": ["int32"], "pieces": ["string"]},
    **{"step": ["int16"], "confidence": ["float64"], "log_prob": "float64", "calls": "int32"},
}

#: what is told of captions that no run of ours wrote
_NO_RUN = dict.fromkeys(("training", "weights_step", "parameters", "held_out"))


def main(call: Call) -> dict[str, Any] | None:
    """Run the job, or one process's share of it. ``call.job``: a :class:`mdc.plan.jobs.model.CaptionsJob`.

    Returns what its host file tells besides where a run of ours wrote: its device, and ``writing``: {system: {captions, seconds,
    processor_seconds}}. Seconds are summed over processes; reading the images is not among them, since all systems of a run share
    it.
    """
    job: CaptionsJob = call.job
    images = Captioned.open(call.input(f"data/corpora/{job.corpus}"), job.split, job.images)
    facts: dict[str, Any] | None = None
    if job.coca is not None:
        rows, told = of_coca(call, job.coca, images), _NO_RUN
    elif job.run is None:
        rows, told = _floor(call, job, images), _NO_RUN
    else:
        rows, told, facts = _by_run(call, job, images)
    if global_rank():
        return None
    write_results(call, "captions", {"captions.parquet": (rows, _COLUMNS)}, told | {"images": len(images)})
    return facts


def _by_run(call: Call, job: CaptionsJob, images: Captioned) -> tuple[list[Row], dict[str, Any], dict[str, Any]]:
    """The captions, what the record tells of the run, and what the host file does."""
    how = job.captioning
    device = device_of(how)
    assert job.run is not None and job.weights is not None
    run = trained_run(call, job.run, job.run_config_sha256, job.weights)
    writer = load(ABILITIES, "generate").RunWriter(
        run.model, precision=how.precision, device=device, batch_tokens=how.batch_tokens
    )
    identity, clip = identity_of(job.fingerprint, run.weights, how, device), None
    if job.guide is not None:
        guide = trained_run(call, job.guide.run, job.guide.config_sha256, "last")
        clip, identity = clip_scorer(guide.model, how, device), {**identity, "guide": guide.weights}
    policies = {key: policy.model_dump(mode="json") for key, policy in job.policies.items()}
    identity |= {"shards": images.shards, "images": len(images), "policies": policies, "seed": job.seed}
    with process_group(how.processes, device) as group:
        parts = ranges(len(images), _PART)
        found = sharded(call, group, parts, lambda numbers: _captions(writer, clip, job, images, numbers), identity)
    rows = [row for part in found for row in part["rows"]]
    took = {
        name: {key: round(sum(part["took"][name][key] for part in found), 3) for key in found[0]["took"][name]}
        for name in job.policies
    }
    named = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    facts = {"device": named, "writing": {name: {"captions": len(images), **one} for name, one in took.items()}}
    rows.sort(key=lambda row: list(job.policies).index(row["system"]))  # stable: images stay in their order
    told = {"training": run.training, "weights_step": run.weights_step}
    return rows, {**told, "parameters": run.parameters, "held_out": run.held_out}, facts


def _captions(writer: Any, clip: Any, job: CaptionsJob, images: Captioned, numbers: Sequence[int]) -> dict[str, Any]:
    """A part: ``rows``, a caption of each image by each system, and what writing ``took`` each system, {system: seconds}."""

    @cache
    def shown(which: str) -> list[tuple[str, Image.Image]]:
        there = [n if which == "own" else images.other(n, job.seed) for n in numbers]
        return [(images.keys[n], images.image(n)) for n in there]

    @cache
    def seen_by(model: Any, which: str, distortion: AtLevel | None) -> Any:
        made = [one if distortion is None else distort(one, distortion, key, job.seed) for key, one in shown(which)]
        return model.look(torch.stack([model.picture(one) for one in made]))

    took: dict[str, dict[str, float]] = {}

    def written(name: str, policy: Policy) -> list[Any]:
        seen = seen_by(writer, policy.images, policy.distortion)
        guided = isinstance(policy.decode, Unmasking) and policy.decode.guide is not None
        # the guide sees what the captioner sees
        guiding = writer.guiding(clip, seen_by(clip, policy.images, policy.distortion)) if guided else None
        began, busy = time.perf_counter(), time.process_time()
        found: list[Any] = writer.write(seen, policy.decode, keys, guiding)
        took[name] = {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - busy}
        return found

    keys = [images.keys[n] for n in numbers]
    rows = [
        {
            "system": name,
            "image": key,
            "caption": writer.text(one),
            "clip_ids": writer.clip_ids(one),
            "pieces": [writer.piece(piece) for piece in one.pieces],
            "step": list(one.step),
            "confidence": list(one.confidence),
            "log_prob": one.log_prob,
            "calls": one.calls,
        }
        for name, policy in job.policies.items()
        for key, one in zip(keys, written(name, policy), strict=True)
    ]
    return {"rows": rows, "took": took}


def _floor(call: Call, job: CaptionsJob, images: Captioned) -> list[Row]:
    """The most frequent training caption for every image; of equally frequent ones the first in alphabetical order."""
    assert job.floor is not None
    reader = ShardReader(call.input(f"data/corpora/{job.floor.corpus}"), "train")
    counts = Counter(caption for number in range(len(reader)) for caption in reader.read(number)[2]["captions"])
    most = min(counts, key=lambda caption: (-counts[caption], caption))
    return [{"system": job.floor.system, "image": key, "caption": most, **NOTHING, "calls": 0} for key in images.keys]
