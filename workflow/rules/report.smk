# Tables and figures of the scale, and the copies of them at results/.

TABLE1_FILES = [
    "table1.csv",
    "table1_long.csv",
    "table1_contrasts.csv",
    "table1.html",
    "table1.md",
    "table1.tex",
    "figure_table1.png",
    "figure_table1.svg",
    "table1_metrics.json",
    "table1.json",
]
LOSS_FILES = ["figure_loss.png", "figure_loss.svg", "figure_loss.csv", "figure_loss.json"]


rule table1:
    input:
        config=config_file("table1"),
        records=[probe_record(encoder) for encoder in ENCODERS],
    output:
        [f"{R}/{name}" for name in TABLE1_FILES],
    log:
        f"{R}/logs/table1.log",
    params:
        out=R,
    shell:
        "mdc table1 {input.config} --records {input.records} --out {params.out} 2> {log}"


rule loss_curves:
    input:
        config=config_file("figure_loss"),
        runs=[run_manifest(run) for run in RUNS],
        logs=[ancient(f"{R}/runs/{run.id}/log.jsonl") for run in RUNS],
    output:
        [f"{R}/{name}" for name in LOSS_FILES],
    log:
        f"{R}/logs/figure_loss.log",
    params:
        out=R,
    shell:
        "mdc loss-curves {input.config} --runs {input.runs} --out {params.out} 2> {log}"


rule publish_table1:
    input:
        [f"{R}/{name}" for name in TABLE1_FILES],
    output:
        expand("results/{file}", file=TABLE1_FILES),
    shell:
        "cp {input} results/"


rule publish_loss_curves:
    input:
        [f"{R}/{name}" for name in LOSS_FILES],
    output:
        expand("results/{file}", file=LOSS_FILES),
    shell:
        "cp {input} results/"


localrules:
    publish_table1,
    publish_loss_curves,
