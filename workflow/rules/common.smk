# Validated parameters, the jobs of the scale, and where everything lies.
#
# For every job a resolved configuration is written to results/<scale>/configs/<job>.json, only if it changed: it is the
# job's input, so Snakemake reruns exactly the jobs whose values or code changed. params.yaml itself is nobody's input.

import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

# `mdc` is the one of the environment that runs Snakemake, activated or not
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

from mdc import jobs
from mdc.config import read_yaml, validate
from mdc.formats.data_folder import data_folder
from mdc.processes.gpus import gpu_ids, wanted_gpus
from mdc.records import UserError, json_text, write_text_if_changed

try:
    read_yaml("params.yaml")  # Snakemake's own reader lets a key stand twice
    PARAMS = validate(dict(config))
    CONFIGS = jobs.configs(PARAMS)
    RUNS = jobs.runs(PARAMS)
    R = f"results/{PARAMS.scale}"
    for name, resolved in CONFIGS.items():
        write_text_if_changed(f"{R}/configs/{name}.json", json_text(resolved))
    RUNTIME = f"{R}/configs/runtime.json"
    write_text_if_changed(RUNTIME, json_text(PARAMS.current().pretrain.runtime.model_dump(mode="json")))
    DOWNLOAD_RUNTIME = None
    if PARAMS.current().data.download is not None:
        DOWNLOAD_RUNTIME = f"{R}/configs/download_runtime.json"
        tempo = PARAMS.current().data.download.runtime.model_dump(mode="json")
        write_text_if_changed(DOWNLOAD_RUNTIME, json_text(tempo))
except UserError as error:
    raise WorkflowError(str(error)) from None
except OSError as error:  # no permission, no space, results/ read-only
    raise WorkflowError(f"{error.filename or 'results'}: {error.strerror or error}") from None

SCALE = PARAMS.current()
ENCODERS = [*RUNS, *jobs.untrained(PARAMS)]
# resumable states and caches: no output of any rule, so a failed job does not take them along
STATE = f".state/{PARAMS.scale}"
VOCABULARY = f"{R}/data/vocabulary.json"

# On this machine no more GPU jobs at once than it has GPUs (--resources gpu=N allows fewer); each job claims its own.
# On a cluster (--jobs) its scheduler counts them.
ON_CLUSTER = workflow.global_resources["_nodes"].value is not None
if gpu_ids() and not ON_CLUSTER:
    workflow.global_resources.setdefault("gpu", len(gpu_ids()))


def gpus(device, processes=1):
    """How many GPUs a job with this device setting asks for; on a cluster `auto` asks for none."""
    return (processes if device == "cuda" else 0) if ON_CLUSTER else wanted_gpus(device, processes)


def recipe(w):
    """The recipe of the run with these wildcards."""
    return jobs.recipe(PARAMS, jobs.Run(w.corpus, w.backbone, w.method, int(w.seed)))


def cores(w):
    """How many cores a run's processes compute on."""
    return recipe(w).threads * recipe(w).processes



wildcard_constraints:
    corpus=r"[^/]+",
    backbone=r"[^/]+",
    method=r"[^/]+",
    seed=r"\d+",
    pooling=r"[^/]+",


def config_file(job):
    return f"{R}/configs/{job}.json"


def corpus_index(name):
    return f"{R}/data/corpora/{name}/index.json"


def probe_index(name):
    return f"{R}/data/probes/{name}/index.json"


def choices_index(name):
    return f"{R}/data/choices/{name}/index.json"


def texts_index(name):
    return f"{R}/data/texts/{name}/index.json"


def run_manifest(run):
    return f"{R}/runs/{run.id}/run.json"


def probe_record(encoder):
    return f"{R}/probe/{encoder.id}/probe.json"


def obtained_record(name):
    return f"{R}/data/obtained/{name}/obtained.json"


def obtained(sets, name):
    """The records of the datasets that a set is made from; none for a name that does not exist."""
    return [obtained_record(dataset) for dataset in jobs.datasets_of(sets[name].source)] if name in sets else []


def list_files(dataset):
    """The user's own list of URLs, if there is one."""
    if dataset.list is None:
        return []
    place = data_folder() / dataset.list.path
    return [str(place)] if place.is_file() else sorted(map(str, place.rglob("*"))) if place.is_dir() else []


def source_files(sets, name):
    """The user's own files behind a set, as far as they are there: a missing one fails in its job, not in the graph.

    Image files are not listed: there can be millions, and this runs at every start of Snakemake. A table of captions
    stands for its images. Folders of a class stand for theirs: their time changes when an image comes or goes. After
    an image was changed in its place, say `snakemake --forcerun corpus` (or probe_set). A dataset's own files stand
    behind its obtained.json.
    """
    source = sets[name].source if name in sets else None
    path = getattr(source, "path", None)
    if path is None:
        return []
    place = data_folder() / path
    if place.is_file():
        found = [place]
    elif source.kind == "class_folder":
        folders = [place / split for split in source.splits.values()]
        found = [inner for folder in folders if folder.is_dir() for inner in folder.iterdir() if inner.is_dir()]
    elif source.kind in ("parquet", "caption_nouns", "caption_list", "webdataset"):
        found = place.rglob("*.tar" if source.kind == "webdataset" else "*.parquet")
    else:
        found = []
    return sorted(str(p) for p in found)
