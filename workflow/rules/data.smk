# Brings datasets to their places under MDC_DATA, and writes sources as webdataset shards. The next job's input is the
# manifest (obtained.json, index.json), which names every file or shard by hash.

#: section of results/<scale>/data → the verb that makes its sets
SETS = {"corpora": "corpus", "probes": "probe-set", "choices": "choice-set", "texts": "texts"}


wildcard_constraints:
    name=r"[^/]+",
    group=r"\d+-of-\d+",


def list_files(name):
    """The user's own list of URLs, if there is one."""
    dataset = SCALE.data.datasets.get(name)
    if dataset is None or dataset.list is None:
        return []
    place = data_folder() / dataset.list.path
    return [str(place)] if place.is_file() else sorted(map(str, place.rglob("*"))) if place.is_dir() else []


def source_files(section, name):
    """The user's own files behind a set, as far as they are there: a missing one fails in its job, not in the graph.

    Image files are not listed: there can be millions, and this runs at every start of Snakemake. A table of captions
    stands for its images. Folders of a class stand for theirs: their time changes when an image comes or goes. After
    an image was changed in its place, say `snakemake --forcerun corpus` (or probe_set). A dataset's own files stand
    behind its obtained.json.
    """
    sets = getattr(SCALE.data, section)
    source = sets[name].source if name in sets else None
    path = getattr(source, "path", None)
    if path is None:
        return []
    place = data_folder() / path
    if place.is_file():
        found = [place]
    elif source.kind == "class_folder":
        folders = [place / split for split in source.splits.values()]
        found = [inner for folder in folders if folder.is_dir() for inner in folder.iterdir() if inner.is_dir()]
    elif source.kind in ("parquet", "caption_nouns", "caption_list", "webdataset"):
        found = place.rglob("*.tar" if source.kind == "webdataset" else "*.parquet")
    else:
        found = []
    return sorted(str(p) for p in found)


# The obtained files lie outside results/, so Snakemake deletes none of them when a job fails, and the next call resumes.
rule plan_download:
    input:
        config=lambda w: job_config(f"data/plans/{w.name}"),
        files=lambda w: list_files(w.name),
    output:
        files("plan-download", "data/plans/{name}"),
    log:
        f"{R}/logs/data/plans/{{name}}.log",
    retries: 2 if workflow.is_main_process else 0
    shell:
        "mdc plan-download {input.config} 2>> {log}"


rule download:
    input:
        config=lambda w: job_config(f"data/downloads/{w.name}/{w.group}"),
        given=lambda w: given(f"data/downloads/{w.name}/{w.group}"),
        runtime=ancient(DOWNLOAD_RUNTIME) if DOWNLOAD_RUNTIME else [],
    output:
        files("download", "data/downloads/{name}/{group}"),
    log:
        f"{R}/logs/data/downloads/{{name}}/{{group}}.log",
    threads: SCALE.data.download.runtime.processes if SCALE.data.download else 1
    resources:
        cpus_per_task=SCALE.data.download.runtime.processes if SCALE.data.download else 1,
    retries: 2 if workflow.is_main_process else 0
    shell:
        "mdc download {input.config} --runtime {input.runtime} 2>> {log}"


rule obtain:
    input:
        config=lambda w: job_config(f"data/obtained/{w.name}"),
        given=lambda w: given(f"data/obtained/{w.name}"),
        files=lambda w: list_files(w.name),
        runtime=ancient(DOWNLOAD_RUNTIME) if DOWNLOAD_RUNTIME else [],
    output:
        files("obtain", "data/obtained/{name}"),
    log:
        f"{R}/logs/data/obtained/{{name}}.log",
    params:
        runtime=f"--runtime {DOWNLOAD_RUNTIME}" if DOWNLOAD_RUNTIME else "",
    threads: SCALE.data.download.runtime.processes if SCALE.data.download else 1
    resources:
        cpus_per_task=SCALE.data.download.runtime.processes if SCALE.data.download else 1,
    retries: 2 if workflow.is_main_process else 0
    shell:
        "mdc obtain {input.config} {params.runtime} 2>> {log}"


# One group of the parts of corpora that lie in parts. All groups fill the folder above their own with shards; the state says
# which of them are whole, so that a job that was ended goes on with the next one.
rule corpus_parts:
    input:
        config=lambda w: job_config(f"data/parts/{w.name}/{w.group}"),
        given=lambda w: given(f"data/parts/{w.name}/{w.group}"),
        files=lambda w: source_files("corpora", w.name),
        runtime=ancient(DATA_RUNTIME),
    output:
        files("corpus-parts", "data/parts/{name}/{group}"),
    log:
        f"{R}/logs/data/parts/{{name}}/{{group}}.log",
    params:
        state=f"{STATE}/parts/{{name}}",
    threads: SCALE.data.runtime.processes
    resources:
        cpus_per_task=SCALE.data.runtime.processes,
    retries: 2 if workflow.is_main_process else 0
    shell:
        "mdc corpus-parts {input.config} --runtime {input.runtime} --state {params.state} 2>> {log}"


for section, verb in SETS.items():

    rule:
        name:
            verb.replace("-", "_")
        input:
            config=lambda w, section=section: job_config(f"data/{section}/{w.name}"),
            given=lambda w, section=section: given(f"data/{section}/{w.name}"),
            files=lambda w, section=section: source_files(section, w.name),
        output:
            files(verb, f"data/{section}/{{name}}"),
        log:
            f"{R}/logs/data/{section}/{{name}}.log",
        params:
            verb=verb,
        shell:
            "mdc {params.verb} {input.config} 2> {log}"


rule vocabulary:
    input:
        config=lambda w: job_config(f"data/vocabularies/{w.name}"),
        given=lambda w: given(f"data/vocabularies/{w.name}"),
    output:
        files("vocabulary", "data/vocabularies/{name}"),
    log:
        f"{R}/logs/data/vocabularies/{{name}}.log",
    shell:
        "mdc vocabulary {input.config} 2> {log}"
