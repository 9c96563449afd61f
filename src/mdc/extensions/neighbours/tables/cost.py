"""The cost of trainings and captions, by method: parameters, operations, and measured time.

Parameters are from the run's record. Operations are those of matrix products in one step of the run's objective, forward and
backward, counted on fake tensors (:mod:`mdc.training.memory`) at the mean length of its corpus's captions. Both are the same on
every machine. Times are not: they are from host files, and no check rebuilds the files with times.

A CPU time is processor time, which depends little on other load of the machine. A GPU time is wall time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import Field

from mdc.plan.config.probe_tables import OfRuns
from mdc.plan.config.types import Name, Unique, no_such
from mdc.plan.jobs.folder import HOST
from mdc.plan.jobs.read import as_job
from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.plan.records import read_json, sha256_file
from mdc.report.tables.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context
    from mdc.plan.jobs.ids import Run
    from mdc.report.frame import Number
    from mdc.report.manifests import Manifests

SHOWN = {
    "artefacts": {"table_cost": {"title": "What methods cost"}},
    "files": ".csv _long.csv _measured.csv _runs.csv .html .md .tex",
    "measured": "_measured.csv .html .md",
    "caption": "Parameters and operations of each method at scale {scale}, and the time that its trainings and its captions took "
    "where they were made.",
    "config": "Block",
}

#: what is counted: key → label, unit
_COUNTED = {
    "parameters": ("Parameters", "count"),
    "encoder_parameters": ("Encoder parameters", "count"),
    "flop_per_pair": ("Operations per pair", "FLOP"),
    "flop_per_run": ("Operations per run", "FLOP"),
    "pairs_seen": ("Pairs seen", "count"),
}


class Block(OfRuns):
    """The cost of trainings and captions. ``datasets``: captioned ones, with all systems that caption them."""

    datasets: Unique[Name] = Field(default_factory=list)

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        yield from super().misfits(params, where)
        captioned = params.captioned if self.datasets and params.captions else {}
        for name in (name for name in self.datasets if name not in captioned):
            yield no_such(f"{where}.datasets", name, captioned, "captioned dataset")


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """The values of the table's job, and the jobs that it is made from (``jobs``)."""
    from mdc.plan.jobs import caption_jobs, caption_rows

    jobs: dict[str, Any] = {}
    modules: dict[str, None] = {}
    by_system: dict[str, list[Run]] = {}
    for run in plan.runs_of(block):
        job = plan.pretrain(run)
        jobs |= {job.job: job, f"data/corpora/{job.corpus}": None, f"data/vocabularies/{job.vocabulary}": None}
        modules |= dict.fromkeys([job.method.abilities["train"], *job.backbone.module_names])
        by_system.setdefault(run.system, []).append(run)
    systems = [
        System(
            key=key,
            **plan.labels(runs[0]),
            runs=[run.id for run in runs],
            records=[f"runs/{run.id}" for run in runs],
            estimator="training",
        )
        for key, runs in by_system.items()
    ]
    seeds = plan.scale.training.seeds
    for dataset in block.datasets:
        captioned = plan.scale.captioned[dataset]
        lengths = {system.decode.shown_length for system in captioned.values()}
        by_seed = [caption_jobs.of_seed(plan, dataset, seed) for seed in seeds]
        for key, system in captioned.items():
            wanted = [requests[key] for requests in by_seed if key in requests]
            made = [caption_jobs.captions(plan, request) for request in wanted]
            jobs |= {job.job: job for job in made}
            if system.images == "own":
                names = [request.run.id for request in wanted if request.run is not None]
                systems.append(caption_rows.row_of(plan, dataset, key, lengths, names, [job.job for job in made]))
    return {"jobs": jobs, "modules": list(modules), "systems": systems, "seeds": seeds}


@dataclass(frozen=True)
class Timing:
    """The time of a system: ``value`` in seconds of ``of`` (a key of ``_OF``), the mean over ``seeds``; ``n``: runs or
    captions."""

    system: System
    value: float
    n: int
    seeds: int
    of: str
    machines: tuple[str, ...]


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the table's files into ``out``. UserError if a record does not serve; a host file that is missing, or of another
    record, leaves its time out."""
    from mdc.report.frame import write_levels
    from mdc.report.tables.render import write_csv, write_pages

    trainings, captioners = ([s for s in job.systems if s.estimator == of] for of in ("training", "captions"))
    counted = {system.key: _counted(job, manifests, system) for system in trainings}
    numbers = [
        _number(system, key, label, unit, counted[system.key][key], len(system.runs))
        for system in trainings
        for key, (label, unit) in _COUNTED.items()
    ]
    trained, written = (
        [timing for system in systems if (timing := _timing(job, manifests, system))]
        for systems in (trainings, captioners)
    )
    times = [
        _number(t.system, f"{t.of}_seconds_per_{what}", f"{t.of}-seconds per {what}", "seconds", t.value, t.seeds, t.n)
        for what, timings in (("run", trained), ("caption", written))
        for t in timings
    ]
    main = _operations(job, counted)
    units = {f"unit of {column.name.lower()}": column.note for column in main.columns if column.note}
    write_csv(main, out / "table_cost.csv", {"scale": job.scale, **units})
    write_levels(out / "table_cost_long.csv", job, numbers)
    write_levels(out / "table_cost_measured.csv", job, times)
    pages = [_measured(job, timings, captions) for timings, captions in ((trained, False), (written, True)) if timings]
    write_pages([main, *pages], out, "table_cost")


def _number(system: System, key: str, label: str, unit: str, value: float, seeds: int, n: int | None = None) -> Number:
    from mdc.report.frame import Number
    from mdc.report.statistics.estimate import Estimate

    class Cost(Number):
        """Neither interval nor scope: counts are exact, and times of one machine do not apply to others."""

        def cells(self) -> dict[str, Any]:
            return super().cells() | {"scope": None}

    return Cost(system, key, label, "cost", unit, Estimate(value, None, None, n or seeds, seeds, "seeds"))


def _counted(job: ArtefactJob, manifests: Manifests, system: System) -> dict[str, int]:
    """The counts of a system's first run; its other seeds have the same."""
    from mdc.models.text import Vocabulary
    from mdc.training.memory import captions_like, operations

    name = system.records[0]
    record = read_json(manifests[name])
    run = as_job(record["config"], "pretrain", str(manifests[name]))
    index = read_json(manifests[f"data/corpora/{run.corpus}"])
    vocabulary = Vocabulary.read(manifests[f"data/vocabularies/{run.vocabulary}"])
    batch = run.recipe.batch_size // run.recipe.processes
    parameters, seen = [record["parameters"][which] for which in ("all", "encoder")], record["samples_seen"]
    flop = round(operations(run, captions_like(run, index, vocabulary)) / batch)
    return dict(zip(_COUNTED, (*parameters, flop, flop * seen, seen), strict=True))


def _host(job: ArtefactJob, manifests: Manifests, name: str) -> dict[str, Any]:
    """The host file beside a record, empty if there is none, or if it belongs to another record."""
    path = Path(manifests[name])
    host = read_json(path.with_name(HOST)) if path.with_name(HOST).is_file() else {}
    return host if host.get("manifest_sha256") == sha256_file(path) else {}


def _timing(job: ArtefactJob, manifests: Manifests, system: System) -> Timing | None:
    """The time of a run, or of one caption: the mean over seeds with a time, on GPUs only if one of them ran on a GPU."""
    measured: list[tuple[bool, float, int, str]] = []
    for name in system.records:
        host = _host(job, manifests, name)
        on_gpu = host.get("device", "cpu") != "cpu"
        if system.estimator == "captions":
            timed = host.get("writing", {}).get(system.method.key, {})
            n = int(timed.get("captions", 1))
            times = 1 / n
        else:  # the first process's, times the number of processes
            timed, n, times = host, 1, read_json(manifests[name])["config"]["recipe"]["processes"]
        if (seconds := timed.get("seconds" if on_gpu else "processor_seconds")) is not None:
            machine = host["device"] if on_gpu else host.get("processor", "unknown")
            measured.append((on_gpu, times * float(seconds), n, str(machine)))
    on_gpu = any(entry[0] for entry in measured)
    on_same_device = [entry[1:] for entry in measured if entry[0] == on_gpu]
    if not on_same_device:
        return None
    seconds, counts, machines = zip(*on_same_device, strict=True)
    of = "gpu" if on_gpu else "core"
    return Timing(system, fmean(seconds), sum(counts), len(on_same_device), of, tuple(dict.fromkeys(machines)))


# pages


def _scaled(values: Iterable[float], names: Sequence[str]) -> tuple[float, str]:
    """Divisor and name of the values' unit: the largest unit (each a thousand of the one before) in which the greatest value is
    at least 1."""
    greatest = max(values, default=0)
    place = max((n for n in range(len(names)) if greatest >= 1000**n), default=0)
    return 1000.0**place, names[place]


def _operations(job: ArtefactJob, counted: dict[str, dict[str, int]]) -> Table:
    from mdc.report import words
    from mdc.report.frame import dataset

    sizes = _scaled((counts["parameters"] for counts in counted.values()), ("ones", "thousand", "million", "billion"))
    flop, whole = (
        _scaled((counts[key] for counts in counted.values()), [f"{prefix}FLOP" for prefix in ("", *"kMGTPEZ")])
        for key in ("flop_per_pair", "flop_per_run")
    )
    units = {"parameters": sizes, "encoder_parameters": sizes, "flop_per_pair": flop, "flop_per_run": whole}
    lines = [
        Row(
            (dataset(system), system.backbone.label, system.method.label),
            tuple(
                Cell(counted[system.key][key] / units.get(key, (1, ""))[0], decimals=1 if key in units else 0)
                for key in _COUNTED
            ),
            _block(system),
        )
        for system in job.systems
        if system.key in counted
    ]
    return Table(
        title=f"{words.heading(job)}, {words.scale_text(job)}",
        caption=("A training's parameters, and its operations forward and backward.",),
        labels=("Dataset", "Backbone", "Method"),
        columns=(
            Column("all", "Parameters", sizes[1], "Parameters"),
            Column("encoder", "Parameters", sizes[1], "Encoder parameters"),
            Column("per pair", "Operations", flop[1], "Operations per pair"),
            Column("per run", "Operations", whole[1], "Operations per run"),
            Column("Pairs seen"),
        ),
        rows=tuple(lines),
        footnotes=(
            "Parameters: those that are trained; a frozen encoder's are none of them, and neither are its operations.",
            "Operations: floating-point operations of matrix products, counted on one step with captions of the corpus's "
            "mean length; a multiplication and an addition are two.",
        ),
    )


def _block(system: System) -> str:
    return f"{system.backbone.key}/{system.corpus.key if system.corpus else ''}"


#: kind of time → its name in a heading, and its note
_OF = {
    "core": (
        "core",
        "Of cores: processor time of all threads. Wall time is left out: what else the machine did is not known.",
    ),
    "gpu": ("GPU", "Of GPUs: wall time times their number; what else the GPU did is not known."),
}


def _measured(job: ArtefactJob, timings: Sequence[Timing], captions: bool) -> Table:
    """The time of trainings, or of ``captions``."""
    from mdc.report import words
    from mdc.report.frame import dataset

    most = max(timing.value for timing in timings)
    if captions:
        title, each = "Time of a caption, by what writes it", "caption"
        unit, size, decimals = ("seconds", 1.0, 2) if most >= 1 else ("milliseconds", 0.001, 1)
        note = "Without encoding the image, which all of a run's captions share."
    else:
        title, each = "Time of a training", "run"
        unit, size, decimals = ("hours", 3600.0, 2) if most >= 7200 else ("seconds", 1.0, 1)
        note = "With reading the data and validating. A run that was interrupted and resumed has no time of cores."
    kinds = [kind for kind in _OF if any(timing.of == kind for timing in timings)]
    lines = []
    for timing in timings:
        system = timing.system
        cells = [Cell(timing.value / size if timing.of == kind else None, decimals=decimals) for kind in kinds]
        more = system.more.get("decoding") or system.backbone.label
        labels = dataset(system), more, system.method.label
        lines.append(Row(labels, (*cells, Cell(timing.n, decimals=0)), "" if captions else _block(system)))
    machines = dict.fromkeys(machine for timing in timings for machine in timing.machines)
    heads = [Column(f"per {each}", f"{_OF[kind][0]}-{unit}", full=f"{kind}-{unit}") for kind in kinds]
    return Table(
        title=f"{title}, {words.scale_text(job)}",
        caption=(f"As measured on: {', '.join(machines)}.",),
        labels=("Dataset", "Decoding" if captions else "Backbone", "Method"),
        columns=(*heads, Column(f"{each}s")),
        rows=tuple(lines),
        footnotes=(*(_OF[kind][1] for kind in kinds), note),
    )
