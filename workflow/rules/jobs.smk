# One rule for every verb of the registry (mdc.plan.verbs), with its name, `_` for `-`.

# resumable states and caches; not outputs of a rule, so Snakemake does not delete them when a job fails
STATE = f".state/{PLAN.params.scale}"
TRIES = 2 if MAIN else 0


def of_job(layer, function):
    """For a rule: ``function`` of the layer's job that the wildcards name."""
    return lambda wildcards: function(job_of(f"{layer}/{wildcards.name}"))


def own_files(job):
    files = timely(files_of_user(job, data_folder()))
    if braced := next((file for file in files if re.search(r"\{\s*\w", file)), None):
        raise WorkflowError(f"{braced}: Snakemake takes braces in a path for a wildcard; rename it")
    return files


def timely(files):
    """The names of files that this workflow does not make."""
    try:
        if MAIN:  # not on a cluster's node, whose clock may differ
            check_times(files)
    except UserError as error:
        refuse(str(error))
    return list(map(str, files))


def others_files(job):
    """Files of the inputs. Their times are ignored: the manifests name them by hash, and DVC does not restore times."""
    return ancient(list(map(str, files_of_inputs(job, FOLDER))))


def runtime(job):
    """The file of the job's runtime values, which decide no result."""
    return ancient([file for block, file in RUNTIMES.items() if block == VERBS[job.verb].options.get("runtime")])


def options(job):
    """The command-line options of a job besides its configuration."""
    values = {name: value for name, value in VERBS[job.verb].options.items() if value is not None}
    block = values.pop("runtime", None)
    words = [f"--runtime {RUNTIMES[block]}"] if block in RUNTIMES else []
    words += [f"--{name} {STATE}/{value.format(job=job)}" if value else f"--{name}" for name, value in values.items()]
    return "".join(f" {word}" for word in words)


def cores_of(job):
    return cores(job, value_at(SCALE, VERBS[job.verb].options.get("runtime", "")))


def gpus_of(job):
    """The number of GPUs of a job; on a cluster `auto` requests none."""
    device, processes, _ = computing(job)
    return (processes if device == "cuda" else 0) if ON_CLUSTER else wanted_gpus(device, processes)


for verb, row in VERBS.items():

    if not row.layer:
        continue  # a table or figure has its own rule

    rule:
        name:
            verb.replace("-", "_")
        input:
            config=of_job(row.layer, config_of),
            manifests=of_job(row.layer, input_manifests),
            files=of_job(row.layer, others_files),
            own=of_job(row.layer, own_files),
            runtime=of_job(row.layer, runtime),
        output:
            [f"{R}/{row.layer}/{{name}}/{file}" for file in dict.fromkeys((row.manifest, row.record, *row.outputs))],
        log:
            f"{R}/logs/{row.layer}/{{name}}.log",
        retries: TRIES if row.resumes else 0
        threads: of_job(row.layer, cores_of)
        resources:
            gpu=of_job(row.layer, gpus_of),
            cpus_per_task=of_job(row.layer, cores_of),  # of a cluster job; `threads` is limited by the machine that submits it
        params:
            verb=verb,
            options=of_job(row.layer, options),
            to="2>>" if row.resumes else "2>",
        shell:
            # exec: a signal to all must not end a shell while the job below it still saves its state
            "exec mdc {params.verb} {input.config}{params.options} {params.to} {log}"
