"""The objective ``superclass``: predict the set of a caption's tokens from the image (Huang et al., 2024, SuperClass).

A caption's target gives each of its BPE tokens the weight idf = log((N + 1) / (df + 1)), normalised to sum 1; df of the N
training captions have the token. The loss is −Σ target · log softmax, the mean over the global batch's captions; one whose
weights are all 0 adds nothing. The original estimates df from past batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.extensions.neighbours.superclass.model import SuperClass
from mdc.models.text import Vocabulary
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.records import UserError, read_json
from mdc.training.objectives.captioning import CaptioningObjective, Prepared
from mdc.training.objectives.micro_batches import slices
from mdc.training.objectives.objective import Setup

if TYPE_CHECKING:
    from mdc.training.corpus import Corpus


build_model = SuperClass


class Part(NamedTuple):
    """A micro-batch: images (b, …) as the batch has them; the caption's row, id and weight of n BPE tokens, (n,) each."""

    images: Tensor
    rows: Tensor
    pieces: Tensor
    weights: Tensor
    extra_inputs: dict[str, Tensor]


class SuperClassObjective(CaptioningObjective):
    """``idf`` (V,) float32: of each token."""

    def __init__(self, model: SuperClass, idf: Tensor, setup: Setup) -> None:
        super().__init__(model, None, setup)
        self.idf = idf

    def prepare(self, batch: CaptionBatch, micro_batches: int = 1, held_out: bool = False) -> Prepared:
        parts = [
            Part(batch.images[rows], *targets(batch.tokens[rows], self.idf), {})
            for rows in slices(len(batch), micro_batches)
        ]
        return Prepared(parts, torch.stack([torch.tensor(len(batch)), (batch.lengths - 1).sum()]))


def targets(tokens: Tensor, idf: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The rows, ids and weights (n,) of the sets of BPE tokens of ``tokens`` (B, T); those of weight 0 are left out."""
    pieces = tokens.sort(dim=1).values
    first = torch.ones_like(pieces, dtype=torch.bool)
    first[:, 1:] = pieces[:, 1:] != pieces[:, :-1]
    # the ids of SOT, EOT and padding are the last
    own = first & (pieces < len(idf))
    weights = torch.where(own, idf[pieces.clamp(max=len(idf) - 1)], 0.0)
    weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    rows, columns = weights.nonzero(as_tuple=True)
    return rows, pieces[rows, columns], weights[rows, columns]


def read_idf(path: Path, vocabulary: Vocabulary) -> Tensor:
    """The idf (V,) float32 of a vocabulary's BPE tokens, from the counts of the job ``frequencies``; UserError if damaged."""
    counted = read_json(path)
    try:
        captions, counts = (
            int(counted["captions"]),
            {int(piece): int(count) for piece, count in counted["pieces"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{path}: not document frequencies of tokens; delete it and run again") from None
    pieces = vocabulary.clip_ids(range(vocabulary.size - 2))
    document_frequencies = torch.tensor([counts.get(piece, 0) for piece in pieces], dtype=torch.float64)
    return torch.log((captions + 1) / (document_frequencies + 1)).float()


def of_run(job: PretrainJob, corpus: Corpus) -> dict[str, Any]:
    counted = corpus.input_below("data/frequencies")
    assert counted is not None  # an input of the job
    return {"idf": read_idf(counted, corpus.vocabulary)}


def build_objective(model: SuperClass, setup: Setup, idf: Tensor | None = None) -> SuperClassObjective:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`. ``idf``: None for all 1, where only memory is measured."""
    weights = torch.ones(model.classes) if idf is None else idf
    return SuperClassObjective(model, weights, setup)
