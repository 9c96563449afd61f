"""The jobs of tokenizers and frozen encoders: training or importing them, and encoding corpora."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from mdc.plan import parts
from mdc.plan.config.backbones import FrozenBackbone, FrozenEncoderBackbone, FrozenTokens, FrozenWords
from mdc.plan.config.encoders import CodesTower, RunTower
from mdc.plan.config.tokenizers import VqVae
from mdc.plan.config.types import Strict
from mdc.plan.jobs.context import Context, once
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.model import (
    EncodedJob,
    EncoderJob,
    ImageTokensJob,
    PretrainJob,
    TokenizerBehind,
    TokenizerJob,
    WordsJob,
)

E = TypeVar("E", bound=Strict)


def runs(plan: Context, others: Iterable[Run]) -> list[Run]:
    """The runs whose encoders are the frozen encoders of ``others``, or of a row of a table."""
    names = [*(backbone.frozen for run in others if (backbone := frozen_of(plan, run))), *_probed(plan)]
    entries = [plan.scale.encoders[name] for name in dict.fromkeys(names)]
    return [run_of(plan, entry) for entry in entries if isinstance(entry, RunTower)]


def _probed(plan: Context) -> list[str]:
    """The external encoders in tables of probes."""
    return [name for table in plan.scale.tables.needing("probe").values() for name in table.encoders]


def run_of(plan: Context, entry: RunTower) -> Run:
    seed = plan.scale.training.seeds[0] if entry.seed is None else entry.seed
    return Run(entry.corpus, entry.backbone, entry.method, seed)


def frozen_of(plan: Context, run: Run) -> FrozenBackbone | None:
    """The backbone of a run with a frozen encoder; None for others."""
    backbone = plan.scale.training.backbones[run.backbone]
    return backbone if isinstance(backbone, FrozenBackbone) else None


@once
def tokenizer(plan: Context, name: str) -> TokenizerJob:
    """The job that trains or imports a tokenizer."""
    entry, inputs = _nameless(plan.scale.tokenizers[name]), []
    if isinstance(entry, VqVae):
        inputs = [f"data/corpora/{entry.corpus}"]
    elif entry.dataset is not None:
        inputs = [f"data/obtained/{entry.dataset}"]
        path = str(Path(plan.scale.data.datasets[entry.dataset].path, entry.path))
        entry = entry.model_copy(update={"path": path})
    return plan.make(TokenizerJob, f"tokenizers/{name}", inputs, name=name, entry=entry)


def _nameless(entry: E) -> E:
    """An entry of a scale as jobs have it: without its label, which decides no result."""
    return entry.model_copy(update={"label": ""})


@once
def encoder(plan: Context, name: str) -> EncoderJob:
    """The job that imports an encoder."""
    entry = plan.scale.encoders[name]
    trained = plan.pretrain(run_of(plan, entry)) if isinstance(entry, RunTower) else None
    codes = tokenizer(plan, entry.tokenizer) if isinstance(entry, CodesTower) else None
    return plan.make(
        EncoderJob,
        f"encoders/{name}",
        [job.job for job in (trained, codes) if job is not None],
        [parts.TOWERS[entry.kind]],
        name=name,
        entry=_nameless(entry),
        run=trained.job if trained else None,
        run_config_sha256=trained.sha256 if trained else None,
        backbone=trained.backbone if trained else None,
        contrastive=trained is not None and trained.method.embeds_captions,
        tokenizer=TokenizerBehind(job=codes.job, config_sha256=codes.sha256, entry=codes.entry) if codes else None,
    )


@once
def encoded(plan: Context, name: str, corpus: str) -> EncodedJob | ImageTokensJob:
    """The job that encodes a corpus: to vectors or, by a tokenizer, to codes."""
    entry = plan.scale.encoders[name]
    codes = isinstance(entry, CodesTower) and entry.quantised
    assert plan.scale.encode is not None  # checked by the schema
    imported = encoder(plan, name)
    kind: type[EncodedJob | ImageTokensJob] = ImageTokensJob if codes else EncodedJob
    return plan.make(
        kind,
        f"{'image-tokens' if codes else 'encoded'}/{name}/{corpus}",
        [imported.job, f"data/corpora/{corpus}"],
        [parts.TOWERS[imported.entry.kind]],
        corpus=corpus,
        encoder=imported.job,
        encoder_config_sha256=imported.sha256,
        splits=["train", "val"],
        encode=plan.scale.encode,
    )


def tokens(plan: Context, name: str) -> FrozenTokens:
    """An encoder's tokens as jobs have them."""
    entry, imported = plan.scale.encoders[name], encoder(plan, name)
    return FrozenTokens(
        job=imported.job,
        config_sha256=imported.sha256,
        image_size=entry.image_size,
        tokens=entry.tokens,
        width=entry.width,
    )


@once
def words(plan: Context, name: str) -> WordsJob:
    """The job that imports embeddings of tokens."""
    return plan.make(WordsJob, f"words/{name}", [], name=name, entry=_nameless(plan.scale.words[name]))


def words_of(plan: Context, name: str) -> FrozenWords:
    """Embeddings of tokens as jobs have them."""
    imported = words(plan, name)
    return FrozenWords(job=imported.job, config_sha256=imported.sha256, width=imported.entry.width)


def behind(trained: PretrainJob) -> list[str]:
    """The job of a run's frozen encoder, which is needed besides the run to process images; empty without one."""
    return [trained.backbone.frozen.job] if isinstance(trained.backbone, FrozenEncoderBackbone) else []


def modules(plan: Context, trained: PretrainJob, *abilities: str) -> list[str]:
    """The modules that are loaded by name for the abilities of a run."""
    names = [parts.ABILITIES[ability] for ability in abilities if ability in parts.ABILITIES]
    names += [trained.method.abilities[ability] for ability in ("train", *abilities)]
    for encoder in behind(trained):
        names.append(parts.TOWERS[plan.scale.encoders[encoder.removeprefix("encoders/")].kind])
    return names
