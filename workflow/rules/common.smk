# Validated parameters, the jobs of the scale, and where everything lies.
#
# The resolved configuration of every job is written to results/<scale>/configs/<job>.<hash>.json. This file is the job's
# input, so Snakemake reruns exactly the jobs whose values or code changed. No job reads params.yaml.

import atexit
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

# jobs call the `mdc` of the environment that runs Snakemake, whether it is activated or not
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

from mdc.plan.config.read import overlaid, read_yaml, validate
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.configs import delete_others, write_configs
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan, datasets_of
from mdc.plan.jobs.accepted import read_accepted
from mdc.plan.processes.failures import causes
from mdc.plan.processes.gpus import gpu_ids, wanted_gpus
from mdc.plan.records import UserError, json_text, write_text_if_changed
from mdc.plan.verbs import VERBS


def written(name, values):
    """A file of values that decide no result, written only if they changed."""
    path = f"{R}/configs/{name}.json"
    write_text_if_changed(path, json_text(values.model_dump(mode="json")))
    VALUES.append(Path(path))
    return path


VALUES = []  # files of values that decide no result
# not by `configfile:`, whose reader takes 1e-4 for text and the last of two equal keys, and is slow
CONFIG_FILES = ["params.yaml", *workflow.overwrite_configfiles]
workflow.configfiles[:0] = CONFIG_FILES[:1]  # for reports and archives

try:
    # what --configfile and --config say lies on top
    PLAN = Plan(validate(overlaid(*map(read_yaml, CONFIG_FILES), workflow.config_settings.config)), read_accepted())
    SCALE, JOBS = PLAN.scale, PLAN.jobs
    R = f"results/{PLAN.params.scale}"
    FOLDER = ScaleFolder(Path(R))
    CONFIGS = write_configs(FOLDER, JOBS.values())
    RUNTIME = written("runtime", SCALE.pretrain.runtime) if SCALE.pretrain else None
    PROBE_RUNTIME = written("probe_runtime", SCALE.probe.runtime) if SCALE.probe else None
    DATA_RUNTIME = written("data_runtime", SCALE.data.runtime)
    DOWNLOAD_RUNTIME = written("download_runtime", SCALE.data.download.runtime) if SCALE.data.download else None
except UserError as error:
    raise WorkflowError(str(error)) from None
except OSError as error:  # no permission, no space, results/ read-only
    raise WorkflowError(f"{error.filename or 'results'}: {error.strerror or error}") from None

# resumable states and caches; they are no output of any rule, so Snakemake does not delete them when a job fails
STATE = f".state/{PLAN.params.scale}"

# This machine runs no more GPU jobs at once than it has GPUs (--resources gpu=N allows fewer), and each job claims its own.
# On a cluster (--jobs) the scheduler counts the GPUs.
ON_CLUSTER = workflow.global_resources["_nodes"].value is not None
if gpu_ids() and not ON_CLUSTER:
    workflow.global_resources.setdefault("gpu", len(gpu_ids()))


def gpus(device, processes=1):
    """How many GPUs a job with this device setting asks for; on a cluster `auto` asks for none."""
    return (processes if device == "cuda" else 0) if ON_CLUSTER else wanted_gpus(device, processes)


def refuse(message):
    """Raise WorkflowError, and say it again as the last line on the screen, below Snakemake's traceback."""
    atexit.register(print, message, file=sys.stderr)
    raise WorkflowError(message)


def job_config(job):
    """The configuration of a job. WorkflowError if the scale has no such job."""
    if job not in CONFIGS:
        refuse(f"scale {PLAN.params.scale} has no job '{job}'; `mdc config list` names all")
    return str(CONFIGS[job])


def manifest(job):
    """The file of a job that later jobs read."""
    return str(FOLDER.manifest(job, JOBS[job].verb))


def files(verb, folder):
    """What a job of a verb leaves in its folder, its manifest first; ``folder`` has a wildcard in braces."""
    left = VERBS[verb]
    return [f"{R}/{folder}/{file}" for file in dict.fromkeys((left.manifest, left.record, *left.outputs))]


def given(job):
    """The manifests that a job reads; none for a path that is no job's."""
    return [manifest(name) for name in JOBS[job].inputs] if job in JOBS else []


def manifests(verb):
    """Of all jobs of a verb."""
    return [manifest(name) for name, job in JOBS.items() if job.verb == verb]
