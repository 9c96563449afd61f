"""The verbs of the pipeline: which module does each, what it leaves, and what it may be told besides its job.

The command line, the workflow's rules, the provenance walk and the tests' stand-in all read this one dictionary. It
imports nothing, so that every start of Snakemake can afford it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verb:
    """One verb.

    ``module``: its ``main(call)`` does the job (see :class:`mdc.plan.jobs.call.Call`). In the job's folder, ``record`` is the
    file that says what was asked (``config``), from what it was made (``inputs`` {job: sha256}) and what it left
    (``outputs`` {file: sha256}); ``manifest`` is the file that later jobs read and name by sha256. For data the two
    differ, so that code that writes an equal set anew reruns nothing after it. ``outputs``: its other files that the
    workflow must know. ``options``: what else its command line takes.
    """

    module: str
    text: str
    record: str
    manifest: str
    outputs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def _data(module: str, text: str, manifest: str = "index.json", options: tuple[str, ...] = ()) -> Verb:
    return Verb(module, text, "made.json", manifest, options=options)


VERBS = {
    "obtain": _data(
        "mdc.data.obtain.job",
        "bring a dataset to its place under MDC_DATA, and check what is there",
        "obtained.json",
        ("runtime",),
    ),
    "plan-download": _data(
        "mdc.data.obtain.plan_job", "fix what of a list of URLs will be asked for, and in which order", "planned.json"
    ),
    "download": _data(
        "mdc.data.obtain.download_job", "download one group of a dataset's parts", "downloaded.json", ("runtime",)
    ),
    "corpus-parts": _data(
        "mdc.data.shards.parts_job",
        "write one group of a corpus's parts as webdataset shards; it keeps the parts that are whole",
        options=("runtime", "state"),
    ),
    "corpus": _data("mdc.data.shards.corpus_job", "write a corpus as webdataset shards with a manifest"),
    "probe-set": _data(
        "mdc.data.shards.probe_set_job", "write a labelled image set as webdataset shards with a manifest"
    ),
    "choice-set": _data(
        "mdc.data.shards.choice_set_job",
        "write images with one right caption among several as webdataset shards with a manifest",
    ),
    "texts": _data("mdc.data.shards.texts_job", "count the lengths of captions without their images"),
    "vocabulary": _data(
        "mdc.data.shards.vocabulary_job", "collect the word pieces that a list of corpora uses", "vocabulary.json"
    ),
    "tokenizer": Verb(
        "mdc.training.tokenizer",
        "train a tokenizer of images, or bring one that others trained; it resumes where it was killed",
        "tokenizer.json",
        "tokenizer.json",
        ("tokenizer.safetensors",),
    ),
    "import-words": Verb(
        "mdc.training.precompute.import_words",
        "bring embeddings of word pieces that are not trained here, and keep them as safetensors",
        "words.json",
        "words.json",
        ("words.safetensors",),
    ),
    "import-encoder": Verb(
        "mdc.training.precompute.import_encoder",
        "bring the weights of an encoder that is not trained here, and keep them as safetensors",
        "encoder.json",
        "encoder.json",
        ("encoder.safetensors",),
    ),
    "encode-corpus": Verb(
        "mdc.training.precompute.encode_corpus",
        "encode a corpus's images once with a frozen encoder; it resumes where it was killed",
        "encoded.json",
        "encoded.json",
    ),
    "image-tokens": Verb(
        "mdc.training.precompute.image_tokens",
        "turn a corpus's images into codes once; it resumes where it was killed",
        "image_tokens.json",
        "image_tokens.json",
    ),
    "pretrain": Verb(
        "mdc.training.run",
        "train one run: an encoder with its decoder or text tower; it resumes where it was killed",
        "run.json",
        "run.json",
        ("checkpoint.safetensors", "log.jsonl"),
        ("runtime", "state", "wait", "profile"),
    ),
    "probe": Verb(
        "mdc.evaluation.probe",
        "train and test linear probes on one encoder's features",
        "probe.json",
        "probe.json",
        ("items.parquet",),
        ("runtime", "cache"),
    ),
    "score-choices": Verb(
        "mdc.evaluation.choices",
        "score the options of choice sets with one model, by each of its estimators; it resumes where it was killed",
        "scores.json",
        "scores.json",
        ("scores.parquet",),
        ("cache",),
    ),
    "score-pairs": Verb(
        "mdc.evaluation.retrieval",
        "score held-out images and captions with one run, each against each; it resumes where it was killed",
        "retrieval.json",
        "retrieval.json",
        ("matrix.safetensors",),
        ("cache",),
    ),
    "score-positions": Verb(
        "mdc.evaluation.positions",
        "measure what the image tells about each token of held-out captions; it resumes where it was killed",
        "positions.json",
        "positions.json",
        ("tokens.parquet", "gradients.parquet"),
        ("cache",),
    ),
    "write-captions": Verb(
        "mdc.evaluation.captions",
        "caption images with one run, by each way of writing that Table 3 asks for; it resumes where it was killed",
        "captions.json",
        "captions.json",
        ("captions.parquet",),
        ("cache",),
    ),
    "measure-captions": Verb(
        "mdc.evaluation.caption_metrics",
        "hold captions against references, images and, where it is known, the truth",
        "metrics.json",
        "metrics.json",
        ("metrics.parquet",),
    ),
    "judge-captions": Verb(
        "mdc.evaluation.judge",
        "let a judge choose the best of several captions of each image; it resumes where it was killed",
        "judged.json",
        "judged.json",
        ("judged.parquet",),
        ("cache",),
    ),
    # the files of a table or figure stand in mdc.plan.artefacts
    "make": Verb("mdc.report.make", "make a table or figure from what it needs", "{job}.json", "{job}.json"),
}

#: option of a verb → how it stands on the command line
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
