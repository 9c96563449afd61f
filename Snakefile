# The pipeline: data and shards → pretraining → linear probes, scores of captions → tables and figures.
#
#   snakemake results/table1.csv --cores all                              Table 1 at the scale that params.yaml names
#   snakemake --cores all                                                 every table and figure, and results/index.html
#   snakemake -n results/table1.csv --config scale=paper                  the paper's whole grid, without running it
#
# Everything a job reads or writes lies under results/<scale>/, a folder a job; results/table1.* are copies of the chosen
# scale's.

from snakemake.utils import min_version

min_version("9.27")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/jobs.smk"
include: "workflow/rules/artefacts.smk"


rule all:
    default_target: True
    input:
        [copy for name in NAMED for copy in copies(name)],
        "results/index.html",
    localrule: True


# a target for each of DVC's layers
for layer, stages in LAYERS.items():

    rule:
        name:
            target(layer)
        input:
            [manifest(name) for name, job in JOBS.items() if VERBS[job.verb].stage in stages],
        localrule: True


# one target a dataset: `snakemake obtain_cc12m --config scale=paper`
for name in SCALE.data.datasets:

    rule:
        name:
            f"obtain_{name}"
        input:
            manifest(f"data/obtained/{name}"),
        localrule: True


def nearest(missing, names):
    """The message for a target that nothing makes; ``names``: of the rules."""
    targets = [*names, *map(manifest, JOBS), *(file for name in DECLARED for file in copies(name))]
    return PLAN.no_target(missing, [*targets, *(str(file) for name in NAMED for file in artefact_files(name))])


say_missing(nearest)


onstart:
    # Configurations of other values go, but not while another Snakemake runs here, whose jobs may have yet to read theirs.
    with suppress(OSError):
        fcntl.flock(ALIVE, fcntl.LOCK_EX | fcntl.LOCK_NB)
        delete_others(FOLDER, CONFIGS.values())
    with suppress(OSError):
        fcntl.flock(ALIVE, fcntl.LOCK_SH)
    unlimited_rate()


onerror:
    refresh_index()
    # at the exit, since Snakemake itself says more after this: the last lines on the screen are what failed and why
    if told := causes("\n".join(Path(one).read_text() for one in log)):
        atexit.register(print, *told, sep="\n", file=sys.stderr)
