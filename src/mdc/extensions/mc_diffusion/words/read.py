"""Pretrained embeddings of BPE tokens for a decoder."""

from pathlib import Path

import torch
from torch import Tensor

from mdc.models.text import CLIP_EOT, Vocabulary
from mdc.models.weights import load_weights
from mdc.plan.outputs import checked
from mdc.plan.records import read_json

WORDS = "words.safetensors"


def read_words(manifest: Path, vocabulary: Vocabulary) -> Tensor:
    """Embeddings of a vocabulary's tokens in order, then of EOT, (K, E) float32; UserError if the file is not the manifest's."""
    weights = checked(manifest.with_name(WORDS), read_json(manifest)["outputs"].get(WORDS), manifest)
    pieces = range(CLIP_EOT - 1) if vocabulary.pieces is None else vocabulary.pieces
    return load_weights(weights)["words"][torch.tensor([*pieces, CLIP_EOT])]
