"""The job ``mdc probe-set``: a source of labelled images as webdataset shards with a manifest."""

from __future__ import annotations

from mdc.formats.data_folder import data_folder
from mdc.jobs.call import Call
from mdc.shards.probe_set import write_probe
from mdc.shards.set_job import note, sharding, source_of
from mdc.sources.source import open_probe


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.jobs.model.ProbeSetJob`."""
    write_probe(call.job.name, open_probe(source_of(call), data_folder()), call.out, **sharding(call))
    note(call)
