"""Pretrained embeddings of BPE tokens for a decoder."""

from pathlib import Path

import torch
from torch import Tensor

from mdc.models.text import CLIP_EOT, Vocabulary
from mdc.models.weights import load_weights
from mdc.plan.outputs import recorded

WORDS = "words.safetensors"


def read_words(manifest: Path, expected: str | None, job: str, vocabulary: Vocabulary) -> Tensor:
    """Embeddings of a vocabulary's tokens in order, then of EOT, (K, E) float32.

    UserError, naming the ``job`` that needs them, if they are not of the configuration with the hash ``expected``.
    """
    weights, _ = recorded(manifest, WORDS, expected, job)
    pieces = range(CLIP_EOT - 1) if vocabulary.pieces is None else vocabulary.pieces
    return load_weights(weights)["words"][torch.tensor([*pieces, CLIP_EOT])]
