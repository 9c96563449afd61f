"""ARO's COCO-Order and Flickr30k-Order: every caption of Karpathy's test split against four orders of its own words.

As published: a caption is perturbed whole, then it and its perturbations are brought into one form and cut to
``max_words``. The published sets were drawn without a fixed seed, so theirs cannot be had again; here ``seed`` and the
caption's number decide. The perturbed captions show the marks of their making (a comma, an 's stand alone, where the
right one has them at a word), which the published ones do too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import NamedImages, coco_image
from mdc.data.formats.samples import ChoiceSample, Skipped
from mdc.data.sources.choices.orders import generator, options_of
from mdc.data.sources.choices.tagging import tagger, treebank_words
from mdc.data.sources.cleaned import Choices
from mdc.data.sources.corpora import karpathy
from mdc.plan.records import UserError


class CaptionOrder(Choices):
    """One sample a caption, five options: the caption, nouns and adjectives permuted, the others, two of trigrams.

    ``id`` is Karpathy's number of the sentence. UserError where the split has no captions or the tagger is missing.
    """

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._tag, which = tagger(source["tagger"])
        self._words, tokenizer = treebank_words()
        self.facts = {"tagger": which, "tokenizer": tokenizer}
        split = source["split"]
        self._folder = karpathy.image_folder(source, data_dir)
        self._chosen = [image for image in karpathy.listed(source, data_dir) if image.split == split]
        if not self._chosen:
            raise UserError(f"{source['path']}: no image of Karpathy's file is in split {split!r}; allowed: val, test")

    def found(self, skipped: Skipped) -> Iterator[ChoiceSample]:
        most, seed, dataset = self.config["max_words"], self.config["seed"], self.config["dataset"]
        images = NamedImages(self._folder, skipped)
        number = 0
        for image in self._chosen:
            for caption, caption_id in zip(image.captions, image.caption_ids, strict=True):
                key = f"{number:08d}"
                number += 1
                if (read := images.read(key, image.name)) is not None:
                    options = tuple(
                        options_of(caption, self._tag(caption), self._words(caption), generator(seed, caption_id), most)
                    )
                    shown = coco_image(image.name) if dataset == "mscoco" else f"{dataset}:{image.name}"
                    yield ChoiceSample(key, *read, options=options, group="order", id=caption_id, image_name=shown)


def open_source(source: Mapping[str, Any], data_dir: Path) -> CaptionOrder:
    """See mdc.data.sources.source."""
    return CaptionOrder(source, data_dir)
