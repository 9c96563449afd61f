"""What the verbs are asked that bring frozen encoders and let them look at a corpus."""

from __future__ import annotations

from typing import Literal

from mdc.config import Backbone, Encode, EncoderEntry, Name
from mdc.jobs.job import Job


class EncoderJob(Job):
    """Bring the weights of an encoder, and keep them as safetensors.

    ``run``, ``run_config_sha256``, ``backbone`` and ``contrastive``: of an encoder that is a run's of ours, None (and False) of
    others.
    """

    verb: Literal["import-encoder"]
    name: Name
    entry: EncoderEntry
    run: str | None
    run_config_sha256: str | None
    backbone: Backbone | None
    contrastive: bool


class EncodedJob(Job):
    """The tokens that the encoder of the job ``encoder``, whose configuration has that hash, makes of a corpus's images."""

    verb: Literal["encode-corpus"]
    corpus: Name
    encoder: str
    encoder_config_sha256: str
    splits: list[Literal["train", "val"]]
    encode: Encode
