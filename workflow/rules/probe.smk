# One job per encoder does all of its probes: importing PyTorch costs more than a probe.



def probe_sets(encoder):
    """The sets that an encoder is probed on; none for a path that is no encoder's."""
    return [probe_index(name) for name in CONFIGS.get(f"probe/{encoder}", {"probes": []})["probes"]]


rule probe:
    input:
        config=config_file("probe/{corpus}/{backbone}/{method}/s{seed}"),
        manifest=f"{R}/runs/{{corpus}}/{{backbone}}/{{method}}/s{{seed}}/run.json",
        # the manifest names the checkpoint by hash; its own time means nothing (DVC does not keep it)
        checkpoint=ancient(f"{R}/runs/{{corpus}}/{{backbone}}/{{method}}/s{{seed}}/checkpoint.safetensors"),
        sets=lambda w: probe_sets(f"{w.corpus}/{w.backbone}/{w.method}/s{w.seed}"),
    output:
        record=f"{R}/probe/{{corpus}}/{{backbone}}/{{method}}/s{{seed}}/probe.json",
        per_item=f"{R}/probe/{{corpus}}/{{backbone}}/{{method}}/s{{seed}}/items.parquet",
    log:
        f"{R}/logs/probe/{{corpus}}/{{backbone}}/{{method}}/s{{seed}}.log",
    params:
        out=lambda w, output: str(Path(output.record).parent),
        cache=f"{STATE}/features",
    threads: SCALE.probe.threads
    resources:
        gpu=gpus(SCALE.probe.device),
        cpus_per_task=SCALE.probe.threads,
    shell:
        "mdc probe {input.config} --sets {input.sets} --run {input.manifest} --cache {params.cache}"
        " --out {params.out} 2> {log}"


rule probe_untrained:
    input:
        config=config_file("probe/untrained/{backbone}/{pooling}/s{seed}"),
        sets=lambda w: probe_sets(f"untrained/{w.backbone}/{w.pooling}/s{w.seed}"),
    output:
        record=f"{R}/probe/untrained/{{backbone}}/{{pooling}}/s{{seed}}/probe.json",
        per_item=f"{R}/probe/untrained/{{backbone}}/{{pooling}}/s{{seed}}/items.parquet",
    log:
        f"{R}/logs/probe/untrained/{{backbone}}/{{pooling}}/s{{seed}}.log",
    params:
        out=lambda w, output: str(Path(output.record).parent),
        cache=f"{STATE}/features",
    threads: SCALE.probe.threads
    resources:
        gpu=gpus(SCALE.probe.device),
        cpus_per_task=SCALE.probe.threads,
    shell:
        "mdc probe {input.config} --sets {input.sets} --cache {params.cache} --out {params.out} 2> {log}"


# no corpus is called "untrained" (the schema refuses it), so this order decides every path rightly
ruleorder: probe_untrained > probe
