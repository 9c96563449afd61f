"""Run one job: devices, processes, its verb's module, and timing."""

import importlib
import time
from datetime import timedelta

from mdc.plan.host import command_line, processor_seconds, write_host
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import HOST
from mdc.plan.progress import EVERY
from mdc.plan.verbs import VERBS
from mdc.training import launch


def do(verb: str, call: Call) -> None:
    """Run the job of ``call``, then write its command line and duration beside its record.

    Raises UserError for what a user can put right; see :mod:`mdc.training.launch` for what else can end it.
    """
    began, busy = time.perf_counter(), processor_seconds()
    if launch.enter(verb, call):
        return  # its workers have done it, and written that
    facts = importlib.import_module(VERBS[verb].module).main(call) or {}
    if "taken_over" in facts:
        return  # so has the process that was waited for
    seconds = time.perf_counter() - began
    if seconds >= EVERY:  # on the screen of whoever runs the workflow; a job's log has its stderr
        print(f"{call.job.job}: done in {timedelta(seconds=round(seconds))}", flush=True)
    manifest = call.out / VERBS[verb].manifest.format(job=call.job.job)
    write_host(call.out / HOST, manifest, command_line(call.arguments), seconds, facts, processor_seconds() - busy)
