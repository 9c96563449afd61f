# Validated parameters, the jobs of the scale, and their paths.
#
# The resolved configuration of every job is written to results/<scale>/configs/<job>.<hash>.json. This file is the job's
# input, so Snakemake reruns exactly the jobs whose values or code changed. No job reads params.yaml.

import atexit
import fcntl
import gc
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from snakemake.exceptions import LockException, WorkflowError

# jobs call the `mdc` of the environment that runs Snakemake, whether it is activated or not
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

gc.disable()  # until the jobs are planned: the objects created until then stay, and collecting takes long

from mdc.plan.config.layers import scale_file
from mdc.plan.config.read import layered, validate
from mdc.plan.data_folder import data_folder
from mdc.plan.fingerprint import COMPARED, check_sources, remembered
from mdc.plan.jobs.configs import delete_others, write_configs
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.needs import check_times, computing, cores, files_of_inputs, files_of_user, value_at
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.accepted import read_accepted
from mdc.plan.outputs import publish
from mdc.plan.processes.failures import causes
from mdc.plan.processes.gpus import gpu_ids, wanted_gpus
from mdc.plan.records import UserError, json_text, write_text_if_changed
from mdc.plan.stage import target
from mdc.plan.verbs import LAYERS, VERBS


include: "inside.smk"


try:
    if MAIN:
        check_sources(Path(workflow.basedir, "src/mdc"))
    os.environ[COMPARED] = "1"
    Path(".snakemake").mkdir(exist_ok=True)
    # --configfile and --config override params.yaml
    PARAMS = validate(layered("params.yaml", *given()))
    say_parameters("params.yaml", scale_file("params.yaml", PARAMS.scale))
    with remembered(Path(".snakemake/mdc_sources.json")):
        PLAN = Plan(PARAMS, read_accepted())
        SCALE, JOBS = PLAN.scale, PLAN.jobs
    R = f"results/{PLAN.params.scale}"
    FOLDER = ScaleFolder(Path(R))
    # a shared lock as long as this process lives, so that another Snakemake does not delete its configurations
    ALIVE = Path(".snakemake/alive").open("a+")  # NFS shares only what can be read
    with suppress(OSError):  # a file system without locks
        fcntl.flock(ALIVE, fcntl.LOCK_SH)
    CONFIGS = write_configs(FOLDER, JOBS.values())
    # runtime values, which decide no result: block of the scale → its file, written only if they changed
    RUNTIMES = {
        block: f"{R}/configs/{block}.json"
        for block in (row.options.get("runtime") for row in VERBS.values())
        if block and value_at(SCALE, block)
    }
    for block, path in RUNTIMES.items():
        write_text_if_changed(path, json_text(value_at(SCALE, block).model_dump(mode="json")))
    gc.enable()
except UserError as error:
    raise WorkflowError(str(error)) from None
except OSError as error:  # no permission, no space, results/ read-only
    raise WorkflowError(f"{error.filename or 'results'}: {error.strerror or error}") from None

# each job claims its own GPU; on a cluster the scheduler counts them
if gpu_ids() and not ON_CLUSTER:
    limit_gpus(len(gpu_ids()))


def refuse(message):
    """Raise WorkflowError, and repeat it as the last line on the screen, below Snakemake's traceback."""
    atexit.register(print, message, file=sys.stderr)
    raise WorkflowError(message)


def lock_exception():
    """In place of Snakemake's own, whose advice, --unlock, is right only if no other call runs here."""
    try:
        fcntl.flock(ALIVE, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        message = (
            f"{os.getcwd()}: another call of Snakemake is at work here, on files that this call needs too (also one for another "
            "scale: both copy to results/); wait until it ends. Do not --unlock meanwhile: both would write the same files"
        )
        atexit.register(print, message, file=sys.stderr)
        return WorkflowError(message)
    except OSError:  # a file system without locks
        pass
    return LockException()


say_lock(lock_exception)


def job_of(name):
    """A job by its name. WorkflowError if the scale has no such job."""
    if name not in JOBS:
        refuse(PLAN.no_job(name))
    return JOBS[name]


def config_of(job):
    return str(CONFIGS[job.job])


def manifest(name):
    """The file of a job that later jobs read."""
    return str(FOLDER.manifest(name, JOBS[name].verb))


def input_manifests(job):
    """The manifests that a job reads."""
    return [manifest(name) for name in job.inputs]
