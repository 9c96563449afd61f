"""Pretrained embeddings of BPE tokens for a decoder."""

from pathlib import Path

import torch
from torch import Tensor

from mdc.models.text import CLIP_EOT, Vocabulary
from mdc.models.weights import load_weights
from mdc.plan.config.backbones import FrozenWords
from mdc.plan.records import UserError, read_json, sha256_file

WORDS = "words.safetensors"


def read_words(manifest: Path, expected: FrozenWords, vocabulary: Vocabulary) -> Tensor:
    """Embeddings of a vocabulary's tokens in order, then of EOT, (K, E) float32.

    UserError if they are not ``expected``.
    """
    record = read_json(manifest)
    weights = manifest.parent / WORDS
    if record.get("config_sha256") != expected.config_sha256:
        raise UserError(
            f"{manifest}: made with another configuration than {expected.job} has now; bring the words again"
        )
    if sha256_file(weights) != record["outputs"].get(WORDS):
        raise UserError(
            f"{weights}: not the embeddings that {manifest} names (its sha256 differs); bring the words again"
        )
    pieces = range(CLIP_EOT - 1) if vocabulary.pieces is None else vocabulary.pieces
    return load_weights(weights)["words"][torch.tensor([*pieces, CLIP_EOT])]
