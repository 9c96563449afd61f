"""The jobs of image tokenizers and of word embeddings."""

from pathlib import Path
from typing import Any, Literal

from mdc.extensions.mc_diffusion.kinds import TokenizerEntry, VqVae, WordEmbeddings
from mdc.plan.config.types import Name
from mdc.plan.jobs.context import Context, once
from mdc.plan.jobs.job import Job


class TokenizerJob(Job):
    """Train an image tokenizer, or import a pretrained one, as safetensors."""

    verb: Literal["tokenizer"]
    name: Name
    entry: TokenizerEntry


class WordsJob(Job):
    """Import embeddings of BPE tokens as safetensors."""

    verb: Literal["import-words"]
    name: Name
    entry: WordEmbeddings


@once
def tokenizer(plan: Context, name: str) -> TokenizerJob:
    """The job that trains or imports a tokenizer."""
    scale: Any = plan.scale
    entry, inputs = scale.tokenizers[name].but(label=""), []
    if isinstance(entry, VqVae):
        inputs = [f"data/corpora/{entry.corpus}"]
    elif entry.dataset is not None:
        inputs = [f"data/obtained/{entry.dataset}"]
        entry = entry.but(path=str(Path(scale.data.datasets[entry.dataset].path, entry.path)))
    return plan.make(TokenizerJob, f"tokenizers/{name}", inputs, name=name, entry=entry)


@once
def words(plan: Context, name: str) -> WordsJob:
    """The job that imports embeddings of tokens."""
    scale: Any = plan.scale
    return plan.make(WordsJob, f"words/{name}", [], name=name, entry=scale.words[name].but(label=""))
