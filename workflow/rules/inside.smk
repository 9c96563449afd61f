# What this workflow takes from inside Snakemake, where it has no documented way: each with what happens without it.
# Read in Snakemake 9.27; tests/pipeline/test_inside_snakemake.py names the version and holds these names to it.

import re

import snakemake.exceptions
from snakemake.logging import logger

#: false in the Snakemake that a cluster job starts. Without it, that one would compare sources and clocks again, and retry too.
MAIN = workflow.is_main_process

#: whether jobs go to a cluster (--jobs). Without it, they would claim the GPUs of the machine that submits them.
ON_CLUSTER = workflow.global_resources["_nodes"].value is not None


def given():
    """The files of --configfile and the values of --config. Without them, `configfile:` is the way, whose reader takes 1e-4 for
    text, accepts duplicate keys, and is slow."""
    return [*workflow.overwrite_configfiles, dict(workflow.config_settings.config)]


def say_parameters(*files):
    """Name the files of parameters to Snakemake. Without it, its reports and archives lack them."""
    workflow.configfiles[:0] = map(str, files)


def limit_gpus(count):
    """Run no more GPU jobs at once than there are GPUs; --resources gpu=N allows fewer. Without it, everybody would have to type
    that, or jobs would wait for each other's GPU."""
    workflow.global_resources.setdefault("gpu", count)


def unlimited_rate():
    """No limit of jobs a second. With it, Snakemake's scheduler wakes once more a second for each job that has ended: after
    hundreds, that takes half a core."""
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None


def say_lock(exception):
    """Raise ``exception()`` where Snakemake finds its lock. Without it, the advice is --unlock, also while another call runs."""
    snakemake.exceptions.LockException = exception


def say_missing(text):
    """``text``: of a target that nothing makes. Without it, Snakemake's message names no target that there is."""

    def hint(record):
        if missing := re.search(r"No rule to produce (\S+) \(", record.getMessage()):
            record.msg = f"{record.msg}\n{text(missing[1], [rule.name for rule in workflow.rules])}"
        return True

    logger.addFilter(hint)
