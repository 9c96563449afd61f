"""What the verbs are asked that bring frozen encoders and let them look at a corpus."""

from __future__ import annotations

from typing import Literal

from mdc.plan.config.backbones import TrainedBackbone
from mdc.plan.config.encoders import Encode, EncoderEntry, WordEmbeddings
from mdc.plan.config.tokenizers import TokenizerEntry
from mdc.plan.config.types import Name, Strict
from mdc.plan.jobs.job import Job


class TokenizerJob(Job):
    """Train a tokenizer of images, or bring one that others trained, and keep it as safetensors."""

    verb: Literal["tokenizer"]
    name: Name
    entry: TokenizerEntry


class TokenizerBehind(Strict):
    """The tokenizer that the job ``job``, whose configuration has that hash, makes from ``entry``."""

    job: str
    config_sha256: str
    entry: TokenizerEntry


class WordsJob(Job):
    """Bring embeddings of BPE tokens, and keep them as safetensors."""

    verb: Literal["import-words"]
    name: Name
    entry: WordEmbeddings


class EncoderJob(Job):
    """Bring the weights of an encoder, and keep them as safetensors.

    ``run``, ``run_config_sha256``, ``backbone`` and ``contrastive``: of an encoder that is a run's of ours, None (and False) of
    others. ``tokenizer``: of one that is a tokenizer of the scale.
    """

    verb: Literal["import-encoder"]
    name: Name
    entry: EncoderEntry
    run: str | None
    run_config_sha256: str | None
    backbone: TrainedBackbone | None
    contrastive: bool
    tokenizer: TokenizerBehind | None = None


class _OfImagesJob(Job):
    """What the encoder of the job ``encoder``, whose configuration has that hash, makes of a corpus's images."""

    corpus: Name
    encoder: str
    encoder_config_sha256: str
    splits: list[Literal["train", "val"]]
    encode: Encode


class ImageTokensJob(_OfImagesJob):
    """Their codes."""

    verb: Literal["image-tokens"]


class EncodedJob(_OfImagesJob):
    """Their tokens."""

    verb: Literal["encode-corpus"]
