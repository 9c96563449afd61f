# Encoders that are not trained here: their weights are brought once, and each corpus that a run needs is encoded once.


wildcard_constraints:
    brought=r"[^/]+",
    encoded=r"[^/]+/[^/]+",


ENCODE_THREADS = SCALE.encode.threads if SCALE.encode else 1


def encoder_files(name):
    """The user's own file of weights, if there is one; a missing one fails in its job, not in the graph."""
    weights = getattr(SCALE.encoders.get(name), "weights", None)
    place = data_folder() / weights if weights else None
    return [str(place)] if place is not None and place.is_file() else []


rule import_encoder:
    input:
        config=f"{R}/configs/encoders/{{brought}}.json",
        given=lambda w: given(f"encoders/{w.brought}"),
        files=lambda w: encoder_files(w.brought),
    output:
        files("import-encoder", "encoders/{brought}"),
    log:
        f"{R}/logs/encoders/{{brought}}.log",
    shell:
        "mdc import-encoder {input.config} 2> {log}"


# The arrays lie beside encoded.json, which names them by hash. The job keeps those that are whole, so Snakemake must not know
# of them: it would delete them when the job fails.
rule encode_corpus:
    input:
        config=f"{R}/configs/encoded/{{encoded}}.json",
        given=lambda w: given(f"encoded/{w.encoded}"),
        weights=ancient(lambda w: f"{R}/encoders/{w.encoded.split('/')[0]}/encoder.safetensors"),
    output:
        files("encode-corpus", "encoded/{encoded}"),
    log:
        f"{R}/logs/encoded/{{encoded}}.log",
    threads: ENCODE_THREADS
    resources:
        gpu=gpus(SCALE.encode.device) if SCALE.encode else 0,
        cpus_per_task=ENCODE_THREADS,
    retries: 2 if workflow.is_main_process else 0
    shell:
        "mdc encode-corpus {input.config} 2>> {log}"
