"""The job ``mdc probe-set``: a source of labelled images as webdataset shards with a manifest."""

from __future__ import annotations

from mdc.data.shards.probe_set import write_probe
from mdc.data.shards.set_job import note, sharding, source_of
from mdc.data.sources.source import open_probe
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.ProbeSetJob`."""
    write_probe(call.job.name, open_probe(source_of(call), data_folder()), call.out, **sharding(call))
    note(call)
