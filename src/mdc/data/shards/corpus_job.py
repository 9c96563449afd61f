"""The job ``mdc corpus``: a source of captioned images as webdataset shards with a manifest."""

from __future__ import annotations

from typing import Any

from mdc.data.shards.corpus import write_corpus
from mdc.data.shards.from_parts import join_parts
from mdc.data.shards.set_job import note, sharding, source_of, splits_of
from mdc.data.sources.cleaned import InParts
from mdc.data.sources.source import open_corpus
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.CorpusJob`."""
    source = open_corpus(source_of(call), data_folder())
    splits, context_length = splits_of(source_of(call)), call.job.protocol.context_length
    if groups := [path for job, path in call.given.items() if job.startswith("data/parts/")]:
        if not isinstance(source, InParts):
            raise AssertionError(f"{call.job.job}: a source of this kind has no parts")
        more: dict[str, Any] = {"max_skipped": call.job.max_skipped, "context_length": context_length, "splits": splits}
        join_parts(call.job.name, source, call.out, groups, **more)
    else:
        write_corpus(call.job.name, source, call.out, context_length=context_length, splits=splits, **sharding(call))
    note(call)
