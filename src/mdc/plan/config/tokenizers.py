"""Image tokenizers: an image becomes a grid of codes, each the index of a codebook vector."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.references import CorpusName, DatasetName
from mdc.plan.config.types import DataPath, NonNegative, Positive, Strict, Threads


class _Tokenizer(Strict):
    """An image of ``image_size``² pixels becomes (image_size / ``factor``)² codes."""

    label: str
    image_size: Positive
    factor: int

    @model_validator(mode="after")
    def _shape(self) -> Self:
        if self.factor < 2 or self.factor & (self.factor - 1):
            raise ValueError(f"factor = {self.factor}: a power of 2 is needed, as 8")
        if self.image_size % self.factor:
            raise ValueError(f"image_size = {self.image_size}: must be a multiple of the factor {self.factor}")
        return self


class TokenizerRecipe(Strict):
    """How a tokenizer is trained: by AdamW without weight decay, at a constant rate."""

    epochs: Positive
    batch_size: Positive
    lr: Annotated[float, Field(gt=0, lt=1)]
    seed: NonNegative = 0
    threads: Threads
    device: Literal["auto", "cpu", "cuda"]


class VqVae(_Tokenizer):
    """A VQ-VAE trained here, on the training images of ``corpus``: ``codes`` vectors of ``width`` numbers, convolutions of
    ``channels``. Its loss is the squared error of the pixels and ``commitment`` times that of the vectors."""

    kind: Literal["vq_vae"]
    corpus: CorpusName
    codes: Annotated[int, Field(ge=2, le=1 << 16)]
    width: Positive
    channels: Positive
    commitment: Annotated[float, Field(gt=0)] = 0.25
    recipe: TokenizerRecipe


class GumbelVqgan(_Tokenizer):
    """taming-transformers' Gumbel VQGAN with a factor of 8, which MC-Diffusion uses. ``path``: its checkpoint in the folder of
    ``dataset``, or without one under MDC_DATA."""

    kind: Literal["gumbel_vqgan"]
    dataset: DatasetName | None = None
    path: DataPath
    codes: Literal[8192] = 8192
    width: Literal[256] = 256


TokenizerEntry = Annotated[VqVae | GumbelVqgan, Field(discriminator="kind")]
