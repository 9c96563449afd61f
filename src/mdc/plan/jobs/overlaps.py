"""Which test images the runs of a table or figure may have been trained on: a job for each corpus and test set, however many
tables show them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from mdc.plan.config.kinds.encoders import RANDOM, shown_label
from mdc.plan.jobs.context import Context
from mdc.plan.jobs.model import (
    CaptionMetricsJob,
    ChoicesJob,
    EncoderJob,
    OverlapJob,
    PositionsJob,
    PretrainJob,
    ProbeJob,
    RetrievalJob,
    ZeroShotJob,
)
from mdc.plan.jobs.shown import Beside, Seen, ShownColumn, System


class _Test(NamedTuple):
    """A split of the set ``name`` of a ``section`` of the scale's data."""

    section: str
    name: str
    split: str = "test"


def seen(plan: Context, values: dict[str, Any]) -> dict[str, Any]:
    """The values ``seen`` and ``unknown`` of a table's or figure's job, which has these ``values``; their jobs are added to its
    ``jobs``."""
    beside: Beside | None = values.get("beside")
    systems: list[System] = [*values.get("systems", ()), *(beside.systems if beside else ())]
    columns: list[ShownColumn] = [*values.get("columns", ()), *(beside.columns if beside else ())]
    of_set: dict[str, list[str]] = {}
    for column in columns:
        for name in column.more.get("sets", [column.key]):
            of_set.setdefault(name, []).append(column.key)
    tested: dict[tuple[str, _Test], dict[str, Any]] = {}  # {a system's key: a record of it}
    unknown: dict[str, None] = {}
    for system in systems:
        for record in map(plan.made.__getitem__, system.records):
            tests = list(_tests(plan, record))
            corpora, external = _training(plan, record) if tests else ([], [])
            unknown |= dict.fromkeys(label or system.method.label for label in external)
            for test in tests:
                if test.section == "corpora" or test.name in of_set:
                    for corpus in corpora:
                        tested.setdefault((corpus, test), {})[system.key] = record
    entries = [
        Seen(
            job=_overlap(plan, corpus, test).job,
            training=plan.scale.data.corpora[corpus].label,
            test=getattr(plan.scale.data, test.section)[test.name].label,
            name=test.name,
            records=list({record.verb: record.job for record in records.values()}.values()),
            columns=list(dict.fromkeys(of_set.get(test.name, ()))),
            systems=list(records),
        )
        for (corpus, test), records in tested.items()
    ]
    values["jobs"] = values["jobs"] | {entry.job: None for entry in entries}
    return {key: value for key, value in (("seen", entries), ("unknown", list(unknown))) if value}


def _overlap(plan: Context, corpus: str, test: _Test) -> OverlapJob:
    of, split = f"data/{test.section}/{test.name}", "" if test.section != "corpora" else f"/{test.split}"
    return plan.make(
        OverlapJob,
        f"data/overlaps/{corpus}/{test.section}/{test.name}{split}",
        list(dict.fromkeys([f"data/corpora/{corpus}", of])),
        corpus=corpus,
        test=of,
        split=test.split,
    )


def _tests(plan: Context, record: Any) -> Iterator[_Test]:
    """What the job of a record tests on."""
    if isinstance(record, ProbeJob | ZeroShotJob):
        yield from (_Test("probes", name) for name in record.probes)
    elif isinstance(record, ChoicesJob):
        yield from (_Test("choices", name) for name in record.sets)
    elif isinstance(record, CaptionMetricsJob):
        yield _Test("corpora", record.corpus, record.split)
    elif isinstance(record, RetrievalJob | PositionsJob):
        yield _Test("corpora", plan.made[record.run].corpus, "val")


def _training(plan: Context, record: Any) -> tuple[list[str], list[str]]:
    """(the corpora that the model of a record was trained on, the labels of external models in it; "" of one without label)."""
    if isinstance(record, CaptionMetricsJob):
        record = plan.made[record.captions]
    external = [""] if getattr(record, "open_clip", None) or getattr(record, "coca", None) else []
    waiting = [name for name in (getattr(record, "run", None), _encoder(record)) if name]
    corpora: dict[str, None] = {}
    while waiting:
        job = plan.made[waiting.pop()]
        if isinstance(job, PretrainJob):
            corpora[job.corpus] = None
            waiting += [name for name in (job.start and job.start.run, _encoder(job)) if name]
            continue
        assert isinstance(job, EncoderJob)
        behind = plan.made[job.behind.job] if job.behind is not None else None
        if isinstance(behind, PretrainJob):
            waiting.append(behind.job)
        elif corpus := getattr(getattr(behind, "entry", None), "corpus", None):
            corpora[corpus] = None
        elif getattr(job.entry, "weights", None) != RANDOM:
            external.append(shown_label(plan.scale.encoders[job.name]))
    return sorted(corpora, key=list(plan.scale.data.corpora).index), external


def _encoder(job: Any) -> str | None:
    """The job of the frozen encoder of a run or a probe."""
    backbone = getattr(job, "backbone", None)
    frozen = getattr(backbone, "frozen", backbone)
    return getattr(frozen, "job", None)
