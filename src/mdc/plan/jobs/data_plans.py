"""Jobs over groups of parts: what of a dataset of millions is downloaded and cut into shards by several jobs.

How many jobs share the work stands under ``runtime`` in the scale and decides no byte of a shard: job ``i`` of ``n`` has the
parts i, i + n, i + 2n, …
"""

from __future__ import annotations

from typing import Any

from mdc.plan import parts
from mdc.plan.config.data import origin_of
from mdc.plan.config.sources import CorpusSource, PairsCorpus
from mdc.plan.jobs.context import Context
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.model import CorpusPartsJob, DownloadJob, PlanDownloadJob
from mdc.plan.records import sha256_json


def corpus_parts(plan: Context) -> list[Job]:
    """The jobs that write the parts of all corpora that lie in parts, each once."""
    found: dict[str, Job] = {}
    for name in plan.scale.data.corpora:
        for job in parts_of(plan, name):
            found.setdefault(job.job, job)
    return list(found.values())


def parts_of(plan: Context, name: str) -> list[Job]:
    """Those behind one corpus; none for a source that does not lie in parts."""
    source = plan.scale.data.corpora[name].source
    if source.kind not in parts.IN_PARTS and not getattr(source, "sharded", False):
        return []
    reading, groups = _reading(name, source), plan.scale.data.runtime.jobs
    resolved = plan.resolved_source(source)
    if isinstance(source, PairsCorpus):
        resolved = resolved.model_copy(update={"pairs": _most(plan, reading)})
    dataset = getattr(source, "dataset", None)
    return [
        plan.make(
            CorpusPartsJob,
            f"data/parts/{reading}/{group}-of-{groups}",
            [f"data/obtained/{dataset}"] if dataset else [],
            [parts.CORPORA[source.kind]],
            name=reading,
            source=resolved,
            protocol=plan.params.protocol.data,
            group=group,
            groups=groups,
        )
        for group in range(groups)
    ]


def _reading(name: str, source: CorpusSource) -> str:
    """The name of the parts that a corpus takes. Corpora that read a dataset in one manner share them, take they more or less."""
    if not isinstance(source, PairsCorpus):
        return name
    beside = ("kind", "dataset", "path", "from", "pairs")
    later = ("image_size", "image_column")  # parts that were made before there were such keys keep their name
    manner = {
        key: value
        for key, value in source.complete().items()
        if key not in beside and (value is not None or key not in later)
    }
    return f"{source.dataset}-{sha256_json(manner)[:8]}"


def _most(plan: Context, reading: str) -> int | None:
    """The pairs of the largest corpus that takes these parts; None for all."""
    sources = [(name, one.source) for name, one in plan.scale.data.corpora.items()]
    wanted = [one.pairs for name, one in sources if isinstance(one, PairsCorpus) and _reading(name, one) == reading]
    return None if None in wanted else max(number for number in wanted if number is not None)


def downloads(plan: Context, name: str) -> list[Job]:
    """What goes before the account of a dataset that several jobs download: the groups, of a list of URLs its plan first."""
    data = plan.scale.data
    jobs = data.download.runtime.jobs if data.download is not None else 1
    origin = origin_of(name, data.datasets[name])
    if jobs == 1 or origin not in ("urls", "mirror"):
        return []
    values: dict[str, Any] = plan.obtaining(name)
    before: list[Job] = [plan.make(PlanDownloadJob, f"data/plans/{name}", [], **values)] if origin == "urls" else []
    behind = [planned.job for planned in before]
    groups = [
        plan.make(DownloadJob, f"data/downloads/{name}/{group}-of-{jobs}", behind, group=group, groups=jobs, **values)
        for group in range(jobs)
    ]
    return [*before, *groups]
