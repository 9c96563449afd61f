"""What MC-Diffusion adds to scales: image tokenizers, their codes as a frozen encoder, word embeddings, and the corpus CUB."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.kinds.encoders import Behind, MadeEncoder
from mdc.plan.config.kinds.sources import Captions, CorpusSource, Images, OfDataset, Split
from mdc.plan.config.references import DATASET, CorpusName, DatasetName, Ref
from mdc.plan.config.score import OpenClipModel
from mdc.plan.config.types import DataPath, HeldOut, Name, NonNegative, Positive, Strict, Threads

TokenizerName = Annotated[Name, Ref("tokenizers", "tokenizer (tokenizers)")]
WordsName = Annotated[Name, Ref("words", "entry of words")]


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


class CodesTower(MadeEncoder):
    """A ``tokenizer`` of the scale as an encoder: its tokens are the codebook vectors of an image's codes or, if not
    ``quantised``, the vectors before quantisation."""

    module = "mdc.extensions.mc_diffusion.image_tokenizers.codes"
    kind: Literal["codes"]
    tokenizer: TokenizerName
    quantised: bool = True

    def shape_in(self, scale: Any) -> tuple[int, int, int] | None:
        entry = scale.tokenizers.get(self.tokenizer)
        return None if entry is None else (entry.image_size, entry.factor, entry.width)


class CodesBehind(Behind):
    """A tokenizer."""

    kind: Literal["codes"]
    entry: TokenizerEntry


class WordEmbeddings(OpenClipModel):
    """The BPE token embeddings, of ``width`` numbers, of the text tower of a CLIP of open_clip."""

    width: Positive


class CubCorpus(CorpusSource, OfDataset, Images, Captions):
    """CUB-200-2011 with ten captions per image. ``val_fraction``: the share of training images, by a hash of their names, in val.
    ``split``: the test images as published with the images, or by classes as published with the captions."""

    module = "mdc.extensions.mc_diffusion.cub"
    kind: Literal["cub"]
    dataset: Annotated[Literal["cub200"], DATASET]
    split: Literal["images", "classes"] = "images"
    val_fraction: HeldOut = 0.0
    splits: list[Split] = Field(default=["train", "val", "test"])


KINDS = (CodesTower, CodesBehind, CubCorpus)
SECTIONS = {"tokenizers": TokenizerEntry, "words": WordEmbeddings}
