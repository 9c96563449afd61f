"""Embeddings of BPE tokens that others trained, in the place of a decoder's own."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from mdc.models.text import CLIP_EOT, Vocabulary
from mdc.models.weights import load_weights
from mdc.plan.config.backbones import FrozenWords
from mdc.plan.records import UserError, read_json, sha256_file

WORDS = "words.safetensors"


def read_words(manifest: Path, asked: FrozenWords, vocabulary: Vocabulary) -> Tensor:
    """Those of a vocabulary's pieces in their order and of EOT, (K, E) float32.

    UserError if they are not the ones that ``asked`` means.
    """
    told = read_json(manifest)
    weights = manifest.parent / WORDS
    if told.get("config_sha256") != asked.config_sha256:
        raise UserError(f"{manifest}: made with another configuration than {asked.job} has now; bring the words again")
    if sha256_file(weights) != told["outputs"].get(WORDS):
        raise UserError(
            f"{weights}: not the embeddings that {manifest} names (its sha256 differs); bring the words again"
        )
    pieces = range(CLIP_EOT - 1) if vocabulary.pieces is None else vocabulary.pieces
    return load_weights(weights)["words"][torch.tensor([*pieces, CLIP_EOT])]
