"""The verbs of the pipeline: each one's module, folder, output files and command-line options.

The command line, the workflow's rules, `mdc verify` and `mdc why`, and the tests' stand-in read this one dictionary. An extension
has a ``verbs.py`` with its own. They import nothing heavy, so that Snakemake starts fast.
"""

from typing import Any

from mdc.plan.parts import EXTENDING, declared, distinct
from mdc.plan.verb import Verb


def _set(layer: str, manifest: str = "index.json", **more: Any) -> Verb:
    return Verb("data", f"data/{layer}", record="made.json", manifest=manifest, **more)


def _scores(layer: str, **more: Any) -> Verb:
    reads = ("checkpoint.safetensors",)
    return Verb("scoring", layer, computes="scoring", shared=True, resumes=True, reads=reads, **more)


_CORE = {
    "obtain": _set(
        layer="obtained",
        module="mdc.data.obtain.job",
        manifest="obtained.json",
        options={"runtime": "data.download.runtime"},
        resumes=True,
        watches="dataset.list.path",
        text="download a dataset to its folder under MDC_DATA, and check it",
    ),
    "plan-download": _set(
        layer="plans",
        module="mdc.data.obtain.plan_job",
        manifest="planned.json",
        resumes=True,
        watches="dataset.list.path",
        text="choose which URLs of a list are requested, and in which order",
    ),
    "download": _set(
        layer="downloads",
        module="mdc.data.obtain.download_job",
        manifest="downloaded.json",
        options={"runtime": "data.download.runtime"},
        resumes=True,
        text="download one group of a dataset's parts",
    ),
    "corpus-parts": _set(
        layer="parts",
        module="mdc.data.shards.parts",
        options={"runtime": "data.runtime", "state": "parts/{job.name}"},
        resumes=True,
        watches="source.path",
        lists=".",
        text="write the parts that corpora share as webdataset shards; it keeps those that are complete",
    ),
    "corpus": _set(
        layer="corpora",
        module="mdc.data.shards.corpus_job",
        watches="source.path",
        lists=".",
        text="write a corpus as webdataset shards with a manifest",
    ),
    "probe-set": _set(
        layer="probes",
        module="mdc.data.shards.probe_set_job",
        watches="source.path",
        lists=".",
        text="write a labelled image set as webdataset shards with a manifest",
    ),
    "choice-set": _set(
        layer="choices",
        module="mdc.data.shards.choice_set_job",
        watches="source.path",
        lists=".",
        text="write images with one right caption among several as webdataset shards with a manifest",
    ),
    "texts": _set(
        layer="texts",
        module="mdc.data.shards.texts_job",
        watches="source.path",
        text="count the lengths of captions without their images",
    ),
    "vocabulary": _set(
        layer="vocabularies",
        module="mdc.data.shards.vocabulary_job",
        manifest="vocabulary.json",
        text="collect the BPE tokens that a list of corpora uses",
    ),
    "overlap": _set(
        layer="overlaps",
        module="mdc.data.shards.overlap_job",
        manifest="overlap.json",
        text="find the images of a test set that are also in a corpus's training split",
    ),
    "import-encoder": Verb(
        stage="encoders",
        layer="encoders",
        module="mdc.training.precompute.import_encoder",
        record="encoder.json",
        outputs=("encoder.safetensors",),
        text="import the weights of a pretrained encoder as safetensors",
    ),
    "encode-corpus": Verb(
        stage="encoders",
        layer="encoded",
        module="mdc.training.precompute.encode_corpus",
        lists=".",
        record="encoded.json",
        computes="encode",
        resumes=True,
        reads=("encoder.safetensors",),
        text="encode a corpus's images once with a frozen encoder; it resumes where it was killed",
    ),
    "pretrain": Verb(
        stage="trainings",
        layer="runs",
        module="mdc.training.run",
        record="run.json",
        outputs=("checkpoint.safetensors", "log.jsonl"),
        options={"runtime": "pretrain.runtime", "state": "{job.job}", "wait": "", "profile": None},
        computes="recipe",
        shared=True,
        resumes=True,
        text="train one run: an encoder with its decoder or text tower; it resumes where it was killed",
    ),
    "select-lr": Verb(
        stage="trainings",
        layer="lr",
        module="mdc.evaluation.select_lr",
        record="lr.json",
        text="choose a method's learning rate by probes of runs with several",
    ),
    "probe": Verb(
        stage="probes",
        layer="probe",
        module="mdc.evaluation.probe",
        record="probe.json",
        outputs=("items.parquet",),
        options={"runtime": "probe.runtime", "cache": "features"},
        computes="recipe",
        reads=("checkpoint.safetensors",),
        text="probe one encoder by one head, as the linear one",
    ),
    "score-choices": _scores(
        layer="scores",
        module="mdc.evaluation.choices",
        record="scores.json",
        outputs=("scores.parquet",),
        options={"cache": "scores"},
        text="score the options of choice sets with one model, by each of its estimators; it resumes where it was killed",
    ),
    "score-pairs": _scores(
        layer="retrieval",
        module="mdc.evaluation.retrieval",
        record="retrieval.json",
        outputs=("matrix.safetensors",),
        options={"cache": "retrieval"},
        text="score held-out images and captions with one run, each against each; it resumes where it was killed",
    ),
    "score-classes": _scores(
        layer="zero-shot",
        module="mdc.evaluation.zero_shot",
        record="zero_shot.json",
        outputs=("items.parquet",),
        options={"cache": "zero_shot"},
        text="classify labelled images by the score of each class's caption (zero-shot); it resumes where it was killed",
    ),
    "score-positions": _scores(
        layer="positions",
        module="mdc.evaluation.positions",
        record="positions.json",
        outputs=("tokens.parquet", "gradients.parquet"),
        options={"cache": "positions"},
        text="measure the image's information about each token of held-out captions; it resumes where it was killed",
    ),
    "write-captions": Verb(
        stage="captions",
        layer="captions",
        module="mdc.evaluation.captions",
        record="captions.json",
        outputs=("captions.parquet",),
        options={"cache": "captions"},
        computes="captioning",
        shared=True,
        resumes=True,
        reads=("checkpoint.safetensors",),
        text="caption images with one run, by each decoding that Table 3 needs; it resumes where it was killed",
    ),
    "measure-captions": Verb(
        stage="captions",
        layer="metrics",
        module="mdc.evaluation.caption_metrics",
        record="metrics.json",
        outputs=("metrics.parquet",),
        computes="captioning",
        reads=("captions.parquet",),
        watches="instances",
        text="score captions against references, images and, where known, the true scene",
    ),
    "judge-captions": Verb(
        stage="captions",
        layer="judged",
        module="mdc.evaluation.judge",
        record="judged.json",
        outputs=("judged.parquet",),
        options={"cache": "judged"},
        resumes=True,
        reads=("captions.parquet",),
        text="let a judge choose the best of several captions of each image; it resumes where it was killed",
    ),
    # a table or figure has its own layer; its files and its class of job are in mdc.plan.artefacts
    "make": Verb(
        stage="tables and figures",
        layer="",
        module="mdc.report.make",
        record="{job}.json",
        reads=("log.jsonl",),
        text="make a table or figure from what it needs",
    ),
}


def _all() -> dict[str, Verb]:
    """The core's verbs, and those of extensions after the core's of the same stage."""
    brought = [item for module in EXTENDING["verbs"] for item in declared(module, "VERBS").items()]
    every = distinct([*_CORE.items(), *brought], "verb")
    stages = list(dict.fromkeys(verb.stage for verb in every.values()))
    return dict(sorted(every.items(), key=lambda item: stages.index(item[1].stage)))


#: the verbs in the order of the pipeline
VERBS = _all()

#: stage of DVC, also a Snakemake target → the stages of its verbs
LAYERS: dict[str, tuple[str, ...]] = {
    "data": ("data",),
    "pretrain": ("encoders", "trainings"),
    "probe": ("probes",),
    "score": ("scoring",),
    "caption": ("captions",),
}


def verb_of(job: str) -> str:
    """The verb that does a job, by its name."""
    return next((name for name, verb in VERBS.items() if verb.layer and job.startswith(f"{verb.layer}/")), "make")


#: option of a verb → its argparse arguments
OPTIONS: dict[str, dict[str, Any]] = {
    "runtime": {"metavar": "FILE", "help": "processes, workers, intervals, time-outs (JSON); they decide no result"},
    "state": {"metavar": "DIR", "required": True, "help": "folder for the resumable state while it runs"},
    "cache": {"metavar": "DIR", "required": True, "help": "folder for features, cached by content"},
    "wait": {"action": "store_true", "help": "if another process trains this run, wait for it and take over"},
    "profile": {
        "metavar": "N",
        "type": int,
        "help": "write a trace of N steps into the folder profile beside the state",
    },
}
