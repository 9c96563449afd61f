"""The jobs of image tokenizers and of word embeddings."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mdc.extensions.mc_diffusion.kinds import CodesBehind, CodesTower, TokenizerEntry, VqVae, WordEmbeddings
from mdc.plan.config.types import Name, no_such
from mdc.plan.jobs.job import Job
from mdc.plan.records import UserError

if TYPE_CHECKING:  # reading a job imports this module
    from mdc.plan.jobs.context import Context


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


def tokenizer(plan: "Context", name: str) -> TokenizerJob:
    """The job that trains or imports a tokenizer."""
    scale: Any = plan.scale
    entry, inputs = scale.tokenizers[name].but(label=""), []
    if isinstance(entry, VqVae):
        inputs = [f"data/corpora/{entry.corpus}"]
    elif entry.dataset is not None:
        inputs = [f"data/obtained/{entry.dataset}"]
        entry = entry.but(path=str(Path(scale.data.datasets[entry.dataset].path, entry.path)))
    return plan.make(TokenizerJob, f"tokenizers/{name}", inputs, name=name, entry=entry)


def _behind(plan: "Context", entry: CodesTower) -> CodesBehind:
    made = tokenizer(plan, entry.tokenizer)
    return CodesBehind(
        kind="codes", job=made.job, config_sha256=made.sha256, file="tokenizer.safetensors", entry=made.entry
    )


#: kind of an encoder that the scale makes → what it is made from
BEHIND = {"codes": _behind}


def words(plan: "Context", name: str) -> WordsJob:
    """The job that imports embeddings of tokens. UserError if the scale has no ``name`` under ``words``."""
    scale: Any = plan.scale
    if name not in scale.words:
        raise UserError(f"{plan.file}: {no_such('words', name, scale.words, 'entry of words')}")
    return plan.make(WordsJob, f"words/{name}", [], name=name, entry=scale.words[name].but(label=""))
