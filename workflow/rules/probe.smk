# One job trains all probes of an encoder, because importing PyTorch takes longer than a probe.


wildcard_constraints:
    encoder=r".+",


def checkpoint(w):
    """The weights of a trained encoder; its manifest names them by hash, so their own time means nothing (DVC does not
    keep it). None for an untrained control."""
    job = JOBS.get(f"probe/{w.encoder}")
    return [f"{R}/{job.run}/checkpoint.safetensors"] if job and job.run else []


PROBE_CORES = SCALE.probe.cores if SCALE.probe else 1


rule probe:
    input:
        config=lambda w: job_config(f"probe/{w.encoder}"),
        given=lambda w: given(f"probe/{w.encoder}"),
        checkpoint=lambda w: ancient(checkpoint(w)),
        runtime=ancient(PROBE_RUNTIME) if PROBE_RUNTIME else [],
    output:
        files("probe", "probe/{encoder}"),
    log:
        f"{R}/logs/probe/{{encoder}}.log",
    params:
        cache=f"{STATE}/features",
    threads: PROBE_CORES
    resources:
        gpu=gpus(SCALE.probe.device) if SCALE.probe else 0,
        cpus_per_task=PROBE_CORES,
    shell:
        "mdc probe {input.config} --runtime {input.runtime} --cache {params.cache} 2> {log}"
