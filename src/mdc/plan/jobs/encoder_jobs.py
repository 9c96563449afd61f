"""The jobs of frozen encoders: importing them, and encoding corpora."""

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Any

from mdc.plan import parts
from mdc.plan.config.kinds.backbones import Backbone, FrozenBackbone, FrozenEncoderBackbone, FrozenTokens
from mdc.plan.config.kinds.encoders import Behind, Encoder, MadeEncoder, RunTower
from mdc.plan.config.kinds.known import RunBehind
from mdc.plan.jobs.context import Context, once
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.model import EncodedJob, EncoderJob, PretrainJob


def runs(plan: Context, others: Iterable[Run]) -> list[Run]:
    """The runs whose encoders are the frozen encoders of ``others``, or of a row of a table."""
    names = [*(backbone.frozen for run in others if (backbone := frozen_of(plan, run))), *_probed(plan)]
    entries = [plan.scale.encoders[name] for name in dict.fromkeys(names)]
    return [plan.run_of(entry) for entry in entries if isinstance(entry, RunTower)]


def _probed(plan: Context) -> list[str]:
    """The external encoders in tables of probes."""
    return [name for table in plan.scale.tables.needing("probe").values() for name in table.encoders]


def frozen_of(plan: Context, run: Run) -> FrozenBackbone | None:
    """The backbone of a run with a frozen encoder; None for others."""
    backbone = plan.scale.training.backbones[run.backbone]
    return backbone if isinstance(backbone, FrozenBackbone) else None


def _run(plan: Context, entry: RunTower) -> RunBehind:
    trained = plan.pretrain(plan.run_of(entry))
    assert isinstance(trained.backbone, Backbone)  # others are refused
    return RunBehind(
        kind="run",
        job=trained.job,
        config_sha256=trained.sha256,
        file="checkpoint.safetensors" if entry.weights == "last" else "best.safetensors",
        backbone=trained.backbone,
        contrastive=trained.method.embeds_captions,
    )


@cache
def _makers() -> dict[str, Callable[[Context, Any], Behind]]:
    """Kind of an encoder that the scale makes → what it is made from; extensions have theirs as ``BEHIND``."""
    modules = map(import_module, parts.EXTENDING["jobs"])
    return {"run": _run, **{kind: maker for module in modules for kind, maker in getattr(module, "BEHIND", {}).items()}}


@once
def encoder(plan: Context, name: str) -> EncoderJob:
    """The job that imports an encoder."""
    entry = plan.scale.encoders[name]
    behind = _makers()[entry.kind](plan, entry) if isinstance(entry, MadeEncoder) else None
    return plan.make(
        EncoderJob,
        f"encoders/{name}",
        [behind.job] if behind is not None else [],
        tower_modules(entry, behind),
        name=name,
        entry=entry.but(label=""),
        behind=behind,
    )


@once
def encoded(plan: Context, name: str, corpus: str) -> EncodedJob:
    """The job that encodes a corpus."""
    assert plan.scale.encode is not None  # checked by the schema
    imported = encoder(plan, name)
    return plan.make(
        EncodedJob,
        f"encoded/{name}/{corpus}",
        [imported.job, f"data/corpora/{corpus}"],
        tower_modules(imported.entry, imported.behind),
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


def behind(trained: PretrainJob) -> list[str]:
    """The job of a run's frozen encoder, which is needed besides the run to process images; empty without one."""
    return [trained.backbone.frozen.job] if isinstance(trained.backbone, FrozenEncoderBackbone) else []


def modules(plan: Context, trained: PretrainJob, *abilities: str) -> list[str]:
    """The modules that are loaded by name for the abilities of a run."""
    names = [parts.ABILITIES[ability] for ability in abilities if ability in parts.ABILITIES]
    names += [trained.method.abilities[ability] for ability in ("train", *abilities)]
    for name in behind(trained):
        imported = encoder(plan, name.removeprefix("encoders/"))
        names += tower_modules(imported.entry, imported.behind)
    return [*names, *trained.backbone.module_names]


def tower_modules(entry: Encoder, behind: Behind | None) -> list[str]:
    """The modules that are loaded by name to encode images with a frozen encoder; if it is a run's, its backbone's too."""
    return [entry.module, *([behind.backbone.module] if isinstance(behind, RunBehind) else [])]
