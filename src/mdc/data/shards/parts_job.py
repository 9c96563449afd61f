"""The job ``mdc corpus-parts``: one group of a corpus's parts as webdataset shards, with an index that describes them.

The shards are in the folder above the job's own, which all groups fill; see :mod:`mdc.data.shards.parts`.
"""

from mdc.data.shards.index import INDEX
from mdc.data.shards.parts import Group, write_parts
from mdc.data.shards.set_job import note, source_of, splits_of
from mdc.data.sources.cleaned import InParts
from mdc.data.sources.source import open_corpus
from mdc.plan.config.data import DataRuntime
from mdc.plan.config.problems import checked
from mdc.plan.data_folder import data_folder
from mdc.plan.host import usable_cores
from mdc.plan.jobs.call import Call
from mdc.plan.processes.lock import locked
from mdc.plan.records import UserError, read_json, write_json


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.CorpusPartsJob`."""
    job = call.job
    source = open_corpus(source_of(call), data_folder())
    if not isinstance(source, InParts):
        raise UserError(
            f"{job.job}: a source of kind {job.source.kind} has no parts; allowed: pairs, webdataset, parquet with sharded"
        )
    runtime = DataRuntime() if call.runtime is None else checked(DataRuntime, read_json(call.runtime), call.runtime)
    processes = runtime.processes
    source.threads = max(1, usable_cores() // processes)
    settings = {name: value for name, value in job.config().items() if name in ("protocol", "fingerprint")}
    # waits for a job that a killed Snakemake left running; its parts are then complete
    with locked(
        call.state / "groups" / f"{job.group}-of-{job.groups}", wait=True, doing="is writing this group of parts"
    ):
        entries = write_parts(
            source,
            Group(job.group, job.groups),
            splits_of(source_of(call)),
            call.out.parent,
            call.state,
            # the number of pairs changes which parts there are, but not their content: cut parts are not made here
            {**settings, "source": {key: value for key, value in source.config.items() if key != "pairs"}},
            context_length=job.protocol.context_length,
            processes=processes,
        )
    index = {"kind": "parts", "name": job.name, "source": source.config, "group": job.group, "groups": job.groups}
    write_json(call.out / INDEX, {**index, "parts": entries})
    note(call)
