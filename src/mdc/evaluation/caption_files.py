"""The verb ``mdc metrics``: anybody's captions against references, as the COCO caption challenge measures them, and against
their images, by any CLIP of open_clip."""

from __future__ import annotations

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
    clip, by = _clip_scores(args, model, captions, references) if model is not None else ({}, None)
    program = java()
    given = tokens(program, {"": captions}, references)
    found = measure_all(given, program)[""]
    values = {name: one.value for name, one in found.items()}
    notes = {name: one.note for name, one in found.items() if one.note}
    values |= {name: sum(some) / len(some) for name, some in clip.items()}
    if given is not None:
        ours = [text for (text,) in given.systems[""].values()]
        recall = [content_recall(text, given.references[image]) for image, (text,) in given.systems[""].items()]
        values |= {
            "content recall": 100 * sum(recall) / len(recall),
            "distinct-1": 100 * distinct(ours, 1),
            "distinct-2": 100 * distinct(ours, 2),
            "self-BLEU": 100 * self_bleu(ours),
        }
    more = len(references.keys() - captions.keys())
    told = {"captions": len(captions), "without_caption": more, "metrics": values}
    told |= {"clip": by} if by is not None else {}
    if args.out:
        images = [
            {"image_id": ids[image], "caption": captions[image]}
            | {name: None if one.images is None else one.images[n] for name, one in found.items()}
            | {name: some[n] for name, some in clip.items()}
            for n, image in enumerate(captions)
        ]
        write_text(Path(args.out), json_text({**told, "notes": notes, "images": images}))
    if args.json:
        print(json.dumps({**told, "notes": notes}, indent=1))
        return
    unused = f"; {more} more {'images have' if more > 1 else 'image has'} references and no caption" if more else ""
    print(f"{told['captions']} captions{unused}; all × 100")
    for name, value in values.items():
        print(f"{name:<15}" + (f"{value:8.2f}" if value is not None else f"       –  {notes.get(name, '')}"))
    if by is not None:
        counts = [f"{by[key]} {said}" for key, said in CLIP_COUNTS.items() if by[key]]
        print("; ".join([f"CLIPScore by {by['model']}", *counts]))


# --- CLIPScore ------------------------------------------------------------------------------------------------------------


def _model(args: argparse.Namespace) -> OpenClip | None:
    """The CLIP that is asked for; None without images. UserError for one that cannot be."""
    if args.images is None:
        if args.clip is not None or args.clip_weights is not None:
            raise UserError("--clip, --clip-weights: CLIPScore looks at images; say with --images where they lie")
        return None
    name, weights = (
        (args.clip, args.clip_weights) if args.clip is not None else (_CLIP, args.clip_weights or _CLIP_WEIGHTS)
    )
    model = f"local-dir:{name}" if Path(name, "open_clip_config.json").is_file() else name
    label = f"{name} ({weights})" if weights is not None else name
    try:
        return OpenClip(kind="open_clip", label=label, model=model, weights=weights)
    except ValidationError as error:
        raise UserError(f"--clip: {first_problem(error)}") from None


def _clip_scores(
    args: argparse.Namespace, model: OpenClip, captions: Mapping[str, str], references: Mapping[str, list[str]]
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """CLIPScore and RefCLIPScore of each caption, and what is told of the model."""
    from mdc.evaluation.asked_models import open_clip_scorer
    from mdc.evaluation.clip_score import ClipScore  # torch takes seconds to import
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
    found = score.of(list(captions.values()), [None] * len(captions))
    return dict(zip(_CLIP_SCORES, map(list, zip(*found, strict=True)), strict=True)), score.told


def _files(args: argparse.Namespace, images: Sequence[str]) -> list[Path]:
    """The file of each image in the folder: as the references name it, else by its number or name."""
    folder = Path(args.images)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; --images says where the captioned images lie")
    there = sorted(path for path in folder.iterdir() if path.is_file())
    known = {str(image): path for image, path in zip(image_ids(there), there, strict=True)}
    named = read_file_names(Path(args.references))
    # a name that leads out of the folder is none
    inside = {image: Path(name) for image, name in named.items() if ".." not in Path(name).parts}
    known |= {image: folder / name for image, name in inside.items() if not name.is_absolute()}
    missing = [image for image in images if image not in known or not known[image].is_file()]
    if missing:
        raise UserError(
            f"{folder}: has no file of {len(missing)} of {len(images)} captioned images, the first is {missing[0]}"
        )
    return [known[image] for image in images]


@dataclass(frozen=True)
class _Files:
    """Image files, read as a corpus's shards are."""

    paths: Sequence[Path]

    def read(self, number: int) -> tuple[str, bytes, dict[str, Any]]:
        return self.paths[number].name, self.paths[number].read_bytes(), {}
