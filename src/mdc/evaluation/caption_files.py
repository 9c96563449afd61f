"""The verb ``mdc metrics``: captions against references, as in the COCO caption challenge, and against their images, by any
CLIP of open_clip."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from mdc.data.shards.index import ShardReader
from mdc.evaluation.captioned import Captioned
from mdc.evaluation.metrics.files import image_ids, read_captions, read_file_names, read_ids, read_references
from mdc.evaluation.metrics.java import java
from mdc.evaluation.metrics.metrics import measure_all, tokens
from mdc.evaluation.metrics.words import content_recall, distinct, self_bleu
from mdc.plan.config.caption_table import OpenClip
from mdc.plan.config.problems import first_problem
from mdc.plan.estimators import CLIP_COUNTS
from mdc.plan.records import UserError, json_text, write_text

_CLIP, _CLIP_WEIGHTS = "ViT-B-32-quickgelu", "openai"  # that of CLIPScore's authors, and of the paper
_CLIP_SCORES = ("CLIPScore", "RefCLIPScore")


def main(args: argparse.Namespace) -> None:
    """``args``: predictions, references, images, clip, clip_weights, json, out. UserError for files that cannot be read or do
    not fit together."""
    model = _model(args)
    captions, ids = read_captions(Path(args.predictions)), read_ids(Path(args.predictions))
    references = read_references(Path(args.references))
    if not captions:
        raise UserError(f"{args.predictions}: holds no caption")
    if missing := [image for image in captions if not references.get(image)]:
        raise UserError(
            f"{args.references}: {len(missing)} of {len(captions)} captioned images have no reference, the first is {missing[0]}"
        )
    clip, clip_model = _clip_scores(args, model, captions, references) if model is not None else ({}, None)
    program = java()
    tokenized = tokens(program, {"": captions}, references)
    measured = measure_all(tokenized, program)[""]
    values = {name: metric.value for name, metric in measured.items()}
    notes = {name: metric.note for name, metric in measured.items() if metric.note}
    values |= {name: sum(scores) / len(scores) for name, scores in clip.items()}
    if tokenized is not None:
        ours = [text for (text,) in tokenized.systems[""].values()]
        recall = [content_recall(text, tokenized.references[image]) for image, (text,) in tokenized.systems[""].items()]
        values |= {
            "content recall": 100 * sum(recall) / len(recall),
            "distinct-1": 100 * distinct(ours, 1),
            "distinct-2": 100 * distinct(ours, 2),
            "self-BLEU": 100 * self_bleu(ours),
        }
    more = len(references.keys() - captions.keys())
    metadata = {"captions": len(captions), "without_caption": more, "metrics": values}
    metadata |= {"clip": clip_model} if clip_model is not None else {}
    if args.out:
        images = [
            {"image_id": ids[image], "caption": captions[image]}
            | {name: None if metric.images is None else metric.images[n] for name, metric in measured.items()}
            | {name: scores[n] for name, scores in clip.items()}
            for n, image in enumerate(captions)
        ]
        write_text(Path(args.out), json_text({**metadata, "notes": notes, "images": images}))
    if args.json:
        print(json.dumps({**metadata, "notes": notes}, indent=1))
        return
    unused = f"; {more} more {'images have' if more > 1 else 'image has'} references and no caption" if more else ""
    print(f"{metadata['captions']} captions{unused}; all × 100")
    for name, value in values.items():
        print(f"{name:<15}" + (f"{value:8.2f}" if value is not None else f"       –  {notes.get(name, '')}"))
    if clip_model is not None:
        counts = [f"{clip_model[key]} {label}" for key, label in CLIP_COUNTS.items() if clip_model[key]]
        print("; ".join([f"CLIPScore by {clip_model['model']}", *counts]))


# --- CLIPScore ------------------------------------------------------------------------------------------------------------


def _model(args: argparse.Namespace) -> OpenClip | None:
    """The CLIP of the options; None without images. UserError for one that does not exist."""
    if args.images is None:
        if args.clip is not None or args.clip_weights is not None:
            raise UserError("--clip, --clip-weights: CLIPScore looks at images; say with --images where they lie")
        return None
    name, weights = (
        (args.clip, args.clip_weights) if args.clip is not None else (_CLIP, args.clip_weights or _CLIP_WEIGHTS)
    )
    model = f"local-dir:{name}" if Path(name, "open_clip_config.json").is_file() else name
    label = f"{name} ({weights})" if weights is not None else name
    if weights is not None and Path(weights).is_file():
        weights = str(Path(weights).absolute())  # named from here, not from the data folder
    try:
        return OpenClip(kind="open_clip", label=label, model=model, weights=weights)
    except ValidationError as error:
        raise UserError(f"--clip: {first_problem(error)}") from None


def _clip_scores(
    args: argparse.Namespace, model: OpenClip, captions: Mapping[str, str], references: Mapping[str, list[str]]
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """CLIPScore and RefCLIPScore of each caption, and metadata of the model."""
    from mdc.evaluation.clip_score import ClipScore  # torch takes seconds to import
    from mdc.evaluation.job_models import open_clip_scorer
    from mdc.training.device import choose_device

    files = _files(args, list(captions))
    images = Captioned(
        cast(ShardReader, _Files(files)),
        list(captions),
        [references[image] for image in captions],
        [None] * len(captions),
        [],
    )
    scorer, weights = open_clip_scorer(model.model, model.weights, "fp32", choose_device("auto"))
    score = ClipScore(scorer, images, model.prefix, {"model": model.label, "weights": weights})
    pairs = score.of(list(captions.values()), [None] * len(captions))
    return dict(zip(_CLIP_SCORES, map(list, zip(*pairs, strict=True)), strict=True)), score.metadata


def _files(args: argparse.Namespace, images: Sequence[str]) -> list[Path]:
    """The file of each image in the folder: as the references name it, else by its number or name."""
    folder = Path(args.images)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; --images says where the captioned images lie")
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    by_image = {str(image): path for image, path in zip(image_ids(paths), paths, strict=True)}
    named = read_file_names(Path(args.references))
    # names that lead out of the folder are ignored
    inside = {image: Path(name) for image, name in named.items() if ".." not in Path(name).parts}
    by_image |= {image: folder / name for image, name in inside.items() if not name.is_absolute()}
    missing = [image for image in images if image not in by_image or not by_image[image].is_file()]
    if missing:
        raise UserError(
            f"{folder}: has no file of {len(missing)} of {len(images)} captioned images, the first is {missing[0]}"
        )
    return [by_image[image] for image in images]


@dataclass(frozen=True)
class _Files:
    """Image files, read as a corpus's shards are."""

    paths: Sequence[Path]

    def read(self, number: int) -> tuple[str, bytes, dict[str, Any]]:
        return self.paths[number].name, self.paths[number].read_bytes(), {}
