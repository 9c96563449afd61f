"""The job ``mdc choice-set``: a source of images with right and wrong captions as webdataset shards with a manifest."""

from __future__ import annotations

from mdc.data.shards.choices import write_choices
from mdc.data.shards.set_job import note, sharding, source_of
from mdc.data.sources.source import open_choices
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.ChoiceSetJob`."""
    write_choices(call.job.name, open_choices(source_of(call), data_folder()), call.out, **sharding(call))
    note(call)
