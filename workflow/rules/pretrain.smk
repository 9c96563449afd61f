# One job per run. Its resumable state lies outside results/: after a kill, `retries` or a second call goes on from it.
# A killed Snakemake leaves its trainers running; `--wait` lets the next Snakemake's job wait for such a one and take over.


rule pretrain:
    input:
        config=config_file("runs/{corpus}/{backbone}/{method}/s{seed}"),
        shards=f"{R}/data/corpora/{{corpus}}/index.json",
        vocabulary=VOCABULARY,
        runtime=ancient(RUNTIME),
    output:
        manifest=f"{R}/runs/{{corpus}}/{{backbone}}/{{method}}/s{{seed}}/run.json",
        checkpoint=f"{R}/runs/{{corpus}}/{{backbone}}/{{method}}/s{{seed}}/checkpoint.safetensors",
        log=f"{R}/runs/{{corpus}}/{{backbone}}/{{method}}/s{{seed}}/log.jsonl",
    log:
        f"{R}/logs/runs/{{corpus}}/{{backbone}}/{{method}}/s{{seed}}.log",
    params:
        out=lambda w, output: str(Path(output.manifest).parent),
        state=f"{STATE}/runs/{{corpus}}/{{backbone}}/{{method}}/s{{seed}}",
    threads: cores
    resources:
        gpu=lambda w: gpus(recipe(w).device, recipe(w).processes),
        cpus_per_task=cores,  # a cluster job's cores; `threads` is cut to the cores of the machine that submits
    retries: 2 if workflow.is_main_process else 0  # a cluster job runs Snakemake again, twice
    shell:
        "mdc pretrain {input.config} --shards {input.shards} --vocabulary {input.vocabulary}"
        " --runtime {input.runtime} --out {params.out} --state {params.state} --wait 2>> {log}"
