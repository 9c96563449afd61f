"""The job ``mdc corpus``: a source of captioned images as webdataset shards with a manifest."""

from __future__ import annotations

from mdc.formats.data_folder import data_folder
from mdc.jobs.call import Call
from mdc.shards.corpus import write_corpus
from mdc.shards.set_job import note, sharding, source_of
from mdc.sources.source import open_corpus


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.jobs.model.CorpusJob`."""
    source = source_of(call)
    write_corpus(
        call.job.name,
        open_corpus(source, data_folder()),
        call.out,
        context_length=call.job.protocol.context_length,
        # training sees "train" alone; a "test" split is there to be scored, so its words are in the vocabulary
        splits=tuple(source.get("splits") or ("train", "val", *(["test"] if source.get("test") else []))),
        **sharding(call),
    )
    note(call)
