"""From validated parameters to the jobs of the current scale.

A job holds only the values of the scale that decide its result, its seed, the names of its inputs, and the fingerprint of the
code that it runs. The workflow writes each to ``results/<scale>/configs/<job>.<hash>.json`` and uses that file as the job's
input, so editing a value reruns exactly the jobs whose configuration changes.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from mdc.plan import parts
from mdc.plan.config.kinds.backbones import Backbone, FrozenBackbone, FrozenEncoderBackbone, visual_contexts
from mdc.plan.config.kinds.heads import LINEAR, Features, Probe
from mdc.plan.config.kinds.sources import ScenesCorpus
from mdc.plan.config.layers import scale_file
from mdc.plan.config.types import Strict
from mdc.plan.jobs import caption_jobs, encoder_jobs
from mdc.plan.jobs.artefact_plans import artefact_job
from mdc.plan.jobs.context import Context, Encoder, once
from mdc.plan.jobs.data_plans import downloads, parts_of
from mdc.plan.jobs.ids import Frozen, Run, Snapshot, Untrained, probe_of
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.model import (
    ChoiceSetJob,
    CorpusJob,
    ObtainJob,
    PretrainJob,
    ProbeJob,
    ProbeSetJob,
    Protocol,
    Selected,
    SelectLrJob,
    Start,
    TextsJob,
    VocabularyJob,
)
from mdc.plan.records import UserError, did_you_mean, sha256_json

#: section of the scale's data → the class of its sets' jobs
_SETS: dict[str, type[Job]] = {
    "corpora": CorpusJob,
    "probes": ProbeSetJob,
    "choices": ChoiceSetJob,
    "texts": TextsJob,
}


class Plan(Context):
    """The jobs of ``params``' current scale."""

    @cached_property
    def jobs(self) -> dict[str, Job]:
        """Every job by its name, each after its inputs. Making a job makes those whose hash it needs, so a table makes what it
        shows; data and runs may be in no table."""
        data = self.scale.data
        for name in data.datasets:
            self.obtain(name)
        for section in _SETS:
            for name in getattr(data, section):
                self.set_of(section, name)
        for name in data.vocabularies:
            self.vocabulary(name)
        for run in self.runs:
            self.pretrain(run)
        shown = {name: artefact_job(self, name) for name in self.scale.tables}
        # runs, which may have been made before, need data by name
        return dict(sorted(self.made.items(), key=lambda item: not item[0].startswith("data/"))) | shown

    def not_named(self, artefact: str) -> str:
        """The message for a table or figure that the scale does not name."""
        hint = "" if artefact in self.params.declared else did_you_mean(artefact, self.scale.tables)
        return f"scale {self.params.scale} names no {artefact}{hint}; it has {', '.join(self.scale.tables) or 'none'}"

    def no_target(self, target: str, known: Iterable[str]) -> str:
        """The message for a target of Snakemake that is none of the ``known`` ones."""
        scale = next(iter(target.removeprefix("results/").split("/")))
        if scale != self.params.scale and scale_file("params.yaml", scale).is_file():
            return f"{target}: of scale {scale}, and this call is for {self.params.scale}; --config scale={scale} chooses it"
        return f"{target}: nothing makes this{did_you_mean(target, known)}"

    def no_job(self, name: str) -> str:
        """The message for a name that is no job of the scale."""
        scale = self.params.scale
        hint = did_you_mean(name, self.jobs)
        return f"scale {scale} has no job '{name}'{hint}; `mdc config list --scale {scale}` names all"

    # --- runs ---------------------------------------------------------------------------------------------------------

    @cached_property
    def runs(self) -> list[Run]:
        """Every run that the tables and figures need, each once, in their order. UserError if two are the same."""
        tables = self.scale.tables
        shown = [*tables.needing("probe").values(), *tables.needing("score").values(), *tables.values()]
        needed = dict.fromkeys(run for table in shown for run in self.runs_of(table))
        needed |= dict.fromkeys(caption_jobs.runs(self))
        needed |= dict.fromkeys(encoder_jobs.runs(self, needed))
        self._no_twins(needed)
        return list(needed)

    @cached_property
    def probes_of(self) -> dict[tuple[Encoder, str], list[str]]:
        """(encoder, head) → the probes that the tables need, in the scale's order."""
        needed: dict[tuple[Encoder, str], set[str]] = {}
        for table in self.scale.tables.needing("probe").values():
            for key in itertools.product(self.encoders_of(table), table.head_names):
                needed.setdefault(key, set()).update(table.shown)
        return {key: [name for name in self.scale.data.probes if name in shown] for key, shown in needed.items()}

    def _no_twins(self, runs: Iterable[Run]) -> None:
        names = ("job", "inputs", "corpus", "backbone_name", "method_name")
        seen: dict[str, Run] = {}
        for run in runs:
            decisive = {key: value for key, value in self.pretrain(run).config().items() if key not in names}
            source = self.resolved_source(self.scale.data.corpora[self.corpus_of(run)].source)
            key = sha256_json({"source": source.complete(), **decisive})
            if key in seen:
                raise UserError(
                    f"{self.file}: runs {seen[key].id} and {run.id} have equal configurations; give one of them a value of its "
                    "own or use one id for both"
                )
            seen[key] = run

    def _backbone(self, name: str) -> Backbone | FrozenEncoderBackbone:
        """A backbone as jobs have it: without its label, and with the shape of a frozen encoder's tokens."""
        backbone = self.scale.training.backbones[name]
        if not isinstance(backbone, FrozenBackbone):
            return backbone.model_copy(update={"label": ""})
        tokens = encoder_jobs.tokens(self, backbone.frozen)
        return FrozenEncoderBackbone(label="", image_size=tokens.image_size, frozen=tokens, decoder=backbone.decoder)

    def _start(self, run: Run) -> Start | None:
        """The start of a finetuned run and its early stopping; None for any other run."""
        if not run.finetune:
            return None
        before, finetune = self.pretrain(run.pretrained), self.finetuning(run)
        values = finetune.model_dump(include={"weights", "patience", "canvas"}, context="complete")
        return Start(run=before.job, config_sha256=before.sha256, **values)

    def select_lr(self, run: Run) -> SelectLrJob | None:
        """The job that chooses the learning rate of a run, and of those that differ in their seeds alone; None where its recipe
        has a rate. UserError if the run trains no encoder that could be probed."""
        selection = self.scale.training.lr_selection
        if selection is None or run.finetune or run.lr:
            return None
        if not isinstance(self.scale.training.backbones[run.backbone], Backbone):
            said = "trains no encoder, so a probe (lr_selection.by) cannot choose its learning rate"
            raise UserError(f"{self.file}: run {run.id}: {run.backbone} {said}")
        tried = []
        for lr in selection.grid:
            runs = [replace(run, seed=seed, lr=lr) for seed in selection.seeds]
            held_out = {"held_out": selection.held_out}
            probes = [self.probe_job(one.id, "linear", [selection.by], {**self._own(one), **held_out}) for one in runs]
            tried.append((lr, {probe.job: probe.sha256 for probe in probes}))
        inputs = [job for _, jobs in tried for job in jobs]
        return self.make(SelectLrJob, f"lr/{run.system}", inputs, by=selection.by, tried=tried)

    # --- one job each -------------------------------------------------------------------------------------------------

    def obtain(self, name: str) -> Job:
        behind = [job.job for job in downloads(self, name)]
        return self.make(ObtainJob, f"data/obtained/{name}", behind, **self.obtaining(name))

    def set_of(self, section: str, name: str) -> Job:
        """The job of a set of a section of the scale's data: ``corpora``, ``probes``, ``choices`` or ``texts``."""
        kind = _SETS[section]
        data = self.scale.data
        source = getattr(data, section)[name].source
        behind = parts_of(self, name) if section == "corpora" else []
        values = {
            "samples_per_shard": data.samples_per_shard,
            "max_skipped": data.max_skipped,
            "protocol": self.params.protocol.data,
        }
        return self.make(
            kind,
            f"data/{section}/{name}",
            [*(self.obtain(dataset).job for dataset in datasets_of(source)), *behind],
            [source.module],
            name=name,
            source=self.resolved_source(source),
            **{key: value for key, value in values.items() if key in kind.model_fields},
        )

    def corpus(self, name: str) -> Job:
        return self.set_of("corpora", name)

    def vocabulary(self, name: str) -> Job:
        listed = self.scale.data.vocabularies[name]
        named = [] if listed == "full" else listed
        corpora = [key for key in named if key in self.scale.data.corpora]
        choices = [key for key in named if key not in self.scale.data.corpora]
        return self.make(
            VocabularyJob,
            f"data/vocabularies/{name}",
            [*(f"data/corpora/{key}" for key in corpora), *(f"data/choices/{key}" for key in choices)],
            name=name,
            kind="full" if listed == "full" else "corpus",
            corpora=corpora,
            choices=choices,
        )

    def _check_fits(self, run: Run) -> None:
        """UserError for a run whose method does not fit its backbone, whose decoder cannot read its corpus's images, or that has
        too few pairs for a batch."""
        backbone, corpus = self.scale.training.backbones[run.backbone], self.corpus_of(run)
        method, where = self.params.methods[run.method], f"{self.file}: run {run.id}:"
        source, batch = self.scale.data.corpora[corpus].source, self.recipe(run).batch_size
        if isinstance(source, ScenesCorpus) and source.train < batch:
            raise UserError(
                f"{where} data.corpora.{corpus}.source.train = {source.train}: fewer than one batch of {batch}"
            )
        for problem in method.misfits(run.method, backbone, f"pretrain.backbones.{run.backbone}"):
            raise UserError(f"{where} {problem}")
        if not isinstance(backbone, Backbone):
            return
        allowed = [name for name, one in visual_contexts().items() if not one.corpora or source.kind in one.corpora]
        if backbone.visual_context not in allowed:
            raise UserError(
                f"{where} pretrain.backbones.{run.backbone}.visual_context = {backbone.visual_context}: cannot read a corpus "
                f"of kind {source.kind} ({corpus}); allowed here: {', '.join(allowed)}"
            )

    @once
    def pretrain(self, run: Run) -> PretrainJob:
        self._check_fits(run)
        frozen = encoder_jobs.frozen_of(self, run)
        corpus, vocabulary = self.corpus_of(run), self.scale.vocabulary_of(run.corpus)
        method, needed = self.method(run).needed(self, run)
        selecting = self.select_lr(run)
        backbone, protocol = self._backbone(run.backbone), self.params.protocol
        return self.make(
            PretrainJob,
            f"runs/{run.id}",
            [
                *([f"runs/{run.pretrained.id}"] if run.finetune else []),
                f"data/corpora/{corpus}",
                f"data/vocabularies/{vocabulary}",
                *([encoder_jobs.encoded(self, frozen.frozen, corpus).job] if frozen else []),
                *([selecting.job] if selecting else []),
                *needed,
            ],
            [method.abilities["train"], *backbone.module_names],
            corpus=corpus,
            vocabulary=vocabulary,
            backbone_name=run.backbone,
            method_name=run.method,
            seed=run.seed,
            backbone=backbone,
            method=method,
            recipe=self.recipe(run),
            protocol=Protocol(data=protocol.data, pretrain=protocol.pretrain),
            start=self._start(run),
            lr=selecting and Selected(job=selecting.job, config_sha256=selecting.sha256),
        )

    @once
    def probe(self, encoder: Encoder, head: str) -> ProbeJob:
        values = self.frozen_values(encoder) if isinstance(encoder, Frozen) else self._own(encoder)
        return self.probe_job(encoder.id, head, self.probes_of[encoder, head], values)

    def probe_job(self, encoder: str, head: str, probes: list[str], values: dict[str, Any]) -> ProbeJob:
        """The job of these ``probes`` of an encoder by a head; ``values``: as from :meth:`frozen_values`."""
        probe = self.scale.probe
        assert probe is not None  # checked by the schema
        entry = probe.every[head]
        return self.make(
            ProbeJob,
            probe_of(encoder, head),
            [*values.pop("behind"), *(f"data/probes/{name}" for name in probes)],
            [parts.ABILITIES["encode"], entry.module if entry else LINEAR, *values.pop("modules")],
            probes=probes,
            recipe=probe.model_dump(include=set((Features if entry else Probe).model_fields)),
            head=entry and entry.model_copy(update={"label": ""}),
            protocol=self.params.protocol.probe,
            **values,
        )

    def _own(self, encoder: Run | Snapshot | Untrained) -> dict[str, Any]:
        """A probe job's values for an encoder of ours: the encoder, its inputs (``behind``) and the modules that it loads."""
        if isinstance(encoder, Snapshot):
            return {**self._own(encoder.run), "snapshot": encoder.share}
        trained = self.pretrain(encoder) if isinstance(encoder, Run) else None
        backbone = self._backbone(encoder.backbone)
        assert isinstance(backbone, Backbone)  # others train no encoder
        return {
            "behind": [trained.job] if trained else [],
            "modules": [backbone.module],
            "backbone_name": encoder.backbone,
            "backbone": backbone,
            "seed": encoder.seed,
            "pooling": self.params.methods[encoder.method].pooling if isinstance(encoder, Run) else encoder.pooling,
            "run": trained.job if trained else None,
            "run_config_sha256": trained.sha256 if trained else None,
        }

    def frozen_values(self, encoder: Frozen) -> dict[str, Any]:
        """The same for an external encoder, which defines its own feature."""
        imported = encoder_jobs.encoder(self, encoder.name)
        return {
            "behind": [imported.job],
            "modules": encoder_jobs.tower_modules(imported.entry, imported.behind),
            "backbone_name": encoder.name,
            "backbone": encoder_jobs.tokens(self, encoder.name),
            "seed": 0,
            "pooling": "cls",
            "run": None,
            "run_config_sha256": None,
        }

    # --- ancestors -----------------------------------------------------------------------------------------------------

    def ancestors(self, job: str) -> Iterator[str]:
        """The direct and indirect inputs of ``job``, each once, the nearest first."""
        waiting, seen = list(self.jobs[job].inputs), set()
        while waiting:
            name = waiting.pop(0)
            if name not in seen:
                seen.add(name)
                yield name
                waiting += self.jobs[name].inputs


def datasets_of(source: Strict) -> list[str]:
    """The datasets of the scale that a source reads."""
    named = (getattr(source, key, None) for key in ("dataset", "images_from"))
    return list(dict.fromkeys(name for name in named if name is not None))
