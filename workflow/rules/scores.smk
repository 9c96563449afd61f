# Scores of captions: of choice sets, of held-out pairs, and of each token by position; one job a model and kind. Parts that
# are done are kept in a cache outside results/, so a killed job resumes.

#: layer of results/<scale> → the verb that makes its jobs
SCORES = {"scores": "score-choices", "retrieval": "score-pairs", "positions": "score-positions"}


wildcard_constraints:
    scored=r".+",


def weights_of(layer, name):
    """The weights of the run that a job scores or captions with; its manifest names them by hash, so their own time means
    nothing."""
    run = getattr(JOBS.get(f"{layer}/{name}"), "run", None)
    return [f"{R}/{run}/checkpoint.safetensors"] if run else []


SCORE_CORES = SCALE.score.threads * SCALE.score.processes if SCALE.score else 1
SCORE_GPUS = gpus(SCALE.score.device, SCALE.score.processes) if SCALE.score else 0

for layer, verb in SCORES.items():

    rule:
        name:
            verb.replace("-", "_")
        input:
            config=lambda w, layer=layer: job_config(f"{layer}/{w.scored}"),
            given=lambda w, layer=layer: given(f"{layer}/{w.scored}"),
            weights=ancient(lambda w, layer=layer: weights_of(layer, w.scored)),
        output:
            files(verb, f"{layer}/{{scored}}"),
        log:
            f"{R}/logs/{layer}/{{scored}}.log",
        params:
            verb=verb,
            cache=f"{STATE}/{layer}",
        threads: SCORE_CORES
        resources:
            gpu=SCORE_GPUS,
            cpus_per_task=SCORE_CORES,
        retries: 2 if workflow.is_main_process else 0
        shell:
            "mdc {params.verb} {input.config} --cache {params.cache} 2>> {log}"
