"""The jobs of a scale, and for each everything that decides its result.

A job's resolved configuration holds the values of params.yaml that matter to it, its seed, and the fingerprint of the
code that it runs; nothing else. The workflow writes it to ``results/<scale>/configs/<job>.json`` and takes that file
as the job's input, so editing a value reruns the jobs whose configuration changes, and no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mdc.config import Data, Method, Params, ProbeTable, Recipe, Strict, first_problem, origin_of
from mdc.fingerprint import fingerprint
from mdc.records import OWN_FOLDER, UserError, sha256_json

# verb → module that does it; the command line and the fingerprints both go by this table
VERBS = {
    "obtain": "mdc.obtain.job",
    "corpus": "mdc.shards.corpus_job",
    "probe-set": "mdc.shards.probe_set_job",
    "choice-set": "mdc.shards.choice_set_job",
    "texts": "mdc.shards.texts_job",
    "vocabulary": "mdc.shards.vocabulary_job",
    "pretrain": "mdc.training.run",
    "probe": "mdc.evaluation.probe",
    "table1": "mdc.report.tables.table1_job",
    "loss-curves": "mdc.report.figures.loss_curves_job",
    "caption-lengths": "mdc.report.figures.figure3_job",
    "table9": "mdc.report.tables.table9_job",
    "recipes": "mdc.report.tables.recipes_job",
    "method-table": "mdc.report.tables.method_table_job",
    "mask-ratios": "mdc.report.figures.figure4_job",
    "pair-counts": "mdc.report.figures.figure5_job",
    "schedules": "mdc.report.figures.schedules_job",
}

# table or figure of linear probes → the verb that makes it
TABLES = {
    "table1": "table1",
    "table4": "method-table",
    "table5": "method-table",
    "figure4": "mask-ratios",
    "figure5": "pair-counts",
}

# verb → the record that its job leaves, what else it made named in it by sha256; {job}: the job's own name
RECORDS = {
    "obtain": "obtained.json",
    "corpus": "index.json",
    "probe-set": "index.json",
    "choice-set": "index.json",
    "texts": "index.json",
    "vocabulary": "vocabulary.json",
    "pretrain": "run.json",
    "probe": "probe.json",
    "table1": "table1.json",
    "loss-curves": "figure_loss.json",
    "caption-lengths": "figure3.json",
    "table9": "table9.json",
    "recipes": "recipes.json",
    "method-table": "{job}.json",
    "mask-ratios": "figure4.json",
    "pair-counts": "figure5.json",
    "schedules": "figure_schedules.json",
}


@dataclass(frozen=True, order=True)
class Run:
    """A pretraining run; its id is its path."""

    corpus: str
    backbone: str
    method: str
    seed: int

    @property
    def id(self) -> str:
        return f"{self.corpus}/{self.backbone}/{self.method}/s{self.seed}"


@dataclass(frozen=True, order=True)
class Untrained:
    """The control of every run with this backbone, pooling and seed: its own initial weights."""

    backbone: str
    pooling: str
    seed: int

    @property
    def id(self) -> str:
        return f"untrained/{self.backbone}/{self.pooling}/s{self.seed}"


def record_file(config: dict[str, Any]) -> Path:
    """Where a job's record lies, relative to its scale's folder."""
    name = RECORDS[config["verb"]].format(job=config["job"])
    return Path(config["job"], name) if name in OWN_FOLDER else Path(config["job"] + ".json")


def runs(params: Params) -> list[Run]:
    """Every run that the scale's tables need, each once, in the tables' order."""
    found = dict.fromkeys(run for table in params.current().tables.probing().values() for run in _of(params, table))
    _no_twins(params, list(found))
    return list(found)


def _of(params: Params, table: ProbeTable) -> list[Run]:
    return [
        Run(corpus, backbone, method, seed)
        for backbone in table.backbones
        for corpus, methods in table.corpora.items()
        for method in methods
        for seed in params.current().pretrain.seeds
    ]


def _encoders(params: Params, table: ProbeTable) -> list[Run | Untrained]:
    """The runs of one table, and their untrained controls."""
    wanted = _of(params, table)
    return [*wanted, *dict.fromkeys(_control(params, run) for run in wanted)]


def _control(params: Params, run: Run) -> Untrained:
    return Untrained(run.backbone, params.methods[run.method].pooling, run.seed)


def untrained(params: Params) -> list[Untrained]:
    """The untrained controls of all runs."""
    return list(dict.fromkeys(_control(params, run) for run in runs(params)))


def probes_of(params: Params, encoder: Run | Untrained) -> list[str]:
    """The probes that the tables ask of an encoder, in the order of the scale's."""
    scale = params.current()
    asked = {
        name for table in scale.tables.probing().values() if _asks(params, table, encoder) for name in table.probes
    }
    return [name for name in scale.data.probes if name in asked]


def _asks(params: Params, table: ProbeTable, encoder: Run | Untrained) -> bool:
    """Whether an encoder stands in a table. Every start of the workflow asks this for each, so no list is searched."""
    if encoder.backbone not in table.backbones or encoder.seed not in params.current().pretrain.seeds:
        return False
    if isinstance(encoder, Run):
        return encoder.method in table.corpora.get(encoder.corpus, ())
    methods = {method for listed in table.corpora.values() for method in listed}
    return any(params.methods[method].pooling == encoder.pooling for method in methods)


def parse_run(params: Params, text: str) -> Run:
    """A run from its id. Raises UserError if it is none that the scale's tables need."""
    for run in runs(params):
        if run.id == text:
            return run
    raise UserError(f"no run '{text}' at scale {params.scale}; allowed: {', '.join(r.id for r in runs(params))}")


def recipe(params: Params, run: Run) -> Recipe:
    """The run's recipe: the scale's, with the overrides that match it and the method's batch factor."""
    pretrain = params.current().pretrain
    values = pretrain.recipe.model_dump()
    for override in pretrain.overrides:
        if override.when.matches(run.corpus, run.backbone, run.method):
            values |= override.set
    factor = params.methods[run.method].batch_factor
    values["batch_size"] *= factor
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise UserError(f"params.yaml: run {run.id} at scale {params.scale}: {first_problem(error)}") from None


def _head(params: Params, job: str, verb: str) -> dict[str, Any]:
    return {"job": job, "verb": verb, "scale": params.scale, "fingerprint": fingerprint(VERBS[verb])}


def obtain_config(params: Params, name: str) -> dict[str, Any]:
    """How a dataset comes to its place; ``download`` for one that is fetched by its URLs, otherwise null."""
    data = params.current().data
    dataset = data.datasets[name]
    origin = origin_of(name, dataset)
    shaped = data.download is not None and origin == "urls"
    download = data.download.model_dump(mode="json", exclude={"runtime"}) if data.download and shaped else None
    return {
        **_head(params, f"data/obtained/{name}", "obtain"),
        "name": name,
        "dataset": {**dataset.model_dump(mode="json", by_alias=True), "from": origin},
        "download": download,
    }


def resolved_source(data: Data, source: Strict) -> dict[str, Any]:
    """A source as its job reads it: with the place of its dataset, and how that was obtained."""
    values = source.model_dump(mode="json", by_alias=True)
    if values.get("dataset") is not None:
        dataset = data.datasets[values["dataset"]]
        values["path"] = dataset.path
        if "from" in values:
            values["from"] = origin_of(values["dataset"], dataset)
    if values.get("images_from") is not None:
        values["images"] = str(Path(data.datasets[values["images_from"]].path, values["images"]))
    return values


def datasets_of(source: Strict) -> list[str]:
    """The datasets of the scale that a source reads."""
    named = (getattr(source, key, None) for key in ("dataset", "images_from"))
    return list(dict.fromkeys(name for name in named if name is not None))


def _set_config(params: Params, job: str, verb: str, name: str, source: Strict) -> dict[str, Any]:
    data = params.current().data
    return {
        **_head(params, job, verb),
        "name": name,
        "source": resolved_source(data, source),
        "samples_per_shard": data.samples_per_shard,
        "max_skipped": data.max_skipped,
    }


def corpus_config(params: Params, name: str) -> dict[str, Any]:
    source = params.current().data.corpora[name].source
    protocol = params.protocol.data.model_dump(mode="json")
    return {**_set_config(params, f"data/corpora/{name}", "corpus", name, source), "protocol": protocol}


def probe_set_config(params: Params, name: str) -> dict[str, Any]:
    source = params.current().data.probes[name].source
    return _set_config(params, f"data/probes/{name}", "probe-set", name, source)


def choice_set_config(params: Params, name: str) -> dict[str, Any]:
    source = params.current().data.choices[name].source
    return _set_config(params, f"data/choices/{name}", "choice-set", name, source)


def texts_config(params: Params, name: str) -> dict[str, Any]:
    data = params.current().data
    return {
        **_head(params, f"data/texts/{name}", "texts"),
        "name": name,
        "source": resolved_source(data, data.texts[name].source),
        "protocol": params.protocol.data.model_dump(mode="json"),
    }


def vocabulary_config(params: Params) -> dict[str, Any]:
    """``corpora`` are all of the scale's: every run at a scale has the same vocabulary."""
    data = params.current().data
    return {
        **_head(params, "data/vocabulary", "vocabulary"),
        "kind": data.vocabulary,
        "corpora": list(data.corpora) if data.vocabulary == "corpus" else [],
    }


def _decisive(params: Params, run: Run) -> dict[str, Any]:
    """What tells one run's result from another's, names aside."""
    scale = params.current()
    method = params.methods[run.method].model_dump(mode="json", exclude={"label", "ranked", "batch_factor", "pooling"})
    return {
        "seed": run.seed,
        "source": resolved_source(scale.data, scale.data.corpora[run.corpus].source),
        "backbone": scale.pretrain.backbones[run.backbone].model_dump(mode="json", exclude={"label"}),
        "method": method,
        "recipe": recipe(params, run).model_dump(mode="json"),
    }


def _no_twins(params: Params, wanted: list[Run]) -> None:
    seen: dict[str, Run] = {}
    for run in wanted:
        key = sha256_json(_decisive(params, run))
        if key in seen:
            raise UserError(
                f"params.yaml: runs {seen[key].id} and {run.id} at scale {params.scale} have equal configurations; "
                "give one of them a value of its own or use one id for both"
            )
        seen[key] = run


def run_config(params: Params, run: Run) -> dict[str, Any]:
    decisive = _decisive(params, run)
    del decisive["source"]  # the shards' manifest is an input of its own
    return {
        **_head(params, f"runs/{run.id}", "pretrain"),
        "corpus": run.corpus,
        "backbone_name": run.backbone,
        "method_name": run.method,
        **decisive,
        "protocol": {
            "data": params.protocol.data.model_dump(mode="json"),
            "pretrain": params.protocol.pretrain.model_dump(mode="json"),
        },
    }


def probe_config(params: Params, encoder: Run | Untrained) -> dict[str, Any]:
    scale = params.current()
    common = {
        "probes": probes_of(params, encoder),
        "recipe": scale.probe.model_dump(mode="json"),
        "protocol": params.protocol.probe.model_dump(mode="json"),
        "backbone_name": encoder.backbone,
        "backbone": scale.pretrain.backbones[encoder.backbone].model_dump(mode="json", exclude={"label"}),
        "seed": encoder.seed,
    }
    head = _head(params, f"probe/{encoder.id}", "probe")
    if isinstance(encoder, Run):
        return {
            **head,
            **common,
            "corpus": encoder.corpus,
            "method_name": encoder.method,
            "pooling": params.methods[encoder.method].pooling,
            "run_config_sha256": sha256_json(run_config(params, encoder)),
        }
    return {**head, **common, "corpus": None, "method_name": "untrained", "pooling": encoder.pooling}


def table_config(params: Params, name: str) -> dict[str, Any]:
    """What a table of probes selects and shows, and the configuration that each record must have been made with."""
    scale = params.current()
    table = scale.tables.probing()[name]
    shown = {method for methods in table.corpora.values() for method in methods}
    return {
        **_head(params, name, TABLES[name]),
        "table": name,
        "scale_label": scale.label,
        "corpora": [
            {"key": key, "label": scale.data.corpora[key].label, "methods": methods}
            for key, methods in table.corpora.items()
        ],
        "backbones": [{"key": k, "label": scale.pretrain.backbones[k].label} for k in table.backbones],
        "methods": {
            key: {"label": _label(name, m), "pooling": m.pooling, "grey": not m.ranked, **_ratios(name, m)}
            for key, m in params.methods.items()
            if key in shown
        },
        "probes": [{"key": k, "label": scale.data.probes[k].label} for k in table.probes],
        "contrasts": table.contrasts,
        "seeds": scale.pretrain.seeds,
        "bootstrap": scale.probe.bootstrap,
        "expected": {e.id: sha256_json(probe_config(params, e)) for e in _encoders(params, table)},
    }


def _label(table: str, method: Method) -> str:
    """What a method is called in a table: in Table 5 MDC by its range of t, as the paper has it; others by their names."""
    by_range = table == "table5" and method.t_range is not None and method.weight == "inverse_t"
    return str(list(method.t_range or ())) if by_range else method.label


def _ratios(table: str, method: Method) -> dict[str, Any]:
    """What Figure 4 is drawn over: the range of t, null for a method that masks nothing."""
    return {"t_range": method.t_range and list(method.t_range)} if table == "figure4" else {}


def _labels(params: Params) -> dict[str, dict[str, str]]:
    """The labels of everything that a run's id names."""
    scale = params.current()
    return {
        "corpora": {k: c.label for k, c in scale.data.corpora.items()},
        "backbones": {k: b.label for k, b in scale.pretrain.backbones.items()},
        "methods": {k: m.label for k, m in params.methods.items()},
    }


def loss_curves_config(params: Params) -> dict[str, Any]:
    """The runs whose loss curves are drawn, with their labels."""
    scale = params.current()
    return {
        **_head(params, "figure_loss", "loss-curves"),
        "scale_label": scale.label,
        "runs": [r.id for r in runs(params)],
        "labels": _labels(params),
        "objectives": {k: m.objective for k, m in params.methods.items()},
    }


def schedules_config(params: Params) -> dict[str, Any]:
    """The runs of Table 5, whose steadiness is compared; ``warmup``: the longest of a method's runs, in steps."""
    scale = params.current()
    table = scale.tables.table5
    wanted = _of(params, table)
    recipes = {run: recipe(params, run) for run in wanted}
    shown = dict.fromkeys(run.method for run in wanted)
    return {
        **_head(params, "figure_schedules", "schedules"),
        "table": "table5",
        "scale_label": scale.label,
        "runs": [run.id for run in wanted],
        "labels": _labels(params),
        "schedules": {method: {"t_range": list(params.methods[method].t_range or ())} for method in shown},
        "reference": table.reference,
        "warmup": {m: max(r.warmup_steps for run, r in recipes.items() if run.method == m) for m in shown},
        "clip_norm": {run.id: r.clip_norm for run, r in recipes.items()},
        "seeds": scale.pretrain.seeds,
    }


def figure3_config(params: Params) -> dict[str, Any]:
    """The corpora, and sets of captions alone, whose caption lengths are drawn."""
    scale = params.current()
    shown = scale.tables.figure3
    return {
        **_head(params, "figure3", "caption-lengths"),
        "scale_label": scale.label,
        "corpora": [{"key": key, "label": scale.data.corpora[key].label} for key in shown.corpora],
        "texts": [{"key": key, "label": scale.data.texts[key].label} for key in shown.texts],
        "context_length": params.protocol.data.context_length,
        "split": "train",
    }


def table9_config(params: Params) -> dict[str, Any]:
    """The licences; what they are stands in the registry."""
    return {**_head(params, "table9", "table9"), "scale_label": params.current().label}


def recipes_config(params: Params) -> dict[str, Any]:
    """How the runs of Table 1 are trained, a table a backbone: what their own configurations say."""
    scale = params.current()
    seed = scale.pretrain.seeds[0]

    def run_of(corpus: str, backbone: str, name: str) -> dict[str, Any]:
        resolved = run_config(params, Run(corpus, backbone, name, seed))
        method, protocol = params.methods[name], resolved["protocol"]["pretrain"]
        training = {**resolved["recipe"], **{key: protocol[key] for key in ("optimizer", "lr_schedule")}}
        return {"label": method.label, "objective": method.objective, "ranked": method.ranked, "training": training}

    return {
        **_head(params, "recipes", "recipes"),
        "scale_label": scale.label,
        "tables": [
            {
                "key": key,
                "backbone": scale.pretrain.backbones[backbone].label,
                "corpora": [
                    {
                        "label": scale.data.corpora[corpus].label,
                        "runs": [run_of(corpus, backbone, name) for name in methods],
                    }
                    for corpus, methods in scale.tables.table1.corpora.items()
                ],
            }
            for key, backbone in scale.tables.recipes.items()
        ],
    }


def configs(params: Params) -> dict[str, dict[str, Any]]:
    """Every job of the current scale, by name, with its resolved configuration."""
    scale = params.current()
    listed = [obtain_config(params, name) for name in scale.data.datasets]
    listed += [corpus_config(params, name) for name in scale.data.corpora]
    listed += [probe_set_config(params, name) for name in scale.data.probes]
    listed += [choice_set_config(params, name) for name in scale.data.choices]
    listed += [texts_config(params, name) for name in scale.data.texts]
    listed.append(vocabulary_config(params))
    listed += [run_config(params, run) for run in runs(params)]
    listed += [probe_config(params, run) for run in runs(params)]
    listed += [probe_config(params, control) for control in untrained(params)]
    listed += [table_config(params, name) for name in TABLES]
    listed += [loss_curves_config(params), schedules_config(params), figure3_config(params), table9_config(params)]
    listed.append(recipes_config(params))
    return {config["job"]: config for config in listed}
