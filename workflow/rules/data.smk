# Sources to webdataset shards. The edge to the next job is the manifest (index.json), which names every shard by hash.


rule corpus:
    input:
        config=config_file("data/corpora/{corpus}"),
        files=lambda w: source_files(SCALE.data.corpora[w.corpus].source) if w.corpus in SCALE.data.corpora else [],
    output:
        index=f"{R}/data/corpora/{{corpus}}/index.json",
        made=f"{R}/data/corpora/{{corpus}}/made.json",
    log:
        f"{R}/logs/data/corpora/{{corpus}}.log",
    params:
        out=lambda w, output: str(Path(output.index).parent),
    shell:
        "mdc corpus {input.config} --out {params.out} 2> {log}"


rule probe_set:
    input:
        config=config_file("data/probes/{probe}"),
        files=lambda w: source_files(SCALE.data.probes[w.probe].source) if w.probe in SCALE.data.probes else [],
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
        "mdc probe-set {input.config} --out {params.out} 2> {log}"


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
