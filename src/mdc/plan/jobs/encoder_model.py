"""The typed jobs of tokenizers, embeddings, frozen encoders and encoded corpora."""

from typing import Literal

from mdc.plan.config.backbones import TrainedBackbone
from mdc.plan.config.encoders import Encode, EncoderEntry, WordEmbeddings
from mdc.plan.config.tokenizers import TokenizerEntry
from mdc.plan.config.types import Name, Strict
from mdc.plan.jobs.job import Job


class TokenizerJob(Job):
    """Train an image tokenizer, or import a pretrained one, as safetensors."""

    verb: Literal["tokenizer"]
    name: Name
    entry: TokenizerEntry


class TokenizerBehind(Strict):
    """The tokenizer of the job ``job`` with this configuration hash, from ``entry``."""

    job: str
    config_sha256: str
    entry: TokenizerEntry


class WordsJob(Job):
    """Import embeddings of BPE tokens as safetensors."""

    verb: Literal["import-words"]
    name: Name
    entry: WordEmbeddings


class EncoderJob(Job):
    """Import the weights of an encoder as safetensors.

    ``run``, ``run_config_sha256``, ``backbone`` and ``contrastive``: of an encoder of one of our runs, otherwise None (and
    False). ``tokenizer``: of an encoder that is a tokenizer of the scale.
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
    """The outputs for a corpus's images of the encoder of the job ``encoder`` with this configuration hash."""

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
