"""Shared by the jobs that write a set of shards."""

from collections.abc import Mapping
from typing import Any

from mdc.data.shards.index import INDEX
from mdc.plan.jobs.call import Call, write_made


def sharding(call: Call) -> dict[str, Any]:
    """The writers' keywords for the shard size and the limit of skipped samples."""
    return {"samples_per_shard": call.job.samples_per_shard, "max_skipped": call.job.max_skipped}


def source_of(call: Call) -> dict[str, Any]:
    """The job's complete source."""
    return call.job.complete()["source"]


def splits_of(source: Mapping[str, Any]) -> tuple[str, ...]:
    """The splits of a corpus, by its ``source``.

    Only "train" is trained on; "test" is evaluated, so its tokens are in the vocabulary.
    """
    if source.get("resplit"):
        return ("train", *(["val"] if source["resplit"]["val"] else []), "test")
    return tuple(source.get("splits") or ("train", "val", *(["test"] if source.get("test") else [])))


def note(call: Call) -> None:
    """Write the record of the set in the job's folder."""
    write_made(call, [call.out / INDEX])
