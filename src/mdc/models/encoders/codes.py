"""A tokenizer of the scale as a frozen encoder: its tokens are vectors of codes, or those that it looks codes up for."""

from pathlib import Path
from typing import Any

from torch import Tensor

from mdc.models.encoders.tower import Tower, fill
from mdc.models.tokenizers.gumbel_vqgan import GumbelTokenizer
from mdc.models.tokenizers.vq_vae import VqTokenizer, pixels
from mdc.models.weights import load_weights
from mdc.plan.config.encoders import CodesTower
from mdc.plan.config.tokenizers import TokenizerEntry, VqVae
from mdc.plan.jobs.model import EncoderJob


class CodesEncoder(Tower):
    """Its feature is the mean of its tokens. ``quantised``: whether these are vectors of codes."""

    def __init__(self, entry: TokenizerEntry, quantised: bool) -> None:
        super().__init__((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        self.tokenizer: Any = tokenizer_of(entry)
        self.quantised = quantised

    def prepared(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) uint8 → float32 in [−1, 1]."""
        return pixels(images)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        tokens = self.tokenizer.codebook[self.codes(images)] if self.quantised else self.tokenizer.vectors(images)
        return tokens.mean(dim=1), tokens

    def codes(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) as ``prepared`` gives them → (B, M) int64."""
        return self.tokenizer.codes(self.tokenizer.vectors(images))

    def learnt(self) -> int:
        """Those of the tokenizer that make tokens: not what makes images of codes, nor, of vectors before codes, the codes."""
        unused = ("decoder.",) if self.quantised else ("decoder.", "projection.", "codebook")
        return sum(value.numel() for name, value in self.tokenizer.state_dict().items() if not name.startswith(unused))


def tokenizer_of(entry: TokenizerEntry) -> VqTokenizer | GumbelTokenizer:
    """The architecture of a tokenizer, without weights."""
    return VqTokenizer(entry) if isinstance(entry, VqVae) else GumbelTokenizer(entry)


def tower(job: EncoderJob, root: Path | None = None, checkpoint: Path | None = None) -> CodesEncoder:
    """The weights are those of the tokenizer's ``checkpoint``."""
    assert job.tokenizer is not None and isinstance(job.entry, CodesTower)
    built = CodesEncoder(job.tokenizer.entry, job.entry.quantised)
    if checkpoint is not None:
        fill(built.tokenizer, load_weights(checkpoint), checkpoint)
    return built
