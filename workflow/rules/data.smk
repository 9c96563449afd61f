# Datasets to their places under MDC_DATA, then sources to webdataset shards. The edge to the next job is the manifest
# (obtained.json, index.json), which names every file or shard by hash.


# The obtained files lie outside results/: a failed job takes none of them along, and the next call goes on from there.
rule obtain:
    input:
        config=config_file("data/obtained/{dataset}"),
        files=lambda w: list_files(SCALE.data.datasets[w.dataset]) if w.dataset in SCALE.data.datasets else [],
        runtime=ancient(DOWNLOAD_RUNTIME) if DOWNLOAD_RUNTIME else [],
    output:
        record=f"{R}/data/obtained/{{dataset}}/obtained.json",
        made=f"{R}/data/obtained/{{dataset}}/made.json",
    log:
        f"{R}/logs/data/obtained/{{dataset}}.log",
    params:
        out=lambda w, output: str(Path(output.record).parent),
        runtime=f"--runtime {DOWNLOAD_RUNTIME}" if DOWNLOAD_RUNTIME else "",
    wildcard_constraints:
        dataset=r"[^/]+",
    threads: SCALE.data.download.runtime.processes if SCALE.data.download else 1
    shell:
        "mdc obtain {input.config} {params.runtime} --out {params.out} 2> {log}"


rule corpus:
    input:
        config=config_file("data/corpora/{corpus}"),
        obtained=lambda w: obtained(SCALE.data.corpora, w.corpus),
        files=lambda w: source_files(SCALE.data.corpora, w.corpus),
    output:
        index=f"{R}/data/corpora/{{corpus}}/index.json",
        made=f"{R}/data/corpora/{{corpus}}/made.json",
    log:
        f"{R}/logs/data/corpora/{{corpus}}.log",
    params:
        out=lambda w, output: str(Path(output.index).parent),
    shell:
        "mdc corpus {input.config} --obtained {input.obtained} --out {params.out} 2> {log}"


rule probe_set:
    input:
        config=config_file("data/probes/{probe}"),
        obtained=lambda w: obtained(SCALE.data.probes, w.probe),
        files=lambda w: source_files(SCALE.data.probes, w.probe),
    output:
        index=f"{R}/data/probes/{{probe}}/index.json",
        made=f"{R}/data/probes/{{probe}}/made.json",
    log:
        f"{R}/logs/data/probes/{{probe}}.log",
    params:
        out=lambda w, output: str(Path(output.index).parent),
    wildcard_constraints:
        probe=r"[^/]+",
    shell:
        "mdc probe-set {input.config} --obtained {input.obtained} --out {params.out} 2> {log}"


rule choice_set:
    input:
        config=config_file("data/choices/{choices}"),
        obtained=lambda w: obtained(SCALE.data.choices, w.choices),
        files=lambda w: source_files(SCALE.data.choices, w.choices),
    output:
        index=f"{R}/data/choices/{{choices}}/index.json",
        made=f"{R}/data/choices/{{choices}}/made.json",
    log:
        f"{R}/logs/data/choices/{{choices}}.log",
    params:
        out=lambda w, output: str(Path(output.index).parent),
    wildcard_constraints:
        choices=r"[^/]+",
    shell:
        "mdc choice-set {input.config} --obtained {input.obtained} --out {params.out} 2> {log}"


rule texts:
    input:
        config=config_file("data/texts/{texts}"),
        obtained=lambda w: obtained(SCALE.data.texts, w.texts),
        files=lambda w: source_files(SCALE.data.texts, w.texts),
    output:
        index=f"{R}/data/texts/{{texts}}/index.json",
        made=f"{R}/data/texts/{{texts}}/made.json",
    log:
        f"{R}/logs/data/texts/{{texts}}.log",
    params:
        out=lambda w, output: str(Path(output.index).parent),
    wildcard_constraints:
        texts=r"[^/]+",
    shell:
        "mdc texts {input.config} --obtained {input.obtained} --out {params.out} 2> {log}"


rule vocabulary:
    input:
        config=config_file("data/vocabulary"),
        corpora=[corpus_index(name) for name in CONFIGS["data/vocabulary"]["corpora"]],
    output:
        vocabulary=VOCABULARY,
        made=f"{R}/data/vocabulary.made.json",
    log:
        f"{R}/logs/data/vocabulary.log",
    shell:
        "mdc vocabulary {input.config} --corpora {input.corpora} --out {output.vocabulary} 2> {log}"
