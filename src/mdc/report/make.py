"""The verb ``mdc make``: one table or figure from its input records.

Its module (see :mod:`mdc.plan.artefacts`) writes its files. Then its record is written, which names every file and every input
record by sha256, and holds the ``warnings`` about its numbers, if there are any.
"""

import importlib
from pathlib import Path
from typing import Any

from mdc.plan.artefacts import declared
from mdc.plan.jobs.call import Call, record
from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.plan.records import clear_leftovers, read_json, write_json
from mdc.report.manifests import Manifests, check_inputs
from mdc.report.warnings import warnings


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.shown.ArtefactJob`."""
    call.out.mkdir(parents=True, exist_ok=True)
    clear_leftovers(call.out)
    make(call.job, call.manifests, call.out)
    outputs = [Path(call.out) / name for name in call.job.files]
    more: dict[str, Any] = {"warnings": texts} if (texts := warnings(call.job, call.manifests)) else {}
    write_json(
        call.out / call.folder.record(call.job.job, call.job.verb).name, record(call, "artefact", outputs, **more)
    )


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Check the inputs of ``job``, then write its files to the folder ``out``. UserError as the artefact's module."""
    check_inputs(job, manifests)
    labels: dict[str, str] = {}

    def counted(system: System) -> System:
        """A row with its corpus's pairs in the label, if the source counts rows of a list: links die."""
        corpus = system.corpus
        if corpus is None or corpus.listed is None:
            return system
        if corpus.key not in labels:
            measured = read_json(manifests[system.records[0]])
            pairs = (measured.get("training") or measured)["pairs"]
            labels[corpus.key] = f"{corpus.label} ({pairs:,} pairs)"
        return system.but(corpus=corpus.but(label=labels[corpus.key]))

    beside = job.beside and job.beside.but(systems=[*map(counted, job.beside.systems)])
    job = job.but(systems=[*map(counted, job.systems)], beside=beside)
    importlib.import_module(declared(job.artefact, job.kind).module).make(job, manifests, out)
