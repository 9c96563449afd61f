"""Made-up probe records, and the items behind them, for tables and figures of probes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from shown import STATISTICS, make, shown_job, write_manifest

from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.records import sha256_file, sha256_text
from mdc.report.statistics.metrics import mean_average_precision

#: (corpus or None for an untrained encoder, method, probe, seed) -> the share of items that it gets right
Skill = Callable[[str | None, str, str, int], float]
BACKBONES = {"B": "ViT-T/12"}


@dataclass(frozen=True)
class Tested:
    """The items of a probe: right answers ``value`` (N,), or of a multi-label probe ``scores`` and ``targets`` (N, C)."""

    ids: tuple[str, ...]
    value: Any = None
    scores: Any = None
    targets: Any = None


class ProbingWorld:
    """Systems on ``corpora`` {key: methods}, all with their untrained controls, every record with ``n`` items a probe.

    ``skill`` says how good each encoder is. All see the same items, some of which are easy for all. ``pairs`` and
    ``epochs``: {corpus: pairs}, and how often they are seen. ``cls``: methods probed on [CLS]. ``multi``: multi-label probes.
    ``labels`` {key: label}. ``job``: fields of the job. The contrasts are within a corpus and backbone, by methods.
    ``held_out``, set later: the held-out losses of runs, {run: {step: loss}}.
    """

    def __init__(
        self,
        corpora: Mapping[str, Sequence[str]],
        skill: Skill,
        pairs: Mapping[str, int] | None = None,
        probes: Sequence[str] = ("shape",),
        seeds: Sequence[int] = (0,),
        n: int = 200,
        epochs: int | Mapping[str, int] = 2,
        backbones: Mapping[str, str] = BACKBONES,
        cls: Sequence[str] = (),
        unranked: Sequence[str] = (),
        multi: Sequence[str] = (),
        ranges: Mapping[str, tuple[float, float] | None] | None = None,
        labels: Mapping[str, str] | None = None,
        contrasts: Sequence[tuple[str, str]] = (),
        **job: Any,
    ) -> None:
        self.rng = np.random.default_rng(5)
        self.scale, self.artefact = str(job.pop("scale", "mini")), str(job.pop("artefact", "table1"))
        self.skill, self.probes, self.multi, self.n, self.seeds = skill, probes, multi, n, list(seeds)
        self.labels, self.fields, self.backbones = dict(labels or {}), job, backbones
        self.easy = {probe: self.rng.random(n) for probe in probes}
        self.targets = (self.rng.random((n, 3)) < 0.3).astype(np.int64)
        self.records: dict[str, dict[str, Any]] = {}
        self.items: dict[str, dict[str, Tested]] = {}
        self.held_out: dict[str, dict[int, float]] = {}
        self.systems: list[dict[str, Any]] = []
        self.contrasts: list[list[str]] = []
        for backbone in backbones:
            place = {"backbone": {"key": backbone, "label": backbones[backbone]}}
            poolings = dict.fromkeys(_pooling(m, cls) for listed in corpora.values() for m in listed)
            for pooling in poolings:
                key = f"untrained/{backbone}/{pooling}"
                self.add(key, None, "untrained", **place, pooling=pooling, role="control", note="Untrained: a control.")
            for corpus, methods in corpora.items():
                told = {"pairs": (pairs or {}).get(corpus, 800)}
                passes = epochs if isinstance(epochs, int) else epochs[corpus]
                told |= {"steps": told["pairs"] * passes // 8, "samples_seen": told["pairs"] * passes}
                for method in methods:
                    pooling = _pooling(method, cls)
                    more = {"control": f"untrained/{backbone}/{pooling}", "t_range": (ranges or {}).get(method)}
                    more |= {"pooling": pooling, "role": "grey" if method in unranked else "ranked"}
                    self.add(f"{corpus}/{backbone}/{method}", corpus, method, training=told, **place, **more)
                self.contrasts += [
                    [f"{corpus}/{backbone}/{first}", f"{corpus}/{backbone}/{second}"]
                    for first, second in contrasts
                    if {first, second} <= set(methods)
                ]

    def label(self, key: str) -> str:
        """Of a corpus."""
        return self.labels.get(key, key.title())

    def add(
        self,
        key: str,
        corpus: str | None,
        method: str,
        training: Mapping[str, int] | None = None,
        runs: Sequence[str] | None = None,
        suffix: str = "",
        **system: Any,
    ) -> None:
        """A system, and a record a seed of it, named by ``runs`` or its key with ``suffix``."""
        named = list(runs or (f"{key}/s{seed}" for seed in self.seeds))
        records = [f"probe/{run}{suffix}" for run in named]
        self.systems.append(
            {
                "key": key,
                "corpus": corpus and {"key": corpus, "label": self.label(corpus)},
                "backbone": {"key": "B", "label": BACKBONES["B"]},
                "method": {"key": method, "label": self.labels.get(method, _method_label(method))},
                "pooling": "patch_mean",
                "estimator": "linear probe",
                "runs": named,
                "records": records,
                **system,
            }
        )
        for record, seed in zip(records, self.seeds, strict=True):
            self._measure(record, corpus, method, seed, training)

    def _measure(
        self, name: str, corpus: str | None, method: str, seed: int, training: Mapping[str, int] | None
    ) -> None:
        ids = tuple(f"item{i}" for i in range(self.n))
        self.items[name], probes = {}, {}
        for probe in self.probes:
            share = self.skill(corpus, method, probe, seed)
            if probe in self.multi:
                scores = 2 * share * self.targets + self.rng.normal(size=self.targets.shape)
                self.items[name][probe] = Tested(ids, scores=scores, targets=self.targets)
                value = float(mean_average_precision(scores, self.targets, np.ones((1, self.n)))[0])
                probes[probe] = {"metric": "map", "value": 100 * value, "n": self.n, "chance": 30.0}
            else:
                right = (self.easy[probe] + 0.1 * self.rng.normal(size=self.n) < share).astype(float)
                self.items[name][probe] = Tested(ids, value=right)
                probes[probe] = {"metric": "top1", "value": 100 * right.mean(), "n": self.n, "chance": 12.5}
        self.records[name] = {
            "kind": "probe",
            "id": name,
            "config": {"scale": self.scale},
            "config_sha256": sha256_text(name),
            "training": training,
            "probes": probes,
        }

    def value(self, run: str, probe: str) -> float:
        """Per cent, as the record of a run says it."""
        return float(self.records[f"probe/{run}"]["probes"][probe]["value"])

    @property
    def job(self) -> ArtefactJob:
        """What is asked, typed."""
        fields = {
            "scale": self.scale,
            "systems": self.systems,
            "columns": [
                {
                    "key": key,
                    "label": self.labels.get(key, key.title()),
                    "metric": "map" if key in self.multi else "top1",
                }
                for key in self.probes
            ],
            "contrasts": self.contrasts,
            "primary": self.contrasts[:6],
            "primary_metric": self.probes[0],
            "trends": sorted({s["method"]["key"] for s in self.systems}) if self.artefact == "figure5" else [],
            "seeds": self.seeds,
            "statistics": STATISTICS,
            **self.fields,
        }
        job = shown_job(self.artefact, [*self.records, *(f"runs/{run}" for run in self.held_out)], **fields)
        assert isinstance(job, ArtefactJob)
        return job

    def write(self, folder: Path) -> dict[str, Path]:
        """The records and their items as ``mdc probe`` leaves them, by their jobs' names."""
        import pandas as pd

        given = {}
        for name, record in self.records.items():
            own = folder / name
            own.mkdir(parents=True, exist_ok=True)
            frames = [
                pd.DataFrame(
                    {
                        "probe": probe,
                        "item": items.ids,
                        "value": items.value if items.value is not None else np.nan,
                        "scores": None if items.scores is None else items.scores.tolist(),
                        "targets": None if items.targets is None else items.targets.tolist(),
                    }
                )
                for probe, items in self.items[name].items()
            ]
            pd.concat(frames).to_parquet(own / "items.parquet", index=False)
            outputs = {"items.parquet": sha256_file(own / "items.parquet")}
            (own / "probe.json").write_text(json.dumps({"outputs": outputs, **record}))
            given[name] = own / "probe.json"
        for run, losses in self.held_out.items():
            given[f"runs/{run}"] = write_manifest(folder, f"runs/{run}")
            lines = [{"step": 1, "loss": 9.0}, *({"step": s, "validation_loss": loss} for s, loss in losses.items())]
            given[f"runs/{run}"].with_name("log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return given

    def make(self, folder: Path) -> Path:
        """The artefact, in ``folder/out``."""
        return make(self.job, self.write(folder), folder / "out")


def _pooling(method: str, cls: Sequence[str]) -> str:
    return "cls" if method in cls else "patch_mean"


def _method_label(method: str) -> str:
    return method if method == "untrained" else method.upper()


#: what a run of a figure of many passes has seen: pairs, epochs, and how good it is
REPEATED = {"once": (800, 1, 0.4), "four": (800, 4, 0.55), "fresh": (3200, 1, 0.7)}


class RepeatedWorld(ProbingWorld):
    """Passes over few pairs, or fresh ones."""

    def __init__(self, seeds: tuple[int, ...] = (0,), pairs: Any = None, epochs: Any = None) -> None:
        def skill(corpus: str | None, method: str, probe: str, seed: int) -> float:
            return 0.3 if corpus is None else REPEATED[corpus][2] + 0.1 * (method == "arc")

        pairs = pairs or {name: one[0] for name, one in REPEATED.items()}
        epochs = epochs or {name: one[1] for name, one in REPEATED.items()}
        corpora = {corpus: ["mdc", "arc", "clip"] for corpus in REPEATED}
        super().__init__(
            corpora, skill, pairs, ("shape", "count"), seeds,
            epochs=epochs, cls=("clip",), contrasts=[("arc", "mdc")], artefact="figure_repetition",
        )  # fmt: skip


#: how good a method is after a share of its steps
CONVERGING = {
    "mdc": {0.25: 0.5, 0.5: 0.65, 1.0: 0.8},
    "parallel": {0.25: 0.35, 0.5: 0.5, 1.0: 0.8},
}


class ConvergingWorld(ProbingWorld):
    """Snapshots of two methods on each of ``corpora``, and their ends; claimed is MDC over parallel decoding after a quarter."""

    def __init__(self, seeds: tuple[int, ...] = (0,), corpora: Sequence[str] = ("dense",)) -> None:
        share = 1.0

        def skill(corpus: str | None, method: str, probe: str, seed: int) -> float:
            return 0.3 if corpus is None else CONVERGING[method][share]

        super().__init__(
            {corpus: list(CONVERGING) for corpus in corpora}, skill, probes=("shape", "count"), seeds=seeds,
            artefact="figure_convergence",
        )  # fmt: skip
        shares, ends = {}, [system for system in self.systems if system["corpus"]]
        for system in ends:
            key, corpus, method = system["key"], system["corpus"]["key"], system["method"]["key"]
            shares[key] = 1.0
            for share in (0.25, 0.5):
                told = {"pairs": 800, "steps": int(200 * share), "samples_seen": int(1600 * share)}
                runs = [f"{run}/at-{share:g}" for run in system["runs"]]
                more = {"control": system["control"], "pooling": system["pooling"]}
                self.add(f"{key}/at-{share:g}", corpus, method, told, runs, **more)
                label = f"{system['method']['label']} · {100 * share:g} %"
                self.systems[-1]["method"] = {"key": method, "label": label}
                shares[f"{key}/at-{share:g}"] = share
        pairs = [
            [f"{corpus}/B/{method}{at}" for method in CONVERGING]
            for corpus in corpora
            for at in ("/at-0.25", "/at-0.5", "")
        ]
        self.fields = {"shares": shares, "contrasts": pairs, "primary": pairs[::3], "primary_metric": "average"}
