"""Jobs that share the download of a large dataset, and its conversion to shards among corpora.

``data.download.runtime`` sets the number of download jobs, which changes no image: job ``i`` of ``n`` has the parts i, i + n,
i + 2n, …
"""

from typing import Any

from mdc.plan.config.data import origin_of
from mdc.plan.config.kinds.sources import CorpusSource, PairsCorpus
from mdc.plan.jobs.context import Context
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.model import CorpusPartsJob, DownloadJob, PlanDownloadJob
from mdc.plan.records import sha256_json


def parts_of(plan: Context, name: str) -> list[str]:
    """The job that writes one corpus's parts; none for a source without parts."""
    source = plan.scale.data.corpora[name].source
    if not source.in_parts and not getattr(source, "sharded", False):
        return []
    reading = _reading(name, source)
    resolved = plan.resolved_source(source)
    if isinstance(source, PairsCorpus):
        resolved = resolved.model_copy(update={"pairs": _most(plan, reading)})
    dataset = getattr(source, "dataset", None)
    planned = plan.make(
        CorpusPartsJob,
        f"data/parts/{reading}",
        [f"data/obtained/{dataset}"] if dataset else [],
        [source.module],
        name=reading,
        source=resolved,
        protocol=plan.params.protocol.data,
    )
    return [planned.job]


def _reading(name: str, source: CorpusSource) -> str:
    """The name of a corpus's parts. Corpora that read a dataset with the same keys share them, whatever their number of pairs."""
    if not isinstance(source, PairsCorpus):
        return name
    beside = ("kind", "dataset", "path", "from", "pairs")
    later = ("image_size", "image_column")  # parts from before these keys existed keep their name
    manner = {
        key: value
        for key, value in source.complete().items()
        if key not in beside and (value is not None or key not in later)
    }
    return f"{source.dataset}-{sha256_json(manner)[:8]}"


def _most(plan: Context, reading: str) -> int | None:
    """The number of pairs of the largest corpus with these parts; None for all."""
    sources = [(name, entry.source) for name, entry in plan.scale.data.corpora.items()]
    wanted = [
        entry.pairs for name, entry in sources if isinstance(entry, PairsCorpus) and _reading(name, entry) == reading
    ]
    return None if None in wanted else max(number for number in wanted if number is not None)


def downloads(plan: Context, name: str) -> list[Job]:
    """The jobs that share a dataset's download, if there are several: for a list of URLs its plan, then the groups."""
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
