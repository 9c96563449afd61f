"""The job ``mdc choice-set``: a source of images with right and wrong captions as webdataset shards with a manifest."""

from __future__ import annotations

from mdc.formats.data_folder import data_folder
from mdc.jobs.call import Call
from mdc.shards.choices import write_choices
from mdc.shards.set_job import note, sharding, source_of
from mdc.sources.source import open_choices


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.jobs.model.ChoiceSetJob`."""
    write_choices(call.job.name, open_choices(source_of(call), data_folder()), call.out, **sharding(call))
    note(call)
