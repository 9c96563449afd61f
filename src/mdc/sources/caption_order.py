"""ARO's COCO-Order and Flickr30k-Order: every caption of Karpathy's test split against four orders of its own words.

As published: a caption is perturbed whole, then it and its perturbations are brought into one form and cut to
``max_words``. The published sets were drawn without a fixed seed, so theirs cannot be had again; here ``seed`` and the
caption's number decide. The perturbed captions show the marks of their making (a comma, an 's stand alone, where the
right one has them at a word), which the published ones do too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdc.formats.folders import NamedImages
from mdc.formats.samples import ChoiceSample, Skipped
from mdc.records import UserError
from mdc.sources import karpathy as source_karpathy
from mdc.sources import perturbations
from mdc.sources.tagging import Tagged, tagger, treebank_words

Source = Mapping[str, Any]


def samples(source: Source, data_dir: Path, skipped: Skipped) -> Iterator[ChoiceSample]:
    """One sample a caption, five options: the caption, nouns and adjectives permuted, the others, two of trigrams.

    ``id`` is Karpathy's number of the sentence. UserError where the split has no captions or the tagger is missing.
    """
    tag, _ = tagger(source.get("tagger", "spacy"))
    split, most, seed = source.get("split", "test"), source.get("max_words", 30), source.get("seed", 0)
    images = NamedImages(source_karpathy.image_folder(source, data_dir), skipped)
    chosen = [image for image in source_karpathy.listed(source, data_dir) if image.split == split]
    if not chosen:
        raise UserError(f"{source['path']}: no image of Karpathy's file is in split {split!r}; allowed: val, test")
    number = 0
    for image in chosen:
        for caption, caption_id in zip(image.captions, image.caption_ids, strict=True):
            key = f"{number:08d}"
            number += 1
            if (found := images.read(key, image.name)) is not None:
                options = tuple(options_of(caption, tag(caption), generator(seed, caption_id), most))
                yield ChoiceSample(key, *found, options=options, group="order", id=caption_id)


def options_of(caption: str, tagged: Tagged, rng: np.random.Generator, max_words: int) -> list[str]:
    """The caption and its four perturbations, in the published form; ``tagged``: its words and their tags."""
    words, tags = tagged
    orders = [perturb(words, tags, rng) for perturb in perturbations.TAGGED]
    orders += [perturb(treebank_words(caption), rng) for perturb in perturbations.UNTAGGED]
    return [perturbations.published_form(text, max_words) for text in (caption, *map(" ".join, orders))]


def generator(seed: int, caption_id: str) -> np.random.Generator:
    """The random numbers of one caption, whatever other captions there are."""
    digest = hashlib.blake2b(f"{seed} {caption_id}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))


def facts(source: Source) -> dict[str, Any]:
    """Which tagger made the options, for the set's index."""
    return {"tagger": tagger(source.get("tagger", "spacy"))[1]}
