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

One bad sample is counted by its reason and left out; a bad file is a UserError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from mdc.data import (
    source_digits,
    source_folder,
    source_nouns,
    source_pairs,
    source_parquet,
    source_table,
    source_webdataset,
)
from mdc.data.captions import clean_captions
from mdc.data.samples import RawSample, Skipped
from mdc.records import UserError

Source = Mapping[str, Any]

CORPORA = ("scenes", "parquet", "caption_table", "webdataset", "pairs")
PROBES = ("scenes", "digits", "parquet", "caption_nouns", "class_folder")


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
            from mdc.data import scenes

            count = int(source.get(split, 0))
            for sample in scenes.corpus_samples(source["style"], split, count, source["seed"], source["pixels"]):
                yield RawSample(sample.key, sample.png, "png", tuple(sample.captions), sample.truth)
        case "parquet":
            for row in source_parquet.rows(source, split, data_dir, skipped):
                yield from captioned(row.key, row.file, row.image, row.extension, row.captions)
        case "caption_table":
            for entry, image, extension in source_table.images(source, split, data_dir, skipped):
                yield from captioned(entry.key, entry.name, image, extension, entry.captions)
        case "webdataset":
            for found in source_webdataset.samples(source, split, data_dir, skipped):
                yield from captioned(*found)
        case "pairs":
            for found in source_pairs.samples(source, split, data_dir, skipped):
                yield from captioned(*found)
        case kind:
            _no_such(kind, "corpus", CORPORA)


def iter_probe(source: Source, split: str, data_dir: Path, skipped: Skipped | None = None) -> Iterator[RawSample]:
    """Labelled images of one split ("train" or "test") in a fixed order; see ``iter_corpus``."""
    skipped = Skipped() if skipped is None else skipped
    match source["kind"]:
        case "scenes":
            from mdc.data import scenes

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
        case kind:
            _no_such(kind, "probe", PROBES)


def probe_classes(source: Source, data_dir: Path) -> list[str]:
    """Class names in label order."""
    match source["kind"]:
        case "scenes":
            from mdc.data import scenes

            return list(scenes.PROBE_CLASSES[source["task"]])
        case "digits":
            return source_digits.CLASSES
        case "parquet":
            return source_parquet.class_table(source, data_dir)[0]
        case "caption_nouns":
            return list(source_nouns.noun_table(source, data_dir))
        case "class_folder":
            return source_folder.classes(source, data_dir)
        case kind:
            _no_such(kind, "probe", PROBES)


def probe_task(source: Source) -> str:
    """ "multi" where an image can have several of the classes, otherwise "single"."""
    return "multi" if source["kind"] == "caption_nouns" else "single"


def _no_such(kind: str, what: str, allowed: tuple[str, ...]) -> NoReturn:
    raise UserError(f"source kind {kind!r} is no {what}; allowed: {', '.join(allowed)}")
