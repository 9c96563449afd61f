"""The job ``mdc score-positions``: information from the image about each token of held-out captions, by position.

Writes ``tokens.parquet``, a row per token: its log probability with the caption's image and with mismatched images, in the
model's own contexts (:func:`token_values`) and in those of a left-to-right model, or of a right-to-left one as a control;
``gradients.parquet``, a row per token and snapshot: the norm of its loss's gradient at the visual tokens; and last
``positions.json``.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mdc.data.scenes.language import kind_of_word
from mdc.data.shards.index import read_index
from mdc.evaluation.job_models import ScoredRun, scored_run
from mdc.evaluation.parts import device_of, identity_of, ranges, sharded
from mdc.evaluation.predictors.caption_scores import Draws, Pair
from mdc.evaluation.retrieval import HeldOut
from mdc.evaluation.row_files import Columns, write_results
from mdc.models.build import build_for
from mdc.models.runs import read_run
from mdc.models.text import pieces_by_word
from mdc.models.weights import load_weights
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import PositionsJob
from mdc.plan.processes.group import global_rank, process_group

_TOKEN_COLUMNS: Columns = {
    **{"caption": "int64", "place": "int64", "tokens": "int64"},
    **dict.fromkeys(("own", "own_mismatched", "prefix", "prefix_mismatched"), "float64"),
    **{"key": "string", "eot": "bool", "before": "bool", "after": "bool", "kind": "string"},
}
_GRADIENT_COLUMNS: Columns = {
    "step": "int64",
    "caption": "int64",
    "key": "string",
    "place": "int64",
    "tokens": "int64",
    "norm": "float64",
}
_PART = 8  # captions that are scored at a time
_SEED = 0


def main(call: Call) -> None:
    """Run the job, or one process's share of it. ``call.job``: a :class:`mdc.plan.jobs.model.PositionsJob`."""
    job: PositionsJob = call.job
    device = device_of(job.scoring)
    run = scored_run(call, device)
    path = call.input(f"data/corpora/{run.job.corpus}")
    index = read_index(path, verify="auto", kind="corpus")
    scenes = index["source"]["kind"] == "scenes"
    pairs = HeldOut.of(path, job.captions, run.job.protocol.data.context_length)
    tokens = [run.scorer.tokens(caption) for caption in pairs.captions]
    pictures = torch.stack([run.scorer.picture(image) for image in pairs.images])
    measured = _Captions(job, run, tokens, pictures)
    stages = _stages(call, run)
    identity = identity_of(job.fingerprint, [run.weights, *(name for name, _, _ in stages)], job.scoring, device)
    identity |= {"shards": [shard["sha256"] for shard in index["splits"]["val"]["shards"]], "captions": job.captions}
    with process_group(job.scoring.processes, device) as group:
        scored = sharded(call, group, ranges(len(tokens), _PART), measured.part, identity, "tokens")
        requests = [(stage, n) for stage in range(len(stages)) for n in range(min(job.gradient_captions, len(tokens)))]
        norms = sharded(
            call,
            group,
            requests,
            lambda request: measured.gradients(stages[request[0]][2], request[1]),
            identity | {"draws": job.gradient_draws},
            "gradients",
        )
    if global_rank():
        return
    rows = [row for part in scored for row in part]
    for row in rows:
        row |= _about(pairs, row["caption"], row["place"], scenes)
    taught_rows = [
        {
            "step": stages[stage][1],
            "caption": n,
            "key": pairs.keys[n],
            "place": place,
            "tokens": len(caption_norms),
            "norm": norm,
        }
        for (stage, n), caption_norms in zip(requests, norms, strict=True)
        for place, norm in enumerate(caption_norms, start=1)
    ]
    files = {"tokens.parquet": (rows, _TOKEN_COLUMNS), "gradients.parquet": (taught_rows, _GRADIENT_COLUMNS)}
    metadata = {
        "training": run.training,
        "captions": len(tokens),
        "too_long": pairs.too_long,
        "steps": [step for _, step, _ in stages],
        "kinds": scenes,
    }
    write_results(call, "positions", files, metadata)


class _Captions:
    """The held-out captions as one run sees them."""

    def __init__(self, job: PositionsJob, run: ScoredRun, tokens: Sequence[list[int]], pictures: Tensor) -> None:
        self.job, self.run, self.tokens, self.pictures = job, run, tokens, pictures
        self.own = run.job.method.load("positions")
        scoring = job.scoring
        self.draws = [
            Draws(f"positions/{n}", scoring.seed, scoring.samples, run.scorer.context_length)
            for n in range(len(tokens))
        ]

    def others(self, number: int) -> list[int]:
        """Captions with the mismatched images of caption ``number``, the same for every run."""
        rng = np.random.Generator(np.random.Philox(key=self.job.scoring.seed, counter=[0, number, 0, 7]))
        others = [n for n in rng.permutation(len(self.tokens)).tolist() if n != number]
        return others[: self.job.scoring.mismatched]

    def part(self, numbers: range) -> list[dict[str, Any]]:
        """A row per token of these captions."""
        images_of = {n: [n, *self.others(n)] for n in numbers}
        distinct = list(dict.fromkeys(chain(*images_of.values())))
        memory = self.run.scorer.look(self.pictures[distinct])
        pairs = [
            Pair(distinct.index(image), self.tokens[n], n)
            for n, image_places in images_of.items()
            for image in image_places
        ]
        scorer, samples = self.run.scorer.captioner, self.job.scoring.samples
        own, matched = self.own.token_scores(scorer, self.run.job.method, memory, pairs, self.draws, samples)
        rows: list[dict[str, Any]] = []
        ours, theirs = iter(own), iter(matched)
        for n, image_places in images_of.items():
            values = token_values(list(islice(ours, len(image_places))), list(islice(theirs, len(image_places))))
            caption = {"caption": n, "tokens": len(self.tokens[n]) - 1}
            rows += [{**caption, "place": place, **score} for place, score in enumerate(values, start=1)]
        return rows

    def gradients(self, weights: Mapping[str, Tensor], number: int) -> list[float]:
        """The norms of a caption's tokens under ``weights``."""
        method, scorer = self.run.job.method, self.run.scorer
        model = build_for(self.run.job, scorer.vocabulary.size)
        model.load_state_dict(dict(weights))
        model = model.to(scorer.captioner.device).eval()
        norms = self.own.gradient_norms(
            model,
            method,
            self.run.job.protocol.pretrain,
            scorer.model.encoder.prepared(self.pictures[number][None].to(scorer.captioner.device))[0],
            self.tokens[number],
            scorer.vocabulary.mask_id,
            self.job.gradient_draws,
            torch.Generator().manual_seed(_SEED + number),
        )
        return [float(norm) for norm in norms]


def token_values(own: Sequence[Tensor], matched: Sequence[Tensor]) -> list[dict[str, float]]:
    """Columns of ``tokens.parquet`` for each of a caption's L tokens, in nats: its score with the caption's image and its
    mismatched-image control, in both contexts.

    ``own``, ``matched``: scores (L,) with the caption's image first, then with each mismatched image. In the model's own
    contexts the control is the mean of the scores for every method: a masked model's score is already a mean over contexts,
    and a log of a mean probability for one method alone would, by Jensen's inequality, add to the other's gain. In matched
    contexts a score is log p in one context, and the control is the log of the mean probability.
    """
    ours, same = torch.stack(list(own)).double(), torch.stack(list(matched)).double()
    own_mismatched = ours[1:].mean(dim=0)
    mismatched = same[1:].logsumexp(dim=0) - math.log(len(same) - 1)
    columns = {"own": ours[0], "own_mismatched": own_mismatched, "prefix": same[0], "prefix_mismatched": mismatched}
    return [
        dict(zip(columns, row, strict=True)) for row in zip(*(row.tolist() for row in columns.values()), strict=True)
    ]


def _stages(call: Call, run: ScoredRun) -> list[tuple[str, int, Mapping[str, Tensor]]]:
    """(name, step, weights) of the model before training, at its snapshots, and at its end."""
    initial = build_for(run.job, run.scorer.vocabulary.size, run.job.seed)
    path = call.input(str(call.job.run))
    _, manifest = read_run(path)
    stages: list[tuple[str, int, Mapping[str, Tensor]]] = [("initial", 0, initial.state_dict())]
    for step in manifest["snapshots"]:
        name = f"snapshot-{step:08d}.safetensors"
        weights, _ = read_run(path, name)
        stages.append((manifest["outputs"][name], step, load_weights(weights)))
    last, _ = read_run(path)
    return [*stages, (manifest["outputs"][last.name], manifest["steps"], load_weights(last))]


def _about(pairs: HeldOut, caption: int, place: int, scenes: bool) -> dict[str, Any]:
    """Facts of a token: whether it also occurs before or after its place, and the kind of its word, for rendered scenes."""
    words = [(word, piece) for word, pieces in pieces_by_word(pairs.captions[caption]) for piece in pieces]
    if place > len(words):
        return {"key": pairs.keys[caption], "eot": True, "before": False, "after": False, "kind": "end"}
    word, piece = words[place - 1]
    listed = [token for _, token in words]
    return {
        "key": pairs.keys[caption],
        "eot": False,
        "before": piece in listed[: place - 1],
        "after": piece in listed[place:],
        "kind": kind_of_word(word) if scenes else "",
    }
