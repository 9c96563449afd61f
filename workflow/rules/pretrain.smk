# One job per run. Its resumable state lies outside results/: after a kill, `retries` or a second call resumes from it.
# A killed Snakemake leaves its trainings running. With `--wait` the next job waits for such a training and takes it over.


wildcard_constraints:
    run=r".+",


def recipe(w):
    """The recipe of a run; None for a path that is no run's."""
    job = JOBS.get(f"runs/{w.run}")
    return job.recipe if job else None


def cores(w):
    """How many cores a run's processes compute on."""
    found = recipe(w)
    return found.threads * found.processes if found else 1


rule pretrain:
    input:
        config=lambda w: job_config(f"runs/{w.run}"),
        given=lambda w: given(f"runs/{w.run}"),
        runtime=ancient(RUNTIME) if RUNTIME else [],
    output:
        files("pretrain", "runs/{run}"),
    log:
        f"{R}/logs/runs/{{run}}.log",
    params:
        state=f"{STATE}/runs/{{run}}",
    threads: cores
    resources:
        gpu=lambda w: gpus(recipe(w).device, recipe(w).processes) if recipe(w) else 0,
        cpus_per_task=cores,  # the cores of a cluster job; `threads` would be limited to those of the machine that submits it
    retries: 2 if workflow.is_main_process else 0  # not in the Snakemake that a cluster job starts, which would retry as well
    shell:
        # exec: a signal to all must not end a shell while the training below it still saves its state
        "exec mdc pretrain {input.config} --runtime {input.runtime} --state {params.state} --wait 2>> {log}"
