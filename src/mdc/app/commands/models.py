"""Verbs for trained models and their captions."""

import argparse
from typing import Any

from mdc.app.commands.parameters import NOTHING, main_of, params
from mdc.plan.estimators import ESTIMATORS

#: the verb of the pipeline that a person calls too: with --probes, for any model
PROBE = {
    "help": "probe any encoder of timm, open_clip, a folder or a run, beside chance",
    "description": "With --probes: probe an encoder by probes of the scale and print the table. JOB is then timm:NAME, "
    "open_clip:NAME/PRETRAINED (each also with /random, or local-dir:FOLDER for NAME), a folder, a key of "
    "the scale's encoders, or a run's id; see docs/probes.md. Without: do a job of the pipeline.",
}


def add(verbs: Any) -> None:
    """Add them to the command line's ``verbs``."""
    _score_verb(verbs)
    _zero_shot_verb(verbs)
    _caption_verbs(verbs)
    _clip_benchmark_verb(verbs)
    _export_verb(verbs)
    _features_verb(verbs)
    _demo_verb(verbs)


def _weights(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--weights", choices=["last", "best"], help="default: last, of a finetuned run best")


def _scoring(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--estimator", choices=list(ESTIMATORS), help="default: the method's own, as in Table 2")
    _weights(sub)
    sub.add_argument("--samples", type=int, default=256, metavar="N", help="masks of a sampled estimator; default: 256")
    sub.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the masks; default: 0")


def _score_verb(verbs: Any) -> None:
    sub = verbs.add_parser(
        "score",
        help="score captions for an image, or a table of images and captions, with a run",
        description="Print the score that a run gives each caption of the image: log-likelihood (or its substitute, see "
        "docs/scoring.md), its standard error, and each token's contribution. With a table in place of IMAGE and no CAPTION, "
        "score each of its captions and write a table; an interrupted call resumes when rerun.",
    )
    sub.add_argument(
        "image", metavar="IMAGE", help="an image file, or a table of images and captions: .csv, .tsv, .jsonl, .parquet"
    )
    sub.add_argument(
        "captions", metavar="CAPTION", nargs="*", help="captions, each in quotation marks; none of a table"
    )
    sub.add_argument("--run", required=True, metavar="RUN", help="a run's id, as dense/ViT-T-12/mdc/s0, or its folder")
    _scoring(sub)
    sub.add_argument(
        "--mismatched", action="store_true", help="also score with mismatched (held-out) images of the run's corpus"
    )
    sub.add_argument("--json", action="store_true", help="as JSON; of an image")
    sub.add_argument("--out", metavar="FILE", help="of a table: what to write, a .csv, .jsonl or .parquet")
    sub.add_argument("--tokens", action="store_true", help="of a table: also what each token adds")
    sub.add_argument(
        "--processes", type=int, metavar="N", help="of a table; default: as many as this process may use cores"
    )
    params(sub)
    sub.set_defaults(run_verb=main_of("mdc.app.score"), interrupted=NOTHING)


def _zero_shot_verb(verbs: Any) -> None:
    sub = verbs.add_parser(
        "zero-shot",
        help="classify images by classes that you name",
        description="Print which of your classes a run finds in each image: that whose caption scores highest. Each class's "
        "caption is a template with its name. See docs/scoring.md.",
    )
    sub.add_argument("images", metavar="IMAGE", nargs="+", help="image files, or folders of them")
    sub.add_argument("--run", required=True, metavar="RUN", help="a run's id, as dense/ViT-T-12/clip/s0, or its folder")
    sub.add_argument(
        "--classes",
        required=True,
        metavar="A,B,…",
        help="names with commas between them, or a file of them, one a line",
    )
    sub.add_argument(
        "--template",
        action="append",
        metavar="TEXT",
        help='a caption with {class}; several are averaged; default: "a photo of a {class}"',
    )
    sub.add_argument(
        "--debiased", action="store_true", help="take off what a class's words alone say (held-out images)"
    )
    _scoring(sub)
    form = sub.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--csv", action="store_true", help="as csv, a row an image and class")
    params(sub)
    sub.set_defaults(run_verb=main_of("mdc.app.zero_shot"))


def _caption_verbs(verbs: Any) -> None:
    sub = verbs.add_parser(
        "caption",
        help="caption images with a run",
        description="Print a run's caption of each image. Masked models reveal the most likely token at each step, and by "
        "default keep the most likely caption of 10, 15 and 20 tokens, or predict the end if they were trained to; "
        "autoregressive models use beam search with 6 beams; mask-and-replace diffusion takes 25 sampling steps. See "
        "docs/captioning.md and docs/mc-diffusion.md.",
    )
    sub.add_argument("images", metavar="IMAGE", nargs="+", help="image files, or folders of them")
    sub.add_argument("--run", required=True, metavar="RUN", help="a run's id, as dense/ViT-T-12/mdc/s0, or its folder")
    _weights(sub)
    sub.add_argument(
        "--policy", choices=["unmask", "beam", "posterior", "best_first"], help="default: what the run's method has"
    )
    sub.add_argument("--length", type=int, metavar="N", help="tokens of the caption")
    sub.add_argument(
        "--tokens-per-step", type=int, metavar="K", help="tokens revealed per step; default: 1, as in the paper"
    )
    sub.add_argument(
        "--threshold", type=float, metavar="P", help="at each step reveal all tokens of at least this probability"
    )
    sub.add_argument(
        "--temperature", type=float, metavar="T", help="sample tokens at this temperature; default: the most likely"
    )
    sub.add_argument("--beam", type=int, metavar="N", help="beams of an autoregressive model; 1 is greedy; default: 6")
    sub.add_argument("--steps", type=int, metavar="N", help="sampling steps of a diffusion; default: 25")
    sub.add_argument(
        "--guidance", type=float, metavar="S", help="guidance scale of a diffusion; default: 1, no guidance"
    )
    sub.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the sampling; default: 0")
    sub.add_argument("--fill", metavar="TEXT", help='complete a caption: ? marks a missing token, as "a ? dog"')
    sub.add_argument(
        "--explain", action="store_true", help="also print when each token was revealed, and its probability"
    )
    sub.add_argument("--json", action="store_true", help="as JSON: COCO results, with more of each")
    params(sub)
    sub.set_defaults(run_verb=main_of("mdc.app.caption"), interrupted="captions printed so far are complete")


def _clip_benchmark_verb(verbs: Any) -> None:
    sub = verbs.add_parser(
        "clip-benchmark",
        help="CLIP-benchmark's command line, with our runs among its models",
        description="Everything behind clip-benchmark goes to CLIP-benchmark's own command line. --model is a run's id or "
        "folder, --pretrained last or best. Example: mdc clip-benchmark eval --model dense/ViT-T-12/clip/s0 --pretrained last "
        "--task zeroshot_retrieval --dataset wds/NAME --dataset_root FOLDER",
    )
    params(sub)
    sub.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="…", help="eval or build, and what CLIP-benchmark takes"
    )
    sub.set_defaults(run_verb=main_of("mdc.app.clip_benchmark"))


def probe_options(sub: argparse.ArgumentParser) -> None:
    """What the verb ``probe`` takes for a person."""
    sub.add_argument("--probes", metavar="NAMES", help="probes of the scale, as shape,cifar10")
    sub.add_argument("--heads", default="linear", metavar="NAMES", help="as linear,knn,attentive; default: linear")
    sub.add_argument("--image-size", type=_pixels, metavar="N", help="default: that the model was made for")
    sub.add_argument("--json", action="store_true", help="as JSON")
    sub.set_defaults(run_verb=main_of("mdc.app.probe_model"))


def _pixels(text: str) -> int:
    """A number of pixels; argparse tells what is none."""
    if not text.isdecimal() or not 0 < int(text) <= 4096:
        raise argparse.ArgumentTypeError(f"{text} is no number from 1 to 4096")
    return int(text)


def _export_verb(verbs: Any) -> None:
    sub = verbs.add_parser(
        "export",
        help="write a run as a model folder for open_clip, timm and transformers, or the Hugging Face hub",
        description="Write a run as a folder that open_clip loads by local-dir:FOLDER (CLIP whole, of a captioner the image "
        "encoder), and timm and transformers (the image encoder); with --to hub also a model card made from its record, and the "
        "run itself. See docs/export.md.",
    )
    sub.add_argument("run", metavar="RUN", help="a run's id, as dense/ViT-T-12/mdc/s0, or its folder")
    sub.add_argument("folder", metavar="FOLDER", help="the folder to create; it must not exist, or be empty")
    sub.add_argument("--to", choices=["open_clip", "hub"], required=True, help="what the folder is for")
    _weights(sub)
    params(sub)
    sub.set_defaults(run_verb=main_of("mdc.app.export.command"), interrupted=NOTHING)


def _features_verb(verbs: Any) -> None:
    sub = verbs.add_parser(
        "features",
        help="what a run's encoder makes of your images, as a parquet file",
        description="Encode a folder of images, parquet files or webdataset shards (.tar), and write key, features and the run's "
        "hash of each image. An interrupted call resumes when rerun. See docs/export.md.",
    )
    sub.add_argument("run", metavar="RUN", help="a run's id, as dense/ViT-T-12/mdc/s0, or its folder")
    sub.add_argument(
        "images", metavar="FOLDER", help="a folder of images, of .parquet or of .tar files, or one such file"
    )
    sub.add_argument("--out", required=True, metavar="FILE", help="the parquet file to write")
    sub.add_argument(
        "--feature",
        choices=["probed", "cls", "patch_mean", "embedding"],
        default="probed",
        help="probed: as linear probes see it, [CLS] of CLIP and the mean of patches of captioners; embedding: CLIP's own; "
        "default: probed",
    )
    _weights(sub)
    sub.add_argument("--processes", type=int, metavar="N", help="default: as many as this process may use cores")
    sub.add_argument("--image-column", metavar="NAME", help="of parquet files; default: image, or what is usual")
    sub.add_argument(
        "--key-column", metavar="NAME", help="of parquet files; default: key, or what is usual, or row numbers"
    )
    params(sub)
    sub.set_defaults(run_verb=main_of("mdc.app.export.features"), interrupted=NOTHING)


def _demo_verb(verbs: Any) -> None:
    sub = verbs.add_parser(
        "demo",
        help="try a run on a page on this machine",
        description="Serve a page on 127.0.0.1: drop an image, see its caption being written, what each word looks at, scores of "
        "captions that you type, its class among yours, and gaps filled in. Nothing leaves this machine. Needs Gradio; "
        "see docs/export.md.",
    )
    sub.add_argument("run", metavar="RUN", help="a run's id, as dense/ViT-T-12/mdc/s0/ft-described, or its folder")
    _weights(sub)
    sub.add_argument("--port", type=int, default=7860, metavar="N", help="default: 7860; 0: any free port")
    sub.add_argument("--open", action="store_true", help="open the page in a browser")
    params(sub)
    sub.set_defaults(run_verb=main_of("mdc.app.demo.page"), interrupted="the page is closed")
