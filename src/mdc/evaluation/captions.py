"""The job ``mdc write-captions``: captions of a corpus's images by one run, under every decoding policy of Table 3.

Writes ``captions.parquet``, a row per system and image: the caption, its tokens in CLIP's numbering (null if no run of ours
decoded it), the number of model calls, and for each token its step and confidence; and last ``captions.json``.
"""

import time
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from PIL import Image

from mdc.data.shards.index import ShardReader
from mdc.evaluation.captioned import Captioned
from mdc.evaluation.coca import NOTHING, of_coca
from mdc.evaluation.job_models import clip_scorer, trained_run
from mdc.evaluation.parts import device_of, identity_of, ranges, sharded
from mdc.evaluation.row_files import Columns, Row, write_results
from mdc.plan.config.decoding import Unmasking
from mdc.plan.config.kinds.known import AnyDistortion
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import CaptionsJob, Policy
from mdc.plan.parts import ABILITIES, load
from mdc.plan.processes.group import global_rank, process_group

_PART = 64  # images that are captioned at a time, and lost at most by a kill
_COLUMNS: Columns = {
    **{"system": "word", "image": "string", "caption": "string", "clip_ids": ["int32"], "pieces": ["string"]},
    **{"step": ["int16"], "confidence": ["float64"], "log_prob": "float64", "calls": "int32"},
}

#: metadata of captions that no run of ours decoded
_NO_RUN = dict.fromkeys(("training", "weights_step", "parameters", "held_out"))


def main(call: Call) -> dict[str, Any] | None:
    """Run the job, or one process's share of it. ``call.job``: a :class:`mdc.plan.jobs.model.CaptionsJob`.

    Returns facts for the host file, if a run of ours decoded: its device, and ``writing``: {system: {captions, seconds,
    processor_seconds}}. Seconds are summed over processes, without reading the images, which all systems of a run share.
    """
    job: CaptionsJob = call.job
    images = Captioned.open(call.input(f"data/corpora/{job.corpus}"), job.split, job.images)
    facts: dict[str, Any] | None = None
    if job.coca is not None:
        rows, metadata = of_coca(call, job.coca, images), _NO_RUN
    elif job.run is None:
        rows, metadata = _most_frequent(call, job, images), _NO_RUN
    else:
        rows, metadata, facts = _by_run(call, job, images)
    if global_rank():
        return None
    write_results(call, "captions", {"captions.parquet": (rows, _COLUMNS)}, metadata | {"images": len(images)})
    return facts


def _by_run(call: Call, job: CaptionsJob, images: Captioned) -> tuple[list[Row], dict[str, Any], dict[str, Any]]:
    """The captions, metadata for the record, and facts for the host file."""
    config = job.captioning
    device = device_of(config)
    assert job.run is not None and job.weights is not None
    run = trained_run(call, job.run, job.run_config_sha256, job.weights)
    writer = load(ABILITIES, "generate").RunWriter(
        run.model, precision=config.precision, device=device, batch_tokens=config.batch_tokens
    )
    identity, clip = identity_of(job.fingerprint, run.weights, config, device), None
    if job.guide is not None:
        guide = trained_run(call, job.guide.run, job.guide.config_sha256, "last")
        clip, identity = clip_scorer(guide.model, config, device), {**identity, "guide": guide.weights}
    policies = {key: policy.model_dump(mode="json") for key, policy in job.policies.items()}
    identity |= {"shards": images.shards, "images": len(images), "policies": policies, "seed": job.seed}
    with process_group(config.processes, device) as group:
        parts = ranges(len(images), _PART)
        done = sharded(call, group, parts, lambda numbers: _captions(writer, clip, job, images, numbers), identity)
    rows = [row for part in done for row in part["rows"]]
    took = {
        name: {key: round(sum(part["took"][name][key] for part in done), 3) for key in done[0]["took"][name]}
        for name in job.policies
    }
    named = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    facts = {"device": named, "writing": {name: {"captions": len(images), **spent} for name, spent in took.items()}}
    rows.sort(key=lambda row: list(job.policies).index(row["system"]))  # stable: images stay in their order
    metadata = {"training": run.training, "weights_step": run.weights_step}
    return rows, {**metadata, "parameters": run.parameters, "held_out": run.held_out}, facts


def _captions(writer: Any, clip: Any, job: CaptionsJob, images: Captioned, numbers: Sequence[int]) -> dict[str, Any]:
    """A part: ``rows``, a caption of each image by each system, and ``took``: {system: seconds of decoding}."""

    @cache
    def shown(which: str) -> list[tuple[str, Image.Image]]:
        chosen = [n if which == "own" else images.other(n, job.seed) for n in numbers]
        return [(images.keys[n], images.image(n)) for n in chosen]

    @cache
    def seen_by(model: Any, which: str, distortion: AnyDistortion | None) -> Any:
        pictures = [image for _, image in shown(which)]
        if distortion is not None:
            distort = distortion.load().distort
            pictures = [distort(image, distortion, key, job.seed) for key, image in shown(which)]
        return model.look(torch.stack([model.picture(image) for image in pictures]))

    took: dict[str, dict[str, float]] = {}

    def decoded(name: str, policy: Policy) -> list[Any]:
        seen = seen_by(writer, policy.images, policy.distortion)
        guided = isinstance(policy.decode, Unmasking) and policy.decode.guide is not None
        # the guide sees what the captioner sees
        guiding = writer.guiding(clip, seen_by(clip, policy.images, policy.distortion)) if guided else None
        began, busy = time.perf_counter(), time.process_time()
        captions: list[Any] = writer.write(seen, policy.decode, keys, guiding)
        took[name] = {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - busy}
        return captions

    keys = [images.keys[n] for n in numbers]
    rows = [
        {
            "system": name,
            "image": key,
            "caption": writer.text(result),
            "clip_ids": writer.clip_ids(result),
            "pieces": [writer.piece(piece) for piece in result.pieces],
            "step": list(result.step),
            "confidence": list(result.confidence),
            "log_prob": result.log_prob,
            "calls": result.calls,
        }
        for name, policy in job.policies.items()
        for key, result in zip(keys, decoded(name, policy), strict=True)
    ]
    return {"rows": rows, "took": took}


def _most_frequent(call: Call, job: CaptionsJob, images: Captioned) -> list[Row]:
    """The most frequent training caption for every image; of equally frequent ones the first in alphabetical order."""
    assert job.most_frequent is not None
    reader = ShardReader(call.input(f"data/corpora/{job.most_frequent.corpus}"), "train")
    counts = Counter(text for number in range(len(reader)) for text in reader.read(number)[2]["captions"])
    most = min(counts, key=lambda text: (-counts[text], text))
    return [
        {"system": job.most_frequent.system, "image": key, "caption": most, **NOTHING, "calls": 0}
        for key in images.keys
    ]
