"""The verb ``mdc metrics``: anybody's captions against references, as the COCO caption challenge measures them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mdc.captions.files import read_captions, read_references
from mdc.captions.java import java
from mdc.captions.metrics import measure_all, tokens
from mdc.captions.words import content_recall, distinct, self_bleu
from mdc.records import UserError, json_text, write_text


def main(args: argparse.Namespace) -> None:
    """``args``: predictions, references, json, out. UserError for files that cannot be read or do not fit together."""
    captions = read_captions(Path(args.predictions))
    references = read_references(Path(args.references))
    if not captions:
        raise UserError(f"{args.predictions}: holds no caption")
    if missing := [image for image in captions if not references.get(image)]:
        raise UserError(
            f"{args.references}: {len(missing)} of {len(captions)} captioned images have no reference, the first is {missing[0]}"
        )
    program = java()
    given = tokens(program, {"": captions}, references)
    found = measure_all(given, program)[""]
    values = {name: one.value for name, one in found.items()}
    notes = {name: one.note for name, one in found.items() if one.note}
    if given is not None:
        ours = [text for (text,) in given.systems[""].values()]
        recall = [content_recall(text, given.references[image]) for image, (text,) in given.systems[""].items()]
        values |= {
            "content recall": 100 * sum(recall) / len(recall),
            "distinct-1": 100 * distinct(ours, 1),
            "distinct-2": 100 * distinct(ours, 2),
            "self-BLEU": 100 * self_bleu(ours),
        }
    told = {"captions": len(captions), "without_caption": len(references.keys() - captions.keys()), "metrics": values}
    if args.out:
        images = [
            {"image_id": image} | {name: None if one.images is None else one.images[n] for name, one in found.items()}
            for n, image in enumerate(captions)
        ]
        write_text(Path(args.out), json_text({**told, "notes": notes, "images": images}))
    if args.json:
        print(json.dumps({**told, "notes": notes}, indent=1))
        return
    print(f"{told['captions']} captions; {told['without_caption']} images with references have none; all × 100")
    for name, value in values.items():
        print(f"{name:<15}" + (f"{value:8.2f}" if value is not None else f"       –  {notes.get(name, '')}"))
