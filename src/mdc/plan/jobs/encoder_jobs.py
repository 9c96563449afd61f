"""The jobs of tokenizers and frozen encoders: making or bringing them, and letting them look at a corpus once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from mdc.plan import parts
from mdc.plan.config.backbones import FrozenBackbone, FrozenEncoderBackbone, FrozenTokens, FrozenWords
from mdc.plan.config.encoders import CodesTower, RunTower
from mdc.plan.config.tokenizers import VqVae
from mdc.plan.config.types import Strict
from mdc.plan.jobs.context import Context, once
from mdc.plan.jobs.encoder_model import (
    EncodedJob,
    EncoderJob,
    ImageTokensJob,
    TokenizerBehind,
    TokenizerJob,
    WordsJob,
)
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.model import PretrainJob

E = TypeVar("E", bound=Strict)


def wanted(plan: Context) -> list[Job]:
    """Every tokenizer and encoder that a run or a table asks for, then every corpus that it looks at for a run."""
    frozen = [(run, one) for run in plan.runs if (one := frozen_of(plan, run))]
    names = dict.fromkeys([*(one.frozen for _, one in frozen), *_probed(plan)])
    entries = [plan.scale.encoders[name] for name in names]
    found: list[Job] = [tokenizer(plan, entry.tokenizer) for entry in entries if isinstance(entry, CodesTower)]
    found += [words(plan, one.words) for _, one in frozen if one.words is not None]
    found += [encoder(plan, name) for name in names]
    found += [encoded(plan, one.frozen, plan.corpus_of(run)) for run, one in frozen]
    return list({job.job: job for job in found}.values())


def runs(plan: Context, others: Iterable[Run]) -> list[Run]:
    """The runs whose encoders ``others`` stand on, or that a table shows as a frozen one."""
    names = [*(one.frozen for run in others if (one := frozen_of(plan, run))), *_probed(plan)]
    entries = [plan.scale.encoders[name] for name in dict.fromkeys(names)]
    return [run_of(plan, entry) for entry in entries if isinstance(entry, RunTower)]


def _probed(plan: Context) -> list[str]:
    """The encoders of others that tables of probes show."""
    return [name for table in plan.scale.tables.probing().values() for name in table.encoders]


def run_of(plan: Context, entry: RunTower) -> Run:
    seed = plan.scale.training.seeds[0] if entry.seed is None else entry.seed
    return Run(entry.corpus, entry.backbone, entry.method, seed)


def frozen_of(plan: Context, run: Run) -> FrozenBackbone | None:
    """The backbone of a run that stands on a frozen encoder."""
    backbone = plan.scale.training.backbones[run.backbone]
    return backbone if isinstance(backbone, FrozenBackbone) else None


@once
def tokenizer(plan: Context, name: str) -> TokenizerJob:
    """The job that trains or brings a tokenizer."""
    entry, inputs = _nameless(plan.scale.tokenizers[name]), []
    if isinstance(entry, VqVae):
        inputs = [f"data/corpora/{entry.corpus}"]
    elif entry.dataset is not None:
        inputs = [f"data/obtained/{entry.dataset}"]
        path = str(Path(plan.scale.data.datasets[entry.dataset].path, entry.path))
        entry = entry.model_copy(update={"path": path})
    return plan.make(TokenizerJob, f"tokenizers/{name}", inputs, name=name, entry=entry)


def _nameless(entry: E) -> E:
    """An entry of a scale as jobs have it: without its label, which decides nothing."""
    return entry.model_copy(update={"label": ""})


@once
def encoder(plan: Context, name: str) -> EncoderJob:
    """The job that brings an encoder."""
    entry = plan.scale.encoders[name]
    trained = plan.pretrain(run_of(plan, entry)) if isinstance(entry, RunTower) else None
    codes = tokenizer(plan, entry.tokenizer) if isinstance(entry, CodesTower) else None
    return plan.make(
        EncoderJob,
        f"encoders/{name}",
        [one.job for one in (trained, codes) if one is not None],
        [parts.TOWERS[entry.kind]],
        name=name,
        entry=_nameless(entry),
        run=trained.job if trained else None,
        run_config_sha256=trained.sha256 if trained else None,
        backbone=trained.backbone if trained else None,
        contrastive=trained is not None and trained.method.objective == "contrastive",
        tokenizer=TokenizerBehind(job=codes.job, config_sha256=codes.sha256, entry=codes.entry) if codes else None,
    )


@once
def encoded(plan: Context, name: str, corpus: str) -> EncodedJob | ImageTokensJob:
    """The job in which an encoder looks at a corpus: what it leaves are vectors, or, of a tokenizer, codes."""
    entry = plan.scale.encoders[name]
    codes = isinstance(entry, CodesTower) and entry.quantised
    assert plan.scale.encode is not None  # the schema sees to it
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
    """An encoder's tokens, as jobs hold them."""
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
    """The job that brings embeddings of tokens."""
    return plan.make(WordsJob, f"words/{name}", [], name=name, entry=_nameless(plan.scale.words[name]))


def words_of(plan: Context, name: str) -> FrozenWords:
    """Embeddings of tokens, as jobs hold them."""
    imported = words(plan, name)
    return FrozenWords(job=imported.job, config_sha256=imported.sha256, width=imported.entry.width)


def behind(trained: PretrainJob) -> list[str]:
    """The encoder that whoever asks a run about images needs besides it."""
    return [trained.backbone.frozen.job] if isinstance(trained.backbone, FrozenEncoderBackbone) else []


def modules(plan: Context, trained: PretrainJob, ability: str) -> list[str]:
    """What is loaded by name to ask a run for an ability."""
    found = [parts.ABILITIES[ability], parts.OBJECTIVES[trained.method.objective]]
    for encoder in behind(trained):
        found.append(parts.TOWERS[plan.scale.encoders[encoder.removeprefix("encoders/")].kind])
    return found
