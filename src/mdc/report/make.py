"""The verb ``mdc make``: one table or figure from its input records.

Its module (see :mod:`mdc.plan.artefacts`) writes its files. Then its record is written, which names every file and every input
record by sha256.
"""

import importlib
from pathlib import Path

from mdc.plan.artefacts import declared
from mdc.plan.jobs.call import Call, record
from mdc.plan.records import clear_leftovers, write_json


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.shown.ArtefactJob`."""
    call.out.mkdir(parents=True, exist_ok=True)
    clear_leftovers(call.out)
    importlib.import_module(declared(call.job.artefact, call.job.kind).module).make(call.job, call.manifests, call.out)
    outputs = [Path(call.out) / name for name in call.job.files]
    write_json(call.out / call.folder.record(call.job.job, call.job.verb).name, record(call, "artefact", outputs))
