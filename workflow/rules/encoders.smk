# Encoders that are not trained with a captioner: tokenizers are trained or brought once, weights of others are brought once, and
# each corpus that a run needs is encoded, or turned into codes, once.


wildcard_constraints:
    brought=r"[^/]+",
    encoded=r"[^/]+/[^/]+",
    tokenizer=r"[^/]+",


ENCODE_THREADS = SCALE.encode.threads if SCALE.encode else 1


def encoder_files(name):
    """The user's own file of weights, if there is one; a missing one fails in its job, not in the graph."""
    weights = getattr(SCALE.encoders.get(name), "weights", None)
    place = data_folder() / weights if weights else None
    return [str(place)] if place is not None and place.is_file() else []


def tokenizer_files(name):
    """The checkpoint that others trained, if one is asked for and there."""
    named = getattr(SCALE.tokenizers.get(name), "path", None)
    place = data_folder() / named if named else None
    return [str(place)] if place is not None and place.is_file() else []


def tokenizer_threads(name):
    recipe = getattr(SCALE.tokenizers.get(name), "recipe", None)
    return recipe.threads if recipe else 1


def tokenizer_gpus(name):
    recipe = getattr(SCALE.tokenizers.get(name), "recipe", None)
    return gpus(recipe.device) if recipe else 0


# its state lies in its folder, where Snakemake does not know of it
rule tokenizer:
    input:
        config=lambda w: job_config(f"tokenizers/{w.tokenizer}"),
        given=lambda w: given(f"tokenizers/{w.tokenizer}"),
        files=lambda w: tokenizer_files(w.tokenizer),
    output:
        files("tokenizer", "tokenizers/{tokenizer}"),
    log:
        f"{R}/logs/tokenizers/{{tokenizer}}.log",
    threads: lambda w: tokenizer_threads(w.tokenizer)
    resources:
        gpu=lambda w: tokenizer_gpus(w.tokenizer),
        cpus_per_task=lambda w: tokenizer_threads(w.tokenizer),
    retries: 2 if workflow.is_main_process else 0
    shell:
        "mdc tokenizer {input.config} 2>> {log}"


rule import_words:
    input:
        config=lambda w: job_config(f"words/{w.brought}"),
    output:
        files("import-words", "words/{brought}"),
    log:
        f"{R}/logs/words/{{brought}}.log",
    shell:
        "mdc import-words {input.config} 2> {log}"


rule import_encoder:
    input:
        config=lambda w: job_config(f"encoders/{w.brought}"),
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
        config=lambda w: job_config(f"encoded/{w.encoded}"),
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


rule image_tokens:
    input:
        config=lambda w: job_config(f"image-tokens/{w.encoded}"),
        given=lambda w: given(f"image-tokens/{w.encoded}"),
        weights=ancient(lambda w: f"{R}/encoders/{w.encoded.split('/')[0]}/encoder.safetensors"),
    output:
        files("image-tokens", "image-tokens/{encoded}"),
    log:
        f"{R}/logs/image-tokens/{{encoded}}.log",
    threads: ENCODE_THREADS
    resources:
        gpu=gpus(SCALE.encode.device) if SCALE.encode else 0,
        cpus_per_task=ENCODE_THREADS,
    retries: 2 if workflow.is_main_process else 0
    shell:
        "mdc image-tokens {input.config} 2>> {log}"
