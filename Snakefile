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
include: "workflow/rules/lock.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/encoders.smk"
include: "workflow/rules/pretrain.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/captions.smk"
include: "workflow/rules/artefacts.smk"


rule all:
    default_target: True
    input:
        [copy for name in NAMED for copy in copies(name)],
        "results/index.html",


rule data:
    input:
        [manifest(name) for name in JOBS if name.startswith("data/")],


# one target a dataset: `snakemake obtain_cc12m --config scale=paper`
for name in SCALE.data.datasets:

    rule:
        name:
            f"obtain_{name}"
        localrule: True
        input:
            manifest(f"data/obtained/{name}"),


rule pretrain_all:
    input:
        manifests("tokenizer"),
        manifests("import-words"),
        manifests("import-encoder"),
        manifests("encode-corpus"),
        manifests("image-tokens"),
        manifests("pretrain"),


rule probe_all:
    input:
        manifests("probe"),


rule score_all:
    input:
        [path for verb in SCORES.values() for path in manifests(verb)],


rule caption_all:
    input:
        manifests("write-captions"),
        manifests("measure-captions"),
        manifests("judge-captions"),


localrules:
    all,
    data,
    pretrain_all,
    probe_all,
    score_all,
    caption_all,


onstart:
    # Configurations of other values go, but not while another Snakemake runs here, whose jobs may have yet to read theirs.
    with suppress(OSError):
        fcntl.flock(ALIVE, fcntl.LOCK_EX | fcntl.LOCK_NB)
        delete_others(FOLDER, [*CONFIGS.values(), *VALUES])
    with suppress(OSError):
        fcntl.flock(ALIVE, fcntl.LOCK_SH)


onerror:
    refresh_index()
    # at the exit, since Snakemake itself says more after this: the last lines on the screen are what failed and why
    atexit.register(print, causes(log), file=sys.stderr)
