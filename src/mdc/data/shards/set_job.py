"""What the jobs that write a set of shards have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdc.data.shards.index import INDEX
from mdc.plan.jobs.call import Call, write_made


def sharding(call: Call) -> dict[str, Any]:
    """How a set is cut into shards, as the writers' keywords."""
    return {"samples_per_shard": call.job.samples_per_shard, "max_skipped": call.job.max_skipped}


def source_of(call: Call) -> dict[str, Any]:
    """The job's source as its kind's module reads it."""
    source: dict[str, Any] = call.job.complete()["source"]
    return source


def splits_of(source: Mapping[str, Any]) -> tuple[str, ...]:
    """The splits of a corpus, by its ``source``.

    Training sees "train" alone; "test" is there to be scored, so its words are in the vocabulary.
    """
    if source.get("resplit"):
        return ("train", *(["val"] if source["resplit"]["val"] else []), "test")
    return tuple(source.get("splits") or ("train", "val", *(["test"] if source.get("test") else [])))


def note(call: Call) -> None:
    """Write the record of the set that now lies in the job's folder."""
    write_made(call, [call.out / INDEX])
