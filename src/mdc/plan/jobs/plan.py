"""From validated parameters to the jobs of the current scale.

A job holds the values of params.yaml that decide its result, its seed, the names of its inputs, and the fingerprint of
the code that it runs; nothing else. The workflow writes each to ``results/<scale>/configs/<job>.<hash>.json`` and takes that file
as the job's input, so editing a value reruns the jobs whose configuration changes, and no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from mdc.plan import parts
from mdc.plan.config.backbones import FrozenBackbone
from mdc.plan.config.pretrain import Method
from mdc.plan.config.tables import LossFigure
from mdc.plan.config.types import Strict
from mdc.plan.jobs import caption_jobs, encoder_jobs, score_jobs
from mdc.plan.jobs.artefact_plans import artefact_job
from mdc.plan.jobs.context import Context, Encoder, OfRuns
from mdc.plan.jobs.data_plans import corpus_parts, downloads, parts_of
from mdc.plan.jobs.fits import check_reads
from mdc.plan.jobs.ids import Frozen, Run, Untrained
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.model import PretrainJob, ProbeJob
from mdc.plan.records import UserError, sha256_json


class Plan(Context):
    """The jobs of ``params``' current scale."""

    @cached_property
    def jobs(self) -> dict[str, Job]:
        """Every job by its name, each after those that it is made from."""
        data = self.scale.data
        listed: list[Job] = [job for name in data.datasets for job in (*downloads(self, name), self.obtain(name))]
        listed += corpus_parts(self)
        listed += [self.corpus(name) for name in data.corpora]
        listed += [self.probe_set(name) for name in data.probes]
        listed += [self.choice_set(name) for name in data.choices]
        listed += [self.texts(name) for name in data.texts]
        listed += [self.vocabulary(name) for name in data.vocabularies]
        frozen = [run for run in self.runs if encoder_jobs.frozen_of(self, run)]
        listed += [self.pretrain(run) for run in self.runs if run not in frozen]
        listed += encoder_jobs.wanted(self)
        listed += [self.pretrain(run) for run in frozen]
        listed += [self.probe(encoder) for encoder in self.probed]
        listed += score_jobs.scored(self)
        listed += caption_jobs.captioned(self)
        listed += [artefact_job(self, name) for name in self.scale.tables]
        return {job.job: job for job in listed}

    def not_named(self, artefact: str) -> str:
        """What to say of a table or figure that the scale does not name."""
        return f"scale {self.params.scale} names no {artefact}; it has {', '.join(self.scale.tables)}"

    # --- runs ---------------------------------------------------------------------------------------------------------

    @cached_property
    def runs(self) -> list[Run]:
        """Every run that the tables and figures need, each once, in their order. UserError if two are the same."""
        tables = self.scale.tables
        losses = tables.the(LossFigure) or LossFigure()
        shown: list[OfRuns] = [*tables.probing().values(), *tables.scoring().values(), losses]
        found = dict.fromkeys(run for table in shown for run in self.runs_of(table))
        found |= dict.fromkeys(caption_jobs.runs(self))
        found |= dict.fromkeys(encoder_jobs.runs(self, found))
        self._no_twins(found)
        return list(found)

    @cached_property
    def probes_of(self) -> dict[Encoder, list[str]]:
        """The probes that the tables ask of each encoder, in the scale's order; runs first, then their controls."""
        asked: dict[Encoder, set[str]] = {}
        for table in self.scale.tables.probing().values():
            for run in self.runs_of(table):
                asked.setdefault(run, set()).update(table.probes)
                asked.setdefault(self.control(run), set()).update(table.probes)
            for name in table.encoders:
                asked.setdefault(Frozen(name), set()).update(table.probes)
        trained = sorted((e for e in asked if isinstance(e, Run)), key=self.runs.index)
        encoders: list[Encoder] = [*trained, *dict.fromkeys(self.control(run) for run in trained)]
        encoders += [encoder for encoder in asked if isinstance(encoder, Frozen)]
        return {e: [name for name in self.scale.data.probes if name in asked[e]] for e in encoders}

    @property
    def frozen(self) -> list[Frozen]:
        """The encoders of others that are probed."""
        return [encoder for encoder in self.probed if isinstance(encoder, Frozen)]

    @property
    def probed(self) -> list[Encoder]:
        """Every encoder that is probed."""
        return list(self.probes_of)

    def _no_twins(self, wanted: Iterable[Run]) -> None:
        seen: dict[str, Run] = {}
        for run in wanted:
            source = self.resolved_source(self.scale.data.corpora[self.corpus_of(run)].source)
            key = sha256_json({"source": source, **self._decisive(run)})
            if key in seen:
                raise UserError(
                    f"params.yaml: runs {seen[key].id} and {run.id} at scale {self.params.scale} have equal configurations; "
                    "give one of them a value of its own or use one id for both"
                )
            seen[key] = run

    def _decisive(self, run: Run) -> dict[str, Any]:
        """What tells one run's result from another's, names aside: pooling, for one, is the probe's choice."""
        method = self.params.methods[run.method].model_dump(mode="json")
        names = {"label": "", "pooling": "patch_mean", "ranked": True, "batch_factor": 1}
        return {
            "vocabulary": self.scale.data.vocabulary_of(run.corpus),
            "seed": run.seed,
            "backbone": self._backbone(run.backbone),
            "method": Method.model_validate({**method, **names}).model_dump(mode="json"),
            "recipe": self.recipe(run).model_dump(mode="json"),
            **({"start": self._start(run)} if run.finetune else {}),
        }

    def _backbone(self, name: str) -> dict[str, Any]:
        """A backbone as jobs have it: without its label, and with the shape of a frozen encoder's tokens."""
        backbone = self.scale.training.backbones[name]
        found = {**backbone.model_dump(mode="json"), "label": ""}
        if isinstance(backbone, FrozenBackbone):
            found["frozen"] = encoder_jobs.tokens(self, backbone.frozen)
            found["image_size"] = found["frozen"]["image_size"]
            if backbone.words is not None:
                found["words"] = encoder_jobs.words_of(self, backbone.words)
        return found

    def _start(self, run: Run) -> dict[str, Any]:
        """What a finetuned run goes on from, and until when."""
        before, how = self.pretrain(run.pretrained), self.scale.finetune[run.finetune]
        told = {"weights": how.weights, "patience": how.patience, "canvas": how.canvas}
        return {"run": before.job, "config_sha256": before.sha256, **told}

    # --- one job each -------------------------------------------------------------------------------------------------

    def obtain(self, name: str) -> Job:
        behind = [job.job for job in downloads(self, name)]
        found: Job = self.make("obtain", f"data/obtained/{name}", behind, **self.obtaining(name))
        return found

    def _set(
        self,
        verb: str,
        section: str,
        name: str,
        source: Any,
        kinds: dict[str, str],
        behind: Iterable[str] = (),
        **values: Any,
    ) -> Job:
        return self.make(
            verb,
            f"data/{section}/{name}",
            [*(f"data/obtained/{dataset}" for dataset in datasets_of(source)), *behind],
            [kinds[source.kind]],
            name=name,
            source=self.resolved_source(source),
            **values,
        )

    def _sharding(self) -> dict[str, Any]:
        return {"samples_per_shard": self.scale.data.samples_per_shard, "max_skipped": self.scale.data.max_skipped}

    def _words(self) -> dict[str, Any]:
        return {"protocol": self.params.protocol.data.model_dump(mode="json")}

    def corpus(self, name: str) -> Job:
        source = self.scale.data.corpora[name].source
        values = {**self._sharding(), **self._words()}
        behind = [job.job for job in parts_of(self, name)]
        return self._set("corpus", "corpora", name, source, parts.CORPORA, behind, **values)

    def probe_set(self, name: str) -> Job:
        source = self.scale.data.probes[name].source
        return self._set("probe-set", "probes", name, source, parts.PROBES, **self._sharding())

    def choice_set(self, name: str) -> Job:
        source = self.scale.data.choices[name].source
        return self._set("choice-set", "choices", name, source, parts.CHOICES, **self._sharding())

    def texts(self, name: str) -> Job:
        source = self.scale.data.texts[name].source
        return self._set("texts", "texts", name, source, parts.TEXTS, **self._words())

    def vocabulary(self, name: str) -> Job:
        listed = self.scale.data.vocabularies[name]
        named = [] if listed == "full" else listed
        corpora = [one for one in named if one in self.scale.data.corpora]
        choices = [one for one in named if one not in self.scale.data.corpora]
        return self.make(
            "vocabulary",
            f"data/vocabularies/{name}",
            [*(f"data/corpora/{one}" for one in corpora), *(f"data/choices/{one}" for one in choices)],
            name=name,
            kind="full" if listed == "full" else "corpus",
            corpora=corpora,
            choices=choices,
        )

    def pretrain(self, run: Run) -> PretrainJob:
        """The job of a run, made once."""
        found: PretrainJob = self.made.get(f"runs/{run.id}") or self._pretrain(run)
        self.made[found.job] = found
        return found

    def _pretrain(self, run: Run) -> PretrainJob:
        check_reads(self, run)
        frozen = encoder_jobs.frozen_of(self, run)
        found: PretrainJob = self.make(
            "pretrain",
            f"runs/{run.id}",
            [
                *([f"runs/{run.pretrained.id}"] if run.finetune else []),
                f"data/corpora/{self.corpus_of(run)}",
                f"data/vocabularies/{self.scale.data.vocabulary_of(run.corpus)}",
                *([encoder_jobs.encoded(self, frozen, self.corpus_of(run)).job] if frozen else []),
                *encoder_jobs.words_behind(self, run),
            ],
            [parts.OBJECTIVES[self.params.methods[run.method].objective]],
            corpus=self.corpus_of(run),
            backbone_name=run.backbone,
            method_name=run.method,
            protocol={
                "data": self.params.protocol.data.model_dump(mode="json"),
                "pretrain": self.params.protocol.pretrain.model_dump(mode="json"),
            },
            **self._decisive(run),
        )
        return found

    def probe(self, encoder: Encoder) -> ProbeJob:
        """The job of an encoder's probes, made once."""
        found: ProbeJob = self.made.get(f"probe/{encoder.id}") or self._probe(encoder)
        self.made[found.job] = found
        return found

    def _probe(self, encoder: Encoder) -> ProbeJob:
        probe = self.scale.probe
        assert probe is not None  # tables of probes cannot do without
        probes = self.probes_of[encoder]
        values = self._frozen(encoder) if isinstance(encoder, Frozen) else self._own(encoder)
        found: ProbeJob = self.make(
            "probe",
            f"probe/{encoder.id}",
            [*values.pop("behind"), *(f"data/probes/{name}" for name in probes)],
            [parts.ABILITIES["encode"], *values.pop("modules")],
            probes=probes,
            recipe=probe.model_dump(mode="json", exclude={"runtime"}),
            protocol=self.params.protocol.probe.model_dump(mode="json"),
            **values,
        )
        return found

    def _own(self, encoder: Run | Untrained) -> dict[str, Any]:
        """Of a probe's job, what says which encoder of ours is probed, what is ``behind`` it and what it loads."""
        trained = self.pretrain(encoder) if isinstance(encoder, Run) else None
        return {
            "behind": [trained.job] if trained else [],
            "modules": [],
            "backbone_name": encoder.backbone,
            "backbone": self._backbone(encoder.backbone),
            "seed": encoder.seed,
            "pooling": self.params.methods[encoder.method].pooling if isinstance(encoder, Run) else encoder.pooling,
            "run": trained.job if trained else None,
            "run_config_sha256": trained.sha256 if trained else None,
        }

    def _frozen(self, encoder: Frozen) -> dict[str, Any]:
        """The same of an encoder of others, whose feature is its own choice."""
        brought = encoder_jobs.encoder(self, encoder.name)
        return {
            "behind": [brought.job],
            "modules": [parts.TOWERS[brought.entry.kind]],
            "backbone_name": encoder.name,
            "backbone": encoder_jobs.tokens(self, encoder.name),
            "seed": 0,
            "pooling": "cls",
            "run": None,
            "run_config_sha256": None,
        }

    # --- who is behind what -------------------------------------------------------------------------------------------

    def behind(self, job: str) -> Iterator[str]:
        """The jobs that ``job`` is made from, and those behind them, each once, the nearest first."""
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
