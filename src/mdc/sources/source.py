"""Where samples come from: one validated ``source`` table in, raw samples out, the same in every run.

A source is a mapping with a ``kind``; :mod:`mdc.config` has a class for each, with all its keys:

``scenes``        the embedded world of shapes: a corpus in one of two styles, or a probe with one of five tasks
``digits``        a probe of scikit-learn's handwritten digits
``parquet``       a corpus or a probe in a parquet file or a folder of them
``caption_nouns`` a multi-label probe from captioned parquet files
``caption_table`` a corpus: a folder of images and a CSV, TSV or JSON-lines table of captions
``webdataset``    a corpus: tar shards as img2dataset writes them
``pairs``         a corpus: what was obtained from a list of URLs, or as a mirror's tars
``class_folder``  a probe: a folder of images for each class
``builder``       a probe: one of the paper's sets, as CLIP-benchmark's dataset builder reads it
``karpathy``      a corpus: MSCOCO, Flickr30k or Flickr8k by Karpathy's splits
``coco_captions`` a corpus: MSCOCO 2014 or 2017 by its official captions
``flickr8k``      a corpus: Flickr8k's own folder and lists
``cub``           a corpus: CUB-200-2011 with ten captions an image
``sugarcrepe``    a choice set: one of SugarCrepe's seven tasks
``aro``           a choice set: ARO's Visual Genome Relation or Attribution
``caption_order`` a choice set: ARO's order sets, made from Karpathy's captions

One bad sample is counted by its reason and left out; a bad file is a UserError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from mdc.formats.captions import clean_caption, clean_captions
from mdc.formats.samples import ChoiceSample, RawSample, Skipped
from mdc.records import UserError
from mdc.sources import aro as source_aro
from mdc.sources import builder as source_builder
from mdc.sources import caption_nouns as source_nouns
from mdc.sources import caption_order as source_caption_order
from mdc.sources import caption_table as source_table
from mdc.sources import class_folder as source_folder
from mdc.sources import coco_captions as source_coco
from mdc.sources import cub as source_cub
from mdc.sources import digits as source_digits
from mdc.sources import flickr8k as source_flickr8k
from mdc.sources import karpathy as source_karpathy
from mdc.sources import pairs as source_pairs
from mdc.sources import parquet as source_parquet
from mdc.sources import sugarcrepe as source_sugarcrepe
from mdc.sources import webdataset as source_webdataset
from mdc.text import clip_pieces

Source = Mapping[str, Any]

# kinds whose samples are (key, file, image, extension, captions)
_CAPTIONED = {
    "webdataset": source_webdataset.samples,
    "pairs": source_pairs.samples,
    "karpathy": source_karpathy.samples,
    "coco_captions": source_coco.samples,
    "flickr8k": source_flickr8k.samples,
    "cub": source_cub.samples,
}
_CHOICES = {
    "sugarcrepe": source_sugarcrepe.samples,
    "aro": source_aro.samples,
    "caption_order": source_caption_order.samples,
}
CORPORA = ("scenes", "parquet", "caption_table", *_CAPTIONED)
PROBES = ("scenes", "digits", "parquet", "caption_nouns", "class_folder", "builder")
CHOICES = tuple(_CHOICES)


def iter_corpus(source: Source, split: str, data_dir: Path, skipped: Skipped | None = None) -> Iterator[RawSample]:
    """Captioned images of one split ("train", "val" or "test") in a fixed order.

    ``skipped`` takes account of what was left out. UserError for a source that is missing, unreadable, or of a kind
    that is no corpus.
    """
    skipped = Skipped() if skipped is None else skipped

    def captioned(key: str, file: str, image: bytes, extension: str, texts: list[str]) -> Iterator[RawSample]:
        captions = clean_captions(texts, source.get("caption_mode", "each"), source.get("max_pieces"))
        if captions:
            yield RawSample(key, image, extension, captions)
        else:
            skipped.add("no caption", key, file, repr(texts[0]) if texts else "")

    match source["kind"]:
        case "scenes":
            from mdc.scenes import embedded as scenes

            count = int(source.get(split, 0))
            for sample in scenes.corpus_samples(source["style"], split, count, source["seed"], source["pixels"]):
                yield RawSample(sample.key, sample.png, "png", tuple(sample.captions), sample.truth)
        case "parquet":
            for row in source_parquet.rows(source, split, data_dir, skipped):
                yield from captioned(row.key, row.file, row.image, row.extension, row.captions)
        case "caption_table":
            for entry, image, extension in source_table.images(source, split, data_dir, skipped):
                yield from captioned(entry.key, entry.name, image, extension, entry.captions)
        case kind if kind in _CAPTIONED:
            for found in _CAPTIONED[kind](source, split, data_dir, skipped):
                yield from captioned(*found)
        case kind:
            _no_such(kind, "corpus", CORPORA)


def iter_probe(source: Source, split: str, data_dir: Path, skipped: Skipped | None = None) -> Iterator[RawSample]:
    """Labelled images of one split ("train" or "test") in a fixed order; see ``iter_corpus``."""
    skipped = Skipped() if skipped is None else skipped
    match source["kind"]:
        case "scenes":
            from mdc.scenes import embedded as scenes

            count = int(source.get(split, 0))
            for sample in scenes.probe_samples(source["task"], split, count, source["seed"], source["pixels"]):
                yield RawSample(sample.key, sample.png, "png", truth=sample.truth, label=sample.label)
        case "digits":
            yield from source_digits.samples(split, int(source.get("seed", 0)))
        case "parquet":
            classes, labels = source_parquet.class_table(source, data_dir)
            for row in source_parquet.rows(source, split, data_dir, skipped):
                if row.label in labels:
                    yield RawSample(row.key, row.image, row.extension, label=labels[row.label])
                elif row.label is None:
                    skipped.add("no label", row.key, row.file)
                else:
                    raise UserError(f"{source['path']}: label {row.label!r} is outside the {len(classes)} classes")
        case "caption_nouns":
            yield from source_nouns.samples(source, split, data_dir, skipped)
        case "class_folder":
            yield from source_folder.samples(source, split, data_dir, skipped)
        case "builder":
            yield from source_builder.samples(source, split, data_dir, skipped)
        case kind:
            _no_such(kind, "probe", PROBES)


def probe_classes(source: Source, data_dir: Path) -> list[str]:
    """Class names in label order."""
    match source["kind"]:
        case "scenes":
            from mdc.scenes import embedded as scenes

            return list(scenes.PROBE_CLASSES[source["task"]])
        case "digits":
            return source_digits.CLASSES
        case "parquet":
            return source_parquet.class_table(source, data_dir)[0]
        case "caption_nouns":
            return list(source_nouns.noun_table(source, data_dir))
        case "class_folder":
            return source_folder.classes(source, data_dir)
        case "builder":
            return source_builder.classes(source, data_dir)
        case kind:
            _no_such(kind, "probe", PROBES)


def probe_task(source: Source) -> str:
    """ "multi" where an image can have several of the classes, otherwise "single"."""
    multi = source["kind"] == "caption_nouns" or (
        source["kind"] == "builder" and source["dataset"] in source_builder.MULTI_LABEL
    )
    return "multi" if multi else "single"


def iter_choices(source: Source, data_dir: Path, skipped: Skipped | None = None) -> Iterator[ChoiceSample]:
    """Images with a right and one or more wrong captions, in the order of the published file.

    Captions are cleaned as those of a corpus are; a sample with an option that has no word is left out and counted.
    Other errors as in ``iter_corpus``.
    """
    skipped = Skipped() if skipped is None else skipped
    if source["kind"] not in _CHOICES:
        _no_such(source["kind"], "choice set", CHOICES)
    for sample in _CHOICES[source["kind"]](source, data_dir, skipped):
        options = tuple(map(clean_caption, sample.options))
        if all(map(clip_pieces, options)):
            yield replace(sample, options=options)
        else:
            skipped.add("no caption", sample.key, sample.id, repr(sample.options)[:200])


def choice_facts(source: Source) -> dict[str, Any]:
    """What the making of a choice set depends on besides its source and files: the tagger of the order sets."""
    return source_caption_order.facts(source) if source["kind"] == "caption_order" else {}


def _no_such(kind: str, what: str, allowed: tuple[str, ...]) -> NoReturn:
    raise UserError(f"source kind {kind!r} is no {what}; allowed: {', '.join(allowed)}")
