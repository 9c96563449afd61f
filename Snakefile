# The pipeline: data and shards → pretraining → linear probes → tables and figures.
#
#   snakemake results/table1.csv --cores all                              Table 1 at the scale that params.yaml names
#   snakemake -n results/table1.csv --config scale=paper                  the paper's whole grid, without running it
#
# Everything a job reads or writes lies under results/<scale>/; results/table1.* are copies of the chosen scale's.

from snakemake.utils import min_version

min_version("9.27")


configfile: "params.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/lock.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/pretrain.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        [f"results/{name}" for names in ARTEFACTS.values() for name in names],


rule data:
    input:
        [corpus_index(name) for name in SCALE.data.corpora],
        [probe_index(name) for name in SCALE.data.probes],
        [choices_index(name) for name in SCALE.data.choices],
        [texts_index(name) for name in SCALE.data.texts],
        [obtained_record(name) for name in SCALE.data.datasets],
        VOCABULARY,


# one target a dataset: `snakemake obtain_cc12m --config scale=paper`
for name in SCALE.data.datasets:

    rule:
        name:
            f"obtain_{name}"
        localrule: True
        input:
            obtained_record(name),


rule pretrain_all:
    input:
        [run_manifest(run) for run in RUNS],


rule probe_all:
    input:
        [probe_record(encoder) for encoder in ENCODERS],


localrules:
    all,
    data,
    pretrain_all,
    probe_all,
