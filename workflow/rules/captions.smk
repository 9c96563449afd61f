# Captions, one job a run, its weights and a dataset, and what is measured of them, one job a dataset and seed. Images that are
# done are kept in a cache outside results/, so a killed job resumes.


wildcard_constraints:
    captioned=r".+",
    measured=r".+",
    judged=r".+",


CAPTION_CORES = SCALE.caption.threads * SCALE.caption.processes if SCALE.caption else 1
CAPTION_GPUS = gpus(SCALE.caption.device, SCALE.caption.processes) if SCALE.caption else 0


# open_clip's CoCa does not write under our transformers; its environment is locked too
rule coca_environment:
    localrule: True
    input:
        "workflow/envs/coca.lock",
    output:
        ".coca/.ready",
    shell:
        "make --silent {output} >&2"


rule write_captions:
    input:
        config=lambda w: job_config(f"captions/{w.captioned}"),
        given=lambda w: given(f"captions/{w.captioned}"),
        weights=ancient(lambda w: weights_of("captions", w.captioned)),
        coca=ancient(lambda w: coca_of(f"captions/{w.captioned}")),
    output:
        files("write-captions", "captions/{captioned}"),
    log:
        f"{R}/logs/captions/{{captioned}}.log",
    params:
        cache=f"{STATE}/captions",
    threads: CAPTION_CORES
    resources:
        gpu=CAPTION_GPUS,
        cpus_per_task=CAPTION_CORES,
    retries: 2 if workflow.is_main_process else 0
    shell:
        "mdc write-captions {input.config} --cache {params.cache} 2>> {log}"


rule measure_captions:
    input:
        config=lambda w: job_config(f"metrics/{w.measured}"),
        given=lambda w: given(f"metrics/{w.measured}"),
        captions=ancient(lambda w: captions_of(f"metrics/{w.measured}")),
        instances=lambda w: instances_of(f"metrics/{w.measured}"),
    output:
        files("measure-captions", "metrics/{measured}"),
    log:
        f"{R}/logs/metrics/{{measured}}.log",
    threads: SCALE.caption.threads if SCALE.caption else 1
    resources:
        gpu=gpus(SCALE.caption.device) if SCALE.caption else 0,
        cpus_per_task=SCALE.caption.threads if SCALE.caption else 1,
    shell:
        "mdc measure-captions {input.config} 2>> {log}"


rule judge_captions:
    input:
        config=lambda w: job_config(f"judged/{w.judged}"),
        given=lambda w: given(f"judged/{w.judged}"),
        captions=ancient(lambda w: captions_of(f"judged/{w.judged}")),
    output:
        files("judge-captions", "judged/{judged}"),
    log:
        f"{R}/logs/judged/{{judged}}.log",
    params:
        cache=f"{STATE}/judged",
    shell:
        "mdc judge-captions {input.config} --cache {params.cache} 2>> {log}"


def coca_of(job):
    """CoCa's environment, for a job that needs it; MDC_COCA names another one, which is not made here."""
    needed = getattr(JOBS.get(job), "coca", None) is not None and not os.environ.get("MDC_COCA")
    return [".coca/.ready"] if needed else []


def captions_of(job):
    """The captions that a job measures; their manifests name them by hash."""
    return [f"{R}/{name}/captions.parquet" for name in getattr(JOBS.get(job), "captions", ())]


def instances_of(job):
    """MSCOCO's file of objects, if a job wants one and it is there; without it the job says what is not measured."""
    named = getattr(JOBS.get(job), "instances", None)
    place = data_folder() / named if named else None
    return [str(place)] if place is not None and place.is_file() else []
