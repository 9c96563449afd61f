"""A tokenizer of the scale as a frozen encoder: its tokens are vectors of codes, or those that it looks codes up for."""

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from mdc.data.loader.precomputed_tokens import CODEBOOK
from mdc.extensions.mc_diffusion.image_tokenizers.gumbel_vqgan import GumbelTokenizer
from mdc.extensions.mc_diffusion.image_tokenizers.vq_vae import VqTokenizer, perplexity, pixels
from mdc.extensions.mc_diffusion.kinds import CodesBehind, CodesTower, TokenizerEntry, VqVae
from mdc.models.encoders.tower import Lines, Tower, fill
from mdc.models.weights import load_weights
from mdc.plan.jobs.model import EncoderJob
from mdc.plan.records import atomic_path


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

    def stored(self, images: Tensor) -> np.ndarray:
        """Codes (B, M) uint16, or vectors as any encoder's."""
        if not self.quantised:
            return super().stored(images)
        return np.asarray(self.codes(images).cpu().numpy().astype(np.uint16))

    def finish(self, out: Path, lines: Lines) -> tuple[list[Path], dict[str, Any]]:
        """``codebook.npy`` (K, E) float16, the vector of each code, and how often codes occur."""
        if not self.quantised:
            return super().finish(out, lines)
        codebook = out / CODEBOOK
        with atomic_path(codebook) as temporary, temporary.open("wb") as file:
            np.save(file, self.tokenizer.codebook.half().cpu().numpy(), allow_pickle=False)
        counted = np.zeros(len(self.tokenizer.codebook), dtype=np.int64)
        for line in lines.get("train", []):
            counted += np.bincount(np.load(out / line["file"]).ravel(), minlength=len(counted))
        used = int((counted > 0).sum())
        return [codebook], {"codes": len(counted), "used": used, "perplexity": perplexity(counted)}

    def learnt(self) -> int:
        """Those of the tokenizer that make tokens: not what makes images of codes, nor, of vectors before codes, the codes."""
        unused = ("decoder.",) if self.quantised else ("decoder.", "projection.", "codebook")
        return sum(value.numel() for name, value in self.tokenizer.state_dict().items() if not name.startswith(unused))


def tokenizer_of(entry: TokenizerEntry) -> VqTokenizer | GumbelTokenizer:
    """The architecture of a tokenizer, without weights."""
    return VqTokenizer(entry) if isinstance(entry, VqVae) else GumbelTokenizer(entry)


def tower(job: EncoderJob, root: Path | None = None, checkpoint: Path | None = None) -> CodesEncoder:
    """The weights are those of the tokenizer's ``checkpoint``."""
    assert isinstance(job.behind, CodesBehind) and isinstance(job.entry, CodesTower)
    built = CodesEncoder(job.behind.entry, job.entry.quantised)
    if checkpoint is not None:
        fill(built.tokenizer, load_weights(checkpoint), checkpoint)
    return built
